"""Renderers: what a run's results look like, one module per format."""
