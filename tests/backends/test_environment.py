"""Versions in the key of a binary: read from the folders of installed distributions."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

from minijit.backends import environment


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A first folder on ``sys.path``, with nothing remembered of what was found before."""
    monkeypatch.syspath_prepend(str(tmp_path))
    forget()
    yield tmp_path
    forget()


def forget() -> None:
    environment._version.cache_clear()
    environment._metadata_folders.cache_clear()


def version(name: str) -> str:
    return environment.compilers("cpu", name)[name]


@pytest.mark.parametrize("name", ["numba", "llvmlite", "numba-cuda", "cupy-cuda13x", "cuda-core"])
def test_versions_are_those_that_python_reports(site: Path, name: str) -> None:
    assert version(name) == metadata.version(name)


def test_what_is_not_installed_has_no_version(site: Path) -> None:
    assert version("minijit-of-nobody") == "none"


def test_another_version_is_seen(site: Path) -> None:
    for wanted in ("1.0", "1.1"):
        folder = site / f"Some_Compiler-{wanted}.dist-info"
        folder.mkdir()
        forget()
        assert version("some-compiler") == wanted
        folder.rmdir()


def test_what_an_upgrade_left_behind_is_not_taken_for_what_is_installed(site: Path) -> None:
    for each in ("1.0", "1.1"):
        (site / f"compiler-{each}.dist-info").mkdir()
    assert version("compiler") == "1.0 and 1.1"


def test_the_first_folder_counts_as_for_imports(site: Path) -> None:
    (site / "numba-0.1.dist-info").mkdir()
    assert version("numba") == "0.1"


def test_a_distribution_of_another_name_is_another_one(site: Path) -> None:
    (site / "compiler_extras-2.0.dist-info").mkdir()
    assert version("compiler") == "none"


def test_older_forms_of_metadata_are_read_as_well(site: Path) -> None:
    folder = site / "compiler-3.0.egg-info"
    folder.mkdir()
    (folder / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: compiler\nVersion: 3.0\n")
    assert version("compiler") == "3.0"
