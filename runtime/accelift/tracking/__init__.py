"""Trackers: where the numbers of a run are written to."""
