"""What the tests of generated scripts have in common."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.generated.running import Workshop


@pytest.fixture(scope="session")
def workshop() -> Iterator[Workshop]:
    """The process that runs scripts."""
    with Workshop() as one:
        yield one
