"""A folder for each test, warnings that were not given yet, and a user who is not root."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from minijit.runtime.disk import Store, notice

NOBODY = 65534


@pytest.fixture(autouse=True)
def _nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notice, "_warned", set())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def store(root: Path) -> Store:
    return Store(root)


@pytest.fixture
def users_folder() -> Iterator[Path]:
    """A folder of a user whom modes bind; root becomes one for the length of the test."""
    folder = Path(tempfile.mkdtemp())
    was = os.geteuid()
    if was == 0:
        os.chown(folder, NOBODY, NOBODY)
        os.seteuid(NOBODY)
    try:
        yield folder
    finally:
        os.seteuid(was)
        shutil.rmtree(folder)
