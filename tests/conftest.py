"""What the tests of several folders have in common."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.forks import Forks


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    """The process that has imported torch, for jobs that need not do it anew."""
    server = Forks()
    yield server
    server.close()
