"""What is drawn at random, and whether every process draws alike."""
