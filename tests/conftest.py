"""What the tests of several folders have in common."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from tests.forks import Forks


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    """The process that has imported torch, for jobs that need not do it anew."""
    server = Forks()
    yield server
    server.close()


def pytest_collection_finish() -> None:
    """All that thousands of tests are made of stays: collecting garbage need not look at it each time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)  # conversions make many objects, and let go of nearly all at their end
