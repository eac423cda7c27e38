"""Functions whose result's shape depends on data: NumPy's own on arrays, refused on tracers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minijit.graph.trace import array_namespace
from minijit.graph.tracer import functions, methods
from minijit.ops.index import refuse_mask
from minijit.ops.promote import is_traced

__all__ = [
    "argwhere",
    "compress",
    "extract",
    "flatnonzero",
    "intersect1d",
    "nonzero",
    "setdiff1d",
    "setxor1d",
    "trim_zeros",
    "union1d",
    "unique",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
]


def _data_dependent(name: str) -> Callable[..., Any]:
    def traced(*args: Any, **kwargs: Any) -> Any:
        refuse_mask(f"{name}()")

    def function(*args: Any, **kwargs: Any) -> Any:
        if is_traced(*args):
            refuse_mask(f"{name}()")
        return getattr(array_namespace(args), name)(*args, **kwargs)

    functions[name] = traced
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"NumPy's ``{name}``; NonConcreteBooleanIndexError while tracing."
    return function


argwhere = _data_dependent("argwhere")
compress = _data_dependent("compress")
extract = _data_dependent("extract")
flatnonzero = _data_dependent("flatnonzero")
intersect1d = _data_dependent("intersect1d")
nonzero = _data_dependent("nonzero")
setdiff1d = _data_dependent("setdiff1d")
setxor1d = _data_dependent("setxor1d")
trim_zeros = _data_dependent("trim_zeros")
union1d = _data_dependent("union1d")
unique = _data_dependent("unique")
unique_all = _data_dependent("unique_all")
unique_counts = _data_dependent("unique_counts")
unique_inverse = _data_dependent("unique_inverse")
unique_values = _data_dependent("unique_values")

methods["nonzero"] = functions["nonzero"]
methods["compress"] = functions["compress"]
