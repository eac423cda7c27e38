"""What kernels need to know of Python functions that they call."""

from __future__ import annotations

from types import FunctionType
from typing import Any

from minijit.backends.frontend.values import Known

__all__ = ["device_code", "free_names"]


def device_code(value: Any) -> FunctionType | None:
    """Return the function that Numba compiles for ``value`` as its text says, or None.

    Declared signatures and types of variables cast, and fast mathematics changes results: such
    functions are Numba's, as are functions that only it knows.
    """
    python = getattr(value, "py_func", None)
    if not isinstance(python, FunctionType) or not getattr(value, "_can_compile", False):
        return None
    special = value.targetoptions.get("fastmath") or getattr(value, "locals", None)
    return None if special else python


def free_names(function: FunctionType) -> dict[str, Known]:
    """Return what the names in a function stand for that are not its own."""
    code = function.__code__
    cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
    names = {name: Known(cell.cell_contents) for name, cell in cells}
    for name in code.co_names:
        if name not in names and name in function.__globals__:
            names[name] = Known(function.__globals__[name])
    return names
