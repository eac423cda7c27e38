"""Operands for every dtype that an operation takes: random ones in its domain, and awkward ones."""

from __future__ import annotations

import functools
import itertools
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from minijit.graph.aval import ShapedArray
from minijit.graph.dtypes import BOOL
from minijit.graph.primitive import Primitive

__all__ = [
    "DTYPES",
    "Signature",
    "assert_same",
    "result_dtype",
    "samples",
    "signatures",
    "special_values",
]

Array = npt.NDArray[Any]
Signature = tuple[np.dtype[Any], ...]
_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
DTYPES = tuple(map(np.dtype, ("bool", *_INTEGERS, "float16", "float32", "float64")))
_MOST_CORNERS = 4000
_SHOWN = 8


@functools.cache
def signatures(primitive: Primitive, dtypes: Sequence[np.dtype[Any]] = DTYPES) -> list[Signature]:
    """Return the operand dtypes that an elementwise primitive computes with."""
    if primitive.name == "select":
        return [(BOOL, dtype, dtype) for dtype in dtypes]
    if primitive.ufunc is None:
        candidates = [(dtype,) * len(primitive.samples) for dtype in dtypes]
    else:
        names = [loop.partition("->")[0] for loop in primitive.ufunc.types]
        candidates = [
            tuple(map(np.dtype, name)) for name in names if not set(name) & set("gFDGmMO")
        ]
    accepted: dict[Signature, None] = {}
    for candidate in candidates:
        if {d.kind for d in candidate} == {"i", "u"}:
            continue  # int64 with uint64: composed of comparisons of one dtype
        if set(candidate) <= set(dtypes) and result_dtype(primitive, candidate) is not None:
            accepted[candidate] = None
    return list(accepted)


def result_dtype(primitive: Primitive, signature: Signature) -> np.dtype[Any] | None:
    """Return the dtype that the primitive's rule gives, or None where it refuses the operands."""
    try:
        aval: ShapedArray = primitive.abstract_eval(*(ShapedArray((), d) for d in signature))
    except TypeError:
        return None
    return aval.dtype


def special_values(dtype: np.dtype[Any]) -> Array:
    """Return zeros of both signs, small numbers, halves, limits, denormals, infinities, NaN."""
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        values = {0, 1, 2, 3, 7, 8, 31, 32, 63, 64, limits.max, limits.max - 1, limits.max // 2 + 1}
        if dtype.kind == "i":
            values |= {-1, -2, -3, -7, -8, -64, limits.min, limits.min + 1}
        return np.array([v for v in sorted(values) if limits.min <= v <= limits.max], dtype)
    numbers = np.finfo(dtype)
    whole = 2.0**numbers.nmant
    positive = [0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 7.5, 10.0, 100.0, whole - 0.5, whole]
    positive += [whole + 1, 1 - numbers.epsneg, 1 + numbers.eps, numbers.max, numbers.tiny]
    positive += [numbers.smallest_subnormal, 3 * numbers.smallest_subnormal, np.inf, np.nan]
    return np.array(positive + [-value for value in positive], dtype)


def samples(primitive: Primitive, signature: Signature, count: int = 300) -> list[Array]:
    """Return one array an operand, of equal length: tuples of special values, then random ones.

    All tuples, or where there are very many a sample of them.
    """
    rng = np.random.default_rng(zlib.crc32(f"{primitive.name}{signature}".encode()))
    domains = primitive.samples or ((-4.0, 4.0),) * len(signature)
    corners = list(itertools.product(*map(special_values, signature)))
    if len(corners) > _MOST_CORNERS:
        corners = [corners[n] for n in rng.choice(len(corners), _MOST_CORNERS, replace=False)]
    columns = [
        np.array(column, dtype)
        for column, dtype in zip(zip(*corners, strict=True), signature, strict=True)
    ]
    inside = [
        _random(rng, dtype, count, domain) for dtype, domain in zip(signature, domains, strict=True)
    ]
    anywhere = [_random(rng, dtype, count, None) for dtype in signature]
    with np.errstate(all="ignore"):
        same = [anywhere[0].astype(dtype) for dtype in signature]  # equal operands decide ties
    arrays = [np.concatenate(parts) for parts in zip(columns, inside, anywhere, same, strict=True)]
    if primitive.name == "pow" and signature[1].kind == "i":
        return [array[arrays[1] >= 0] for array in arrays]  # NumPy refuses negative exponents
    return arrays


def _random(
    rng: np.random.Generator,
    dtype: np.dtype[Any],
    count: int,
    domain: tuple[float, float] | None,
) -> Array:
    if dtype.kind == "b":
        return rng.integers(0, 2, count).astype(bool)
    if domain is None:
        return rng.integers(0, 256, count * dtype.itemsize, np.uint8).view(dtype)
    if dtype.kind == "f":
        return rng.uniform(*domain, count).astype(dtype)
    low = max(int(domain[0]), np.iinfo(dtype).min)
    return rng.integers(low, max(int(domain[1]), low), count, endpoint=True).astype(dtype)


def assert_same(got: Array, want: Array, operands: Sequence[Array], ulp: int = 0) -> None:
    """Assert equal bits (NaN like NaN), or floats at most ``ulp`` representable numbers apart.

    Raises:
        AssertionError: they differ; the message has some of the operands for which they do.
    """
    if (got.dtype, got.shape) != (want.dtype, want.shape):
        raise AssertionError(f"{got.dtype}{got.shape} instead of {want.dtype}{want.shape}")
    if want.dtype.kind == "f":
        distance = _ordered(got) - _ordered(want)
        bad = (np.abs(distance) > ulp) & ~(np.isnan(got) & np.isnan(want))
    else:
        bad = got != want
    refuse_where(bad, got, want, operands)


def refuse_where(bad: Array, got: Array, want: Array, operands: Sequence[Array]) -> None:
    """Raise ``AssertionError`` with some of the operands for which results are bad, if any are."""
    if not bad.any():
        return
    where = np.flatnonzero(bad)
    shown = [
        f"({', '.join(str(x.ravel()[i]) for x in operands)}) -> {got.ravel()[i]!r}, not "
        f"{want.ravel()[i]!r}"
        for i in where[:_SHOWN]
    ]
    raise AssertionError(f"{len(where)} of {want.size} differ:\n" + "\n".join(shown))


def _ordered(values: Array) -> Array:
    """Map floats to integers in the same order, neighbours to neighbours, -0.0 below 0.0."""
    bits = values.view(f"i{values.itemsize}").astype(np.int64)
    lowest = np.int64(np.iinfo(f"i{values.itemsize}").min)
    return np.where(bits < 0, lowest - bits - 1, bits).astype(np.int64)
