"""Where values go: the searches forward from where they are read."""
