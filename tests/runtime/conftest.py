"""Each test draws the same random numbers, whichever ran before it."""

from __future__ import annotations

import pytest

from tests.runtime.host_programs import RANDOM

_START = RANDOM.bit_generator.state


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    """Start the generator again."""
    RANDOM.bit_generator.state = _START
