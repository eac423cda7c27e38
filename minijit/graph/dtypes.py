"""Which dtypes exist, how they are abbreviated, and which one a Python scalar has (NEP 50)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from minijit.graph.config import config
from minijit.graph.source_info import here

__all__ = [
    "BOOL",
    "DTypeLike",
    "canonical_dtype",
    "default_dtype",
    "is_floating",
    "is_integer",
    "python_scalar_dtype",
    "short_name",
]

DTypeLike = npt.DTypeLike | None

BOOL = np.dtype(np.bool_)
_SHORT = {
    "bool": "bool",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint8": "u8",
    "uint16": "u16",
    "uint32": "u32",
    "uint64": "u64",
    "float16": "f16",
    "float32": "f32",
    "float64": "f64",
}
_PYTHON_SCALARS: dict[type, np.dtype[Any]] = {
    bool: BOOL,
    int: np.dtype(np.int64),
    float: np.dtype(np.float64),
}


def canonical_dtype(dtype: DTypeLike) -> np.dtype[Any]:
    """Return ``dtype`` as a native ``numpy.dtype`` that minijit computes with.

    Args:
        dtype: Anything ``numpy.dtype`` accepts; ``float`` and ``int`` mean NumPy's defaults.

    Raises:
        TypeError: for an unknown dtype, and for one that minijit has no code for (object, complex,
            strings, dates, structured), or whose bytes are not in the machine's order.
    """
    try:
        result = np.dtype(dtype)
    except TypeError as error:
        raise TypeError(f"{dtype!r} is not a dtype that NumPy knows{here()}") from error
    if result.name in _SHORT and result.isnative:
        return result
    if not result.isnative:
        raise TypeError(
            f"dtype {result.str!r} has the wrong byte order for this machine; convert the array "
            f"first: x.astype({result.newbyteorder('=').str!r})"
        )
    if result.kind == "c":
        advice = "compute with the real and the imaginary part as two float arrays"
    elif result.kind == "O":
        advice = "an object array holds Python objects; convert it: np.asarray(x, dtype=np.float64)"
    else:
        advice = "convert the array to a bool, integer or float dtype first"
    raise TypeError(f"minijit cannot compute with dtype {result.name!r}{here()}: {advice}")


def short_name(dtype: np.dtype[Any]) -> str:
    """Return the abbreviation that jaxprs print, for example ``f32``."""
    return _SHORT.get(dtype.name, dtype.name)


def python_scalar_dtype(value: object) -> np.dtype[Any] | None:
    """Return the dtype a bare Python scalar is traced with, or None for any other object.

    ``bool`` is tested before ``int`` since it is a subclass of it; NumPy's own scalar types that
    subclass ``float`` (``numpy.float64``) are not Python scalars.
    """
    dtype = _PYTHON_SCALARS.get(type(value))
    if dtype is None and isinstance(value, (int, float)) and not isinstance(value, np.generic):
        return _PYTHON_SCALARS[int if isinstance(value, int) else float]  # an IntEnum, for example
    return dtype


def is_floating(dtype: np.dtype[Any]) -> bool:
    """Return whether ``dtype`` is a floating-point dtype."""
    return dtype.kind == "f"


def is_integer(dtype: np.dtype[Any]) -> bool:
    """Return whether ``dtype`` is a signed or unsigned integer dtype."""
    return dtype.kind in "iu"


def default_dtype(kind: type) -> np.dtype[Any]:
    """Return the dtype that creation functions give ``float``, ``int`` or ``bool`` data."""
    if kind is bool:
        return BOOL
    return canonical_dtype(config.default_int if kind is int else config.default_float)
