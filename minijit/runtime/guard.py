"""A function that compares, by identity, what names stand for with what they stood for.

It is made of a template's bytecode, in which the user's names are data: no text of the user's is
ever compiled. Reading names as Python reads them is several times quicker than asking dictionaries.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from types import CellType, CodeType, FunctionType
from typing import Any

__all__ = ["UNDEFINED", "Guard", "make_guard"]


class _Undefined:
    """Stands for a name that nothing is bound to."""

    def __repr__(self) -> str:
        return "undefined"


UNDEFINED = _Undefined()

Guard = Callable[[], bool]
"""Whether all names still stand for the same objects."""


def make_guard(
    namespaces: Sequence[tuple[dict[str, Any], Mapping[str, Any]]],
    cells: Sequence[tuple[CellType, Any]],
    members: Sequence[tuple[type, str, Any]] = (),
) -> Guard | None:
    """Return a guard; None when there is nothing to compare.

    Args:
        namespaces: Globals of modules, each with names and the objects that they stood for there
            or among the builtins.
        cells: Variables of functions, and the objects that they stood for.
        members: Classes, names in them, and what they stood for: ``UNDEFINED`` for nothing.
    """
    guard: Guard | None = None
    if cells or members:
        guard = _guard({}, (), cells, members, None)
    for namespace, values in namespaces:
        guard = _guard(namespace, tuple(values.items()), (), (), guard)
    return guard


def _guard(
    namespace: dict[str, Any],
    names: Sequence[tuple[str, Any]],
    cells: Sequence[tuple[CellType, Any]],
    members: Sequence[tuple[type, str, Any]],
    rest: Guard | None,
) -> Guard:
    code, slots = _template(len(names), len(cells), len(members), rest is not None)
    named = dict(zip(slots, (name for name, _ in names), strict=True))
    code = code.replace(co_names=tuple(named[slot] for slot in code.co_names))
    known = (*(value for _, value in names), *(value for _, value in cells))
    looks = (part for owner, name, value in members for part in (vars(owner).get, name, value))
    values = (NameError, UNDEFINED, rest, *known, *looks)
    closure = tuple(cell for cell, _ in cells)
    return FunctionType(code, namespace, "guard", values, closure)


@functools.lru_cache(maxsize=256)
def _template(names: int, cells: int, members: int, rest: bool) -> tuple[CodeType, tuple[str, ...]]:
    """Return the code of a guard, and its global names, which stand for the user's."""
    slots = tuple(f"global_{n}" for n in range(names))
    # Closures go by sorted name.
    owned = tuple(f"cell_{n:06d}" for n in range(cells))
    read = (*slots, *owned)
    tests = [f"{name} is was_{name}" for name in read]
    tests += [f"get_{n}(name_{n}, undefined) is was_{n}" for n in range(members)]
    tests += ["rest()"] * rest
    looks = [f"{part}_{n}" for n in range(members) for part in ("get", "name", "was")]
    known = [f"was_{name}" for name in read]
    parameters = ", ".join(("error", "undefined", "rest", *known, *looks))
    text = (
        f"def around({', '.join(owned)}):\n"
        f"    def guard({parameters}):\n"
        f"        try:\n"
        f"            return {' and '.join(tests)}\n"
        f"        except error:\n"
        f"            return False\n"
    )
    return _inner(_inner(compile(text, "<guard>", "exec"))), slots


def _inner(code: CodeType) -> CodeType:
    return next(constant for constant in code.co_consts if isinstance(constant, CodeType))
