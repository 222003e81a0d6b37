"""What inserted code needs where it stands: modules that it uses, and imports of them."""
