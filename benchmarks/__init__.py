"""The figures that the documents quote, measured here and now: see :mod:`benchmarks.__main__`."""
