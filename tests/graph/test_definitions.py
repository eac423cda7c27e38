"""Which text stands for a function: the one it was compiled from, or none."""

from __future__ import annotations
import __future__

import ast
import importlib.util
import zipfile
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

from minijit.graph.definitions import definition


@pytest.fixture(autouse=True)
def nothing_is_known() -> None:
    """Equal code of another test would have its answer."""
    definition.cache_clear()


def loaded(path: Path, text: str) -> FunctionType:
    """The function `f` of a module that is written to `path` and run."""
    path.write_text(text)
    names: dict[str, Any] = {}
    exec(compile(text, str(path), "exec", dont_inherit=True), names)
    function = names["f"]
    assert isinstance(function, FunctionType)
    return function


def result(function: FunctionType) -> str | None:
    """The text of what a function of one statement returns."""
    tree = definition(function.__code__)
    if tree is None:
        return None
    if isinstance(tree, ast.Lambda):
        return ast.unparse(tree.body)
    return ast.unparse(tree.body[-1]).removeprefix("return ")


def test_a_function_that_is_edited_and_run_again_is_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "edited.py"
    first = loaded(path, "def f(x):\n    return x + 1\n")
    assert result(first) == "x + 1"
    second = loaded(path, "def f(x):\n    return x + 20\n")
    assert result(second) == "x + 20"


@pytest.mark.parametrize(
    "later",
    [
        "def f(x):\n    return x + 2\n",
        "\n\ndef f(x):\n    return x + 1\n",
        "def g(x):\n    return x + 1\n",
        "def f(x:\n",
        "\0",
        "",
    ],
)
def test_a_text_that_has_changed_since_is_not_taken(tmp_path: Path, later: str) -> None:
    path = tmp_path / "changed.py"
    function = loaded(path, "def f(x):\n    return x + 1\n")
    path.write_text(later)
    assert result(function) is None


def test_a_comment_may_be_added_behind(tmp_path: Path) -> None:
    path = tmp_path / "comment.py"
    function = loaded(path, "def f(x):\n    return x + 3\n")
    path.write_text("def f(x):\n    return x + 3\n# The end.\n")
    assert result(function) == "x + 3"


def test_text_in_another_encoding(tmp_path: Path) -> None:
    path = tmp_path / "latin.py"
    path.write_bytes("# coding: latin-1\nf = lambda é: é * 2\n".encode("latin-1"))
    spec = importlib.util.spec_from_file_location("latin", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert result(module.f) == "é * 2"


def test_functions_of_archives_have_no_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / "archive.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("minijit_in_an_archive.py", "def f(x):\n    return x + 1\n")
    monkeypatch.syspath_prepend(str(archive))
    module = importlib.import_module("minijit_in_an_archive")
    assert result(module.f) is None


@pytest.mark.parametrize("arguments", ["x, /", "x, *, k=1", "*x", "**x", "x=1"])
def test_arguments_are_positions(tmp_path: Path, arguments: str) -> None:
    assert result(loaded(tmp_path / "arguments.py", f"def f({arguments}):\n    return 1\n")) is None


def test_a_future_import_of_an_earlier_cell_holds(tmp_path: Path) -> None:
    path = tmp_path / "cell.py"
    path.write_text("def f(x):\n    return x + 1\n")
    names: dict[str, Any] = {}
    flags = __future__.annotations.compiler_flag
    exec(compile(path.read_text(), str(path), "exec", flags=flags, dont_inherit=True), names)
    assert result(names["f"]) == "x + 1"


@pytest.mark.parametrize(
    "text",
    [
        "x + 1",
        "1.0",
        "x if x > 0 else -x",
        "1.0 if x > 0 else 2.0",
        "x if x > 0 else 1.0 if x < -1 else 2.0",
        "x > 0 and x",
        "(lambda y: y)(x) if x > 0 else x",
    ],
)
def test_one_of_two_lambdas_of_a_line(tmp_path: Path, text: str) -> None:
    line = f"g, f = lambda x: (x if x > 0 else 3 * x), lambda x: {text}\n"
    assert result(loaded(tmp_path / "lambdas.py", line)) == text
