"""What is a number of rows, and follows the size of a batch."""
