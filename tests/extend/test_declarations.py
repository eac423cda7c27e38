"""The page of declarations has every field; minijit's own use nothing that authors lack."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest

import minijit.extend
from minijit.extend import Monoid, Primitive, Scalar, custom_call, pattern
from minijit.extend.elementwise import _declared as elementwise_options
from minijit.extend.reduction import _declared as reduction_options
from tests.documents import ROOT

PAGE = (ROOT / "docs" / "reference" / "declarations.md").read_text()
CONSTRUCTORS = {"choice", "elementwise", "library", "plain", "reduction", "register", "typed"}


def rows(section: str) -> set[str]:
    """What the table of a section names."""
    text = re.split(r"^## ", PAGE, flags=re.MULTILINE)
    (found,) = [part for part in text if part.startswith(f"{section}\n")]
    first = [line.split("|")[1] for line in found.splitlines() if line.startswith("| `")]
    return {name for cell in first for name in re.findall(r"`(\w+)`", cell)}


@pytest.mark.parametrize("record", [Primitive, Scalar, Monoid], ids=lambda r: r.__name__)
def test_every_field_is_in_the_reference(record: Any) -> None:
    assert rows(record.__name__) == {field.name for field in dataclasses.fields(record)}


@pytest.mark.parametrize(
    ("section", "function"),
    [
        ("@elementwise", elementwise_options),
        ("@reduction", reduction_options),
        ("custom_call", custom_call),
        ("pattern", pattern),
    ],
)
def test_every_option_is_in_the_reference(section: str, function: Callable[..., Any]) -> None:
    options = set(inspect.signature(function).parameters) - {"given"}
    if section == "custom_call":
        options -= {"name"}
    assert rows(section) == options


def imported(text: str) -> set[tuple[str, str]]:
    """The names that a module imports, each with the module that it comes from."""
    nodes = (n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.ImportFrom))
    return {(n.module or "", alias.name) for n in nodes for alias in n.names}


def test_declarations_of_minijit_use_what_extend_offers() -> None:
    offered = set(minijit.extend.__all__)
    homes = {"minijit.ops.define", "minijit.ops.library", "minijit.graph.primitive"}
    # What is no part of a declaration: the class of results, types, a look-up, defaults.
    others = {"Elementwise", "Rule", "find_primitive"}
    others |= {"Derived", "JvpRule", "UNDECLARED", "VjpRule"}
    seen = set()
    for path in sorted((ROOT / "minijit" / "ops").glob("*.py")):
        if path.stem not in ("define", "library"):
            seen |= {name for home, name in imported(path.read_text()) if home in homes}
    assert seen > CONSTRUCTORS
    assert seen - others <= offered
