"""The same random numbers for each test, whichever ran before it, and a disk of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import minijit
from minijit.graph.config import config
from minijit.runtime.disk import notice
from tests.runtime.host_programs import RANDOM

_START = RANDOM.bit_generator.state


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    """Start the generator again."""
    RANDOM.bit_generator.state = _START


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A store of its own for the test, of which nothing has been said yet."""
    monkeypatch.setattr(notice, "_warned", set())
    minijit.clear_caches()
    options = {"compilation_cache": "rw", "compilation_cache_dir": str(tmp_path / "cache")}
    with config.override(**options):
        yield tmp_path / "cache"
    minijit.clear_caches()
