"""What networks have inside, or are given, that matters on several processes."""
