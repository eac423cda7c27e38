"""Which operations of a program users have declared: what minijit's own do, its version says."""

from __future__ import annotations

import dataclasses
import enum
import functools
import weakref
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np

from minijit.graph.jaxpr import Jaxpr, equations
from minijit.graph.primitive import RULES, Primitive

__all__ = ["primitives_of", "users_primitives"]

_LIBRARIES = frozenset({"builtins", "math", "minijit", "numpy", "operator"})


def primitives_of(jaxpr: Jaxpr) -> dict[str, Primitive] | None:
    """Return the operations of a program by name; None where two of them share one."""
    found: dict[str, Primitive] = {}
    for eqn in equations(jaxpr.eqns):
        primitive = eqn.primitive
        if found.setdefault(primitive.name, primitive) is not primitive:
            return None
    return found


def users_primitives(primitives: dict[str, Primitive]) -> list[Primitive]:
    """Return those that hold anything that is not minijit's own, in order of their names."""
    return [primitive for _, primitive in sorted(primitives.items()) if not _is_known(primitive)]


_known: weakref.WeakKeyDictionary[Primitive, bool] = weakref.WeakKeyDictionary()


def _is_known(primitive: Primitive) -> bool:
    found = _known.get(primitive)
    if found is None:
        found = _known[primitive] = _is_own(primitive)
    return found


def _is_own(value: Any) -> bool:
    """Whether a value, and all that functions close over, comes with minijit or its libraries.

    What a function of minijit's own reads besides that is minijit's own as well.
    """
    if isinstance(value, FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        defaults = [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
        # Not ``__module__``, in which functools.wraps writes that of another function.
        known = _is_minijit(value.__globals__.get("__name__"))
        return known and all(map(_is_own, [*cells, *defaults]))
    if isinstance(value, functools.partial):
        return all(map(_is_own, (value.func, *value.args, *value.keywords.values())))
    if isinstance(value, tuple | frozenset):
        return all(map(_is_own, value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        if isinstance(value, Primitive):  # what rules make of it are other equations
            names = [name for name in names if name not in RULES]
        fields = (getattr(value, name) for name in names)
        return _is_minijit(type(value).__module__) and all(map(_is_own, fields))
    if isinstance(value, type | BuiltinFunctionType):
        return (value.__module__ or "").partition(".")[0] in _LIBRARIES
    if isinstance(value, enum.Enum):
        return _is_minijit(type(value).__module__)
    return isinstance(value, bool | int | float | str | None | np.generic | np.dtype | np.ufunc)


def _is_minijit(module: str | None) -> bool:
    return (module or "").partition(".")[0] == "minijit"
