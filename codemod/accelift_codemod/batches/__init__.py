"""How the samples of a batch depend on each other."""
