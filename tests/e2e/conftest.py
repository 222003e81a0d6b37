"""What the tests of whole runs have in common."""

from __future__ import annotations

import pytest

from tests.e2e.runner import Runner
from tests.forks import Forks


@pytest.fixture
def run(forks: Forks) -> Runner:
    """Runs scripts, in less than a second each."""
    return Runner(forks)
