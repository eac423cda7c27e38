"""Operands for every primitive and dtype: random ones in its domain, and awkward ones."""

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
from minijit.graph.primitive import Kind, Primitive, all_primitives
from minijit.lowering.source import Emitter

__all__ = [
    "DTYPES",
    "Signature",
    "assert_agrees",
    "assert_near",
    "assert_same",
    "elementwise_primitives",
    "reduction_primitives",
    "replaced_by",
    "result_dtype",
    "samples",
    "signatures",
    "special_values",
]

# Results that are rounded once are equal to NumPy's; these are not, on either side.
ULP = dict.fromkeys(
    [
        "exp",
        "exp2",
        "expm1",
        "log",
        "log2",
        "log10",
        "log1p",
        "sin",
        "cos",
        "tan",
        "arcsin",
        "arccos",
        "arctan",
        "arctan2",
        "sinh",
        "cosh",
        "tanh",
        "arcsinh",
        "arccosh",
        "arctanh",
        "cbrt",
        "pow",
        "float_power",
        "hypot",
        "logaddexp",
        "logaddexp2",
        "sigmoid",
        "erf",
        "erfc",
    ],
    4,
)
ULP["rsqrt"] = 1

# Which of -0.0 and 0.0 is the larger NumPy leaves open: its loops answer differently by dtype.
EITHER_ZERO = {"max", "min", "fmax", "fmin"}

# A sum with cancellation: as exact as its larger term, on both sides.
CANCELLING = {"logaddexp", "logaddexp2"}

Array = npt.NDArray[Any]
Signature = tuple[np.dtype[Any], ...]

DTYPES = tuple(
    np.dtype(name)
    for name in (
        "bool",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "float16",
        "float32",
        "float64",
    )
)


def elementwise_primitives() -> list[Primitive]:
    """Every elementwise primitive without parameters."""
    return [
        p
        for p in all_primitives()
        if p.kind is Kind.ELEMENTWISE and p.name != "convert_element_type"
    ]


def reduction_primitives() -> list[Primitive]:
    """Every reduction."""
    return [p for p in all_primitives() if p.kind is Kind.REDUCTION]


def replaced_by(emitter: Emitter, primitive: Primitive) -> bool:
    """Whether a target computes floats of the primitive by other code than its scalar code."""
    single = np.dtype(np.float32)
    if result_dtype(primitive, (single,) * len(primitive.samples)) is None:
        return False
    return bool(emitter.function(primitive, single)[1])


@functools.cache
def signatures(primitive: Primitive, dtypes: Sequence[np.dtype[Any]] = DTYPES) -> list[Signature]:
    """The operand dtypes that an elementwise primitive computes with."""
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
    """The dtype that the primitive's rule gives, or None where it refuses the operands."""
    try:
        aval: ShapedArray = primitive.abstract_eval(*(ShapedArray((), d) for d in signature))
    except TypeError:
        return None
    return aval.dtype


def special_values(dtype: np.dtype[Any]) -> Array:
    """Zeros of both signs, small numbers, halves, limits, denormals, infinities, NaN."""
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        values = {0, 1, 2, 3, 7, 8, 31, 32, 63, 64, limits.max, limits.max - 1, limits.max // 2 + 1}
        if dtype.kind == "i":
            values |= {-1, -2, -3, -7, -8, -64, limits.min, limits.min + 1}
        return np.array([v for v in sorted(values) if limits.min <= v <= limits.max], dtype)
    limits = np.finfo(dtype)
    whole = 2.0**limits.nmant
    positive = [0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 7.5, 10.0, 100.0, whole - 0.5, whole]
    positive += [whole + 1, 1 - limits.epsneg, 1 + limits.eps, limits.max, limits.tiny]
    positive += [limits.smallest_subnormal, 3 * limits.smallest_subnormal, np.inf, np.nan]
    return np.array(positive + [-value for value in positive], dtype)


def samples(primitive: Primitive, signature: Signature, count: int = 300) -> list[Array]:
    """One array an operand, of equal length: every tuple of special values, then random ones."""
    rng = np.random.default_rng(zlib.crc32(f"{primitive.name}{signature}".encode()))
    domains = primitive.samples or ((-4.0, 4.0),) * len(signature)
    corners = itertools.product(*map(special_values, signature))
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
    return rng.integers(low, int(domain[1]), count, endpoint=True).astype(dtype)


def assert_agrees(primitive: Primitive, got: Array, want: Array, operands: Sequence[Array]) -> None:
    """Assert that an elementwise primitive's result is NumPy's, as nearly as it is defined."""
    if primitive.name in EITHER_ZERO:
        got, want = (np.where(x == 0, x.dtype.type(0), x) for x in (got, want))
    if primitive.name in CANCELLING:
        largest = np.maximum(np.abs(operands[0]), np.abs(operands[1]))
        with np.errstate(all="ignore"):
            near = np.abs(got - want) <= 4 * np.finfo(want.dtype).eps * largest
        got = np.where(near, want, got)
    assert_same(got, want, operands, ULP.get(primitive.name, 0))


def assert_same(got: Array, want: Array, operands: Sequence[Array], ulp: int = 0) -> None:
    """Assert equal bits (NaN like NaN), or floats at most ``ulp`` representable numbers apart."""
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    if want.dtype.kind == "f":
        distance = _ordered(got) - _ordered(want)
        bad = (np.abs(distance) > ulp) & ~(np.isnan(got) & np.isnan(want))
    else:
        bad = got != want
    if bad.any():
        where = np.flatnonzero(bad)
        shown = [
            f"({', '.join(str(x[i]) for x in operands)}) -> {got[i]!r}, not {want[i]!r}"
            for i in where[:8]
        ]
        raise AssertionError(f"{len(where)} of {want.size} differ:\n" + "\n".join(shown))


def assert_near(got: Any, want: Any, eps: float = 4) -> None:
    """Assert shape, dtype, and values that are equal, or for floats ``eps`` roundings apart."""
    got, want = np.asarray(got), np.asarray(want)
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    if want.dtype.kind == "f":
        np.testing.assert_allclose(got, want, rtol=eps * float(np.finfo(want.dtype).eps))
    else:
        np.testing.assert_array_equal(got, want)


def _ordered(values: Array) -> Array:
    """Map floats to integers in the same order, neighbours to neighbours, -0.0 below 0.0."""
    bits = values.view(f"i{values.itemsize}").astype(np.int64)
    lowest = np.int64(np.iinfo(f"i{values.itemsize}").min)
    return np.where(bits < 0, lowest - bits - 1, bits).astype(np.int64)
