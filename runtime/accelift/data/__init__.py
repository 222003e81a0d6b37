"""Prepared loaders: what each process is dealt, and how.  Loaded when the first loader is prepared."""
