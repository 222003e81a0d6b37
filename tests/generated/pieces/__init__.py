"""What generated scripts are made of: one module for each concern."""
