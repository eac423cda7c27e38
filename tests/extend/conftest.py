"""What a test here declares, it declares for itself: names may be used again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from minijit.extend import scope


@pytest.fixture(autouse=True)
def _own_scope() -> Iterator[None]:
    with scope():
        yield
