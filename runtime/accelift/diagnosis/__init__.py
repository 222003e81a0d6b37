"""Saying what is wrong: at prepare, where processes wait for each other, disagree or drift apart."""
