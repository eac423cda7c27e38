"""Promotion and broadcasting: the two conversions every operation does before it is recorded."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from minijit.graph.aval import ShapedArray
from minijit.graph.dtypes import canonical_dtype, python_scalar_dtype
from minijit.graph.index import Affine
from minijit.graph.primitive import LINEAR, Kind, Primitive, Scalar, find_primitive, register
from minijit.graph.source_info import user_line
from minijit.graph.trace import abstractify, bind, current_trace
from minijit.graph.tracer import Tracer
from minijit.ops.axes import inserted, shifted

__all__ = [
    "as_operand",
    "broadcast_in_dim_p",
    "broadcast_operands",
    "broadcast_shapes",
    "broadcast_to",
    "convert",
    "convert_element_type_p",
    "is_traced",
    "loop_dtypes",
    "operand_aval",
    "result_dtype",
]


def is_traced(*args: Any) -> bool:
    """Whether an operation on ``args`` is to be recorded rather than computed."""
    return current_trace() is not None or any(isinstance(arg, Tracer) for arg in args)


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape that ``shapes`` broadcast to.

    Raises:
        ValueError: they do not, with the user's line.
    """
    distinct = {shape for shape in shapes if shape}
    if len(distinct) <= 1:
        return distinct.pop() if distinct else ()
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        listed = ", ".join(map(str, shapes))
        raise ValueError(f"shapes {listed} do not broadcast together (at {user_line()})") from None


def as_operand(value: Any) -> Any:
    """Return ``value``, with lists and tuples of numbers made arrays as NumPy's functions do."""
    return np.asarray(value) if isinstance(value, (list, tuple)) else value


def operand_aval(value: Any) -> ShapedArray:
    """Return the aval of an operand; a Python integer of any size is a weak int64.

    Whether it fits is decided by :func:`convert`, when the dtype that it takes is known.

    Raises:
        TypeError: it is neither an array nor a number.
        UnexpectedTracerError: it was traced by a function that has returned.
    """
    if type(value) is int:
        return ShapedArray((), np.dtype(np.int64), weak_type=True)
    if value is None or isinstance(value, (str, bytes)):
        raise TypeError(
            f"{value!r} is no operand of an array operation (at {user_line()})"
            + ("; write `x is None` to ask whether there is an array" if value is None else "")
        )
    return abstractify(value)


def result_dtype(avals: Sequence[ShapedArray]) -> np.dtype[Any]:
    """Return the dtype to which NumPy promotes values, weak ones by their kind (NEP 50)."""
    weak_values = {"i": 0, "f": 0.0}
    given = [weak_values[a.dtype.kind] if a.weak_type else a.dtype for a in avals]
    return canonical_dtype(np.result_type(*given))


def loop_dtypes(
    ufunc: np.ufunc, avals: Sequence[ShapedArray], dtype: np.dtype[Any] | None = None
) -> tuple[np.dtype[Any], ...]:
    """Return the operand and result dtypes with which NumPy computes ``ufunc`` (NEP 50).

    Args:
        ufunc: The ufunc.
        avals: Its operands.
        dtype: The result dtype that the caller asked for (the ufunc's option ``dtype=``).

    Raises:
        TypeError: NumPy has no such loop (for example ``-`` of bools), or its result is complex.
    """
    try:
        return _resolve(ufunc, tuple((a.dtype, a.weak_type) for a in avals), dtype)
    except TypeError as error:
        types = ", ".join(aval.dtype.name for aval in avals)
        raise TypeError(
            f"np.{ufunc.__name__} is not defined for {types} (at {user_line()}): {error}"
        ) from None


@functools.cache
def _resolve(
    ufunc: np.ufunc,
    operands: tuple[tuple[np.dtype[Any], bool], ...],
    result: np.dtype[Any] | None,
) -> tuple[np.dtype[Any], ...]:
    all_weak = all(weak for _, weak in operands)
    kinds: dict[str, type] = {"i": int, "f": float}
    given = [kinds[dtype.kind] if weak and not all_weak else dtype for dtype, weak in operands]
    types = (*given, *(None,) * ufunc.nout)
    if result is None:
        loops = ufunc.resolve_dtypes(types)
    else:
        loops = ufunc.resolve_dtypes(types, signature=(*(None,) * ufunc.nin, result))
    return tuple(map(canonical_dtype, loops))


def _convert_aval(operand: ShapedArray, *, dtype: np.dtype[Any], weak_type: bool) -> ShapedArray:
    return ShapedArray(operand.shape, dtype, weak_type)


def _check_fits(value: Any, dtype: np.dtype[Any]) -> None:
    """Refuse a Python integer that ``dtype`` cannot hold."""
    if type(value) is not int or dtype.kind not in "iu":
        return
    limits = np.iinfo(dtype)
    if not limits.min <= value <= limits.max:
        raise OverflowError(
            f"Python integer {value} out of bounds for {dtype.name} (at {user_line()}); "
            "cast the array to a wider dtype first"
        )


def _convert_eager(xp: Any, operand: Any, *, dtype: np.dtype[Any], weak_type: bool) -> Any:
    _check_fits(operand, dtype)
    with np.errstate(invalid="ignore", over="ignore"):
        return xp.asarray(operand).astype(dtype)


convert_element_type_p = register(
    Primitive(
        name="convert_element_type",
        kind=Kind.ELEMENTWISE,
        doc="Cast to another dtype, as ``astype`` does.",
        abstract_eval=_convert_aval,
        eager=_convert_eager,
        scalar=Scalar(lambda dtype: lambda x: x),
        jvp=LINEAR,
        transpose=lambda cotangent, operand, **params: (convert(cotangent, operand.dtype),),
    )
)


def convert(value: Any, dtype: np.dtype[Any], weak_type: bool = False) -> Any:
    """Return ``value`` as ``dtype``; nothing happens when it has it already.

    Python and NumPy scalars stay constants; a Python integer must fit.

    Raises:
        OverflowError: a Python integer that ``dtype`` cannot hold.
    """
    _check_fits(value, dtype)
    if python_scalar_dtype(value) is not None or isinstance(value, np.generic):
        if weak_type and dtype.kind in "if":
            return int(value) if dtype.kind == "i" else float(value)
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(value).astype(dtype)[()]
    aval = abstractify(value)
    if aval.dtype == dtype and aval.weak_type == weak_type:
        return value
    return bind(convert_element_type_p, value, dtype=dtype, weak_type=weak_type)


def _broadcast_aval(
    operand: ShapedArray, *, shape: tuple[int, ...], dims: tuple[int, ...]
) -> ShapedArray:
    for axis, dim in enumerate(dims):
        if operand.shape[axis] not in (1, shape[dim]):
            raise TypeError(f"cannot broadcast {operand} to {shape} along {dims}")
    return ShapedArray(shape, operand.dtype, operand.weak_type)


def _broadcast_eager(
    xp: Any, operand: Any, *, shape: tuple[int, ...], dims: tuple[int, ...]
) -> Any:
    aligned = [1] * len(shape)
    for axis, dim in enumerate(dims):
        aligned[dim] = np.shape(operand)[axis]
    return xp.broadcast_to(xp.asarray(operand).reshape(aligned), shape)


def _broadcast_view(
    index: tuple[Affine, ...],
    operand: ShapedArray,
    params: Mapping[str, Any],
    extents: Sequence[int],
) -> tuple[Affine, ...]:
    dims = params["dims"]
    return tuple(Affine() if n == 1 else index[d] for n, d in zip(operand.shape, dims, strict=True))


def _broadcast_batch(
    operand_dims: tuple[int], operand: Any, *, shape: tuple[int, ...], dims: tuple[int, ...]
) -> tuple[Any, int]:
    # The batch stays behind the axis that it stands behind, so that the axes keep their order.
    (own,) = operand_dims
    at = dims[own - 1] + 1 if own else 0
    size = abstractify(operand).shape[own]
    dims = inserted(shifted(dims, at), own, at)
    return bind(broadcast_in_dim_p, operand, shape=inserted(shape, at, size), dims=dims), at


def _broadcast_transpose(
    cotangent: Any, operand: ShapedArray, *, shape: tuple[int, ...], dims: tuple[int, ...]
) -> tuple[Any]:
    """Return the sums over what was repeated."""
    own = {dim for dim, n in zip(dims, operand.shape, strict=True) if n == shape[dim]}
    # A sum over an axis of one element would be a kernel of its own.
    repeated = tuple(axis for axis, n in enumerate(shape) if axis not in own and n != 1)
    if repeated:
        cotangent = bind(find_primitive("reduce_sum"), cotangent, axes=repeated)
    if len(shape) - len(repeated) != operand.ndim or len(own) < operand.ndim:
        cotangent = bind(find_primitive("reshape"), cotangent, shape=operand.shape)
    return (cotangent,)


broadcast_in_dim_p = register(
    Primitive(
        name="broadcast_in_dim",
        kind=Kind.VIEW,
        doc="Repeat along new or unit axes; ``dims[i]`` is the result's axis of operand axis i.",
        abstract_eval=_broadcast_aval,
        eager=_broadcast_eager,
        view=_broadcast_view,
        flops=0,
        batch=_broadcast_batch,
        jvp=LINEAR,
        transpose=_broadcast_transpose,
    )
)


def broadcast_to(operand: Any, shape: tuple[int, ...]) -> Any:
    """Broadcast ``operand`` to ``shape`` by NumPy's rule (trailing axes aligned).

    Raises:
        ValueError: the shapes do not fit.
    """
    own = abstractify(operand).shape
    if own == shape:
        return operand
    if broadcast_shapes(own, shape) != shape:
        raise ValueError(f"shape {own} does not broadcast to {shape} (at {user_line()})")
    dims = tuple(range(len(shape) - len(own), len(shape)))
    return bind(broadcast_in_dim_p, operand, shape=shape, dims=dims)


def broadcast_operands(operands: Sequence[Any]) -> list[Any]:
    """Broadcast operands to one shape, leaving those of shape ``()`` alone."""
    shapes = [abstractify(operand).shape for operand in operands]
    shape = broadcast_shapes(*shapes)
    return [
        operand if own in ((), shape) else broadcast_to(operand, shape)
        for operand, own in zip(operands, shapes, strict=True)
    ]
