"""ndarray's methods and attributes on tracers, in ndarray's (and CuPy's) order of arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from minijit.graph.source_info import user_line
from minijit.graph.tracer import functions, methods, properties
from minijit.ops.shape import transpose as transpose_axes
from minijit.ops.update import At

__all__: list[str] = []


def _reshape(x: Any, *shape: Any, order: str = "C", copy: bool | None = None) -> Any:
    """``x.reshape(2, 3)`` and ``x.reshape((2, 3))`` alike."""
    return functions["reshape"](x, shape[0] if len(shape) == 1 else shape, order, copy=copy)


def _transpose(x: Any, *axes: Any) -> Any:
    """``x.transpose()``, ``x.transpose(1, 0)`` and ``x.transpose((1, 0))`` alike."""
    if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], (tuple, list))):
        return transpose_axes(x, axes[0])
    return transpose_axes(x, axes or None)


def _flatten(x: Any, order: str = "C") -> Any:
    return functions["ravel"](x, order)


def _copy(x: Any, order: str = "C") -> Any:
    return x


def _itself(x: Any) -> Any:
    return x


def _refusal(name: str, remedy: str, error: type[Exception] = TypeError) -> Callable[..., NoReturn]:
    def refuse(x: Any, *args: Any, **kwargs: Any) -> NoReturn:
        raise error(f"a traced array has no {name} (at {user_line()}): {remedy}")

    return refuse


methods.update(
    {
        "reshape": _reshape,
        "transpose": _transpose,
        "flatten": _flatten,
        "copy": _copy,
        "block_until_ready": _itself,
    }
)
properties.update(
    {
        "T": transpose_axes,
        "at": At,
        "mT": functions["matrix_transpose"],
    }
)

_IN_PLACE = "it never changes in place; "
_NO_MEMORY = "it has no memory while the function is traced"
methods.update(
    {
        name: _refusal(f"method {name}()", remedy)
        for name, remedy in {
            "fill": _IN_PLACE + "write minijit.numpy.full_like(x, value)",
            "sort": _IN_PLACE + "write minijit.numpy.sort(x)",
            "partition": _IN_PLACE + "write minijit.numpy.sort(x)",
            "put": _IN_PLACE + "write x.at[index].set(values)",
            "itemset": _IN_PLACE + "write x.at[index].set(value)",
            "resize": _IN_PLACE + "write x.reshape(shape), or minijit.numpy.pad",
            "setfield": _IN_PLACE + "write minijit.numpy.where(mask, value, x)",
            "setflags": _IN_PLACE + "and has no flags",
            "byteswap": _NO_MEMORY,
            "view": _NO_MEMORY + "; x.astype(dtype) converts the values",
            "getfield": _NO_MEMORY,
            "tobytes": _NO_MEMORY,
            "tofile": _NO_MEMORY,
            "dump": _NO_MEMORY,
            "dumps": _NO_MEMORY,
            "get": "its values are known only when the compiled function has run; return it",
            "argsort": "sorting is not part of this release",
            "argpartition": "sorting is not part of this release",
            "searchsorted": "searching is not part of this release",
            "choose": "write minijit.numpy.where",
        }.items()
    }
)
# AttributeError, so that hasattr() tells the truth.
properties.update(
    {
        name: _refusal(f"attribute {name!r}", remedy, AttributeError)
        for name, remedy in {
            "strides": _NO_MEMORY,
            "flags": _NO_MEMORY,
            "data": _NO_MEMORY,
            "base": _NO_MEMORY,
            "ctypes": _NO_MEMORY,
            "flat": "write x.ravel()",
        }.items()
    }
)
