"""Which primitives there are, and how near to NumPy's their results are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from minijit.extend.samples import (
    DTYPES,
    Signature,
    assert_same,
    result_dtype,
    samples,
    signatures,
    special_values,
)
from minijit.graph.primitive import Kind, Primitive, all_primitives
from minijit.lowering.kernel_ir import Kernel, Map
from minijit.lowering.source import Emitter
from tests.lowering.kernel_builder import Builder

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


def replaced_by(target: Callable[[Kernel], Emitter], primitive: Primitive) -> bool:
    """Whether a target computes floats of the primitive by other code than its scalar code."""
    single = np.dtype(np.float32)
    if result_dtype(primitive, (single,) * len(primitive.samples)) is None:
        return False
    build = Builder((64,))
    build.map(primitive.name, *(build.load([1]) for _ in primitive.samples))
    *_, statement = (kernel := build.kernel()).statements
    assert isinstance(statement, Map)
    return target(kernel).function(statement, single)[2]


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


def assert_near(got: Any, want: Any, eps: float = 4) -> None:
    """Assert shape, dtype, and values that are equal, or for floats ``eps`` roundings apart."""
    got, want = np.asarray(got), np.asarray(want)
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    if want.dtype.kind == "f":
        np.testing.assert_allclose(got, want, rtol=eps * float(np.finfo(want.dtype).eps))
    else:
        np.testing.assert_array_equal(got, want)
