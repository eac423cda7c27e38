"""Plug-ins: found by entry point, imported when asked for, thread-safe, told when they fail."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from minijit.extend import all_primitives, load_plugin, plugins, scope
from minijit.graph.errors import DeclarationError
from minijit.graph.primitive import find_primitive

CODE = """
from minijit.extend import elementwise

@elementwise(name="plugged_in")
def plugged_in(x):
    return x + 1
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed distribution with two entry points, the second of which is broken."""
    info = tmp_path / "plugged-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugged\nVersion: 1.0\n")
    points = "plugged_in = plugged_module:plugged_in\nbroken = plugged_broken:x\n"
    (info / "entry_points.txt").write_text(f"[minijit.primitives]\n{points}")
    (tmp_path / "plugged_module.py").write_text(CODE)
    (tmp_path / "plugged_broken.py").write_text("raise OSError('no such device')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


@pytest.mark.usefixtures("package")
def test_a_plug_in_is_imported_when_its_primitive_is_asked_for() -> None:
    assert {"broken", "plugged_in"} <= set(plugins())
    assert "plugged_module" not in sys.modules
    with pytest.raises(KeyError):
        find_primitive("not_offered")
    assert "plugged_module" not in sys.modules
    with scope():
        assert find_primitive("plugged_in").name == "plugged_in"
    # It stays, though a scope was open.
    assert "plugged_in" in {primitive.name for primitive in all_primitives()}
    assert load_plugin("plugged_in").primitive is find_primitive("plugged_in")


@pytest.mark.usefixtures("package")
def test_a_plug_in_that_fails_is_named() -> None:
    with pytest.raises(DeclarationError, match=r"'broken' of plugged .*no such device"):
        load_plugin("broken")
