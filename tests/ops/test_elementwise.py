"""Every elementwise primitive in every dtype: its rule and its eager form.

Its scalar code runs in compiled programs (tests/test_numerics.py), and here where the CPU has other
code in its place.
"""

from __future__ import annotations

import functools
from typing import Any

import numba
import numpy as np
import pytest

import minijit.numpy.elementwise  # noqa: F401 - declares everything
from minijit.extend.checks import assert_types
from minijit.graph.primitive import Primitive
from minijit.lowering.cpu_emitter import CpuEmitter
from tests.ops.samples import (
    Signature,
    assert_agrees,
    elementwise_primitives,
    replaced_by,
    result_dtype,
    samples,
    signatures,
)

# The narrower and wider integers between these have the same code.
COMPILED_DTYPES = tuple(
    np.dtype(name) for name in ["bool", "int8", "int64", "uint64", "float16", "float32", "float64"]
)
PRIMITIVES = elementwise_primitives()
REPLACED = [p for p in PRIMITIVES if replaced_by(CpuEmitter, p)]


def reference(primitive: Primitive, operands: list[Any]) -> Any:
    with np.errstate(all="ignore"):
        return np.asarray(primitive.eager(np, *operands))


@pytest.mark.parametrize("primitive", PRIMITIVES, ids=str)
def test_traced_programs_have_the_types_of_their_values(primitive: Primitive) -> None:
    for signature in signatures(primitive):
        assert_types(primitive, samples(primitive, signature, count=20))


def scalar_results(primitive: Primitive, signature: Signature, operands: list[Any]) -> Any:
    """Run the scalar code over arrays, compiled for the CPU; float16 is held as float32."""
    result = result_dtype(primitive, signature)
    assert result is not None
    single = np.dtype(np.float32)
    held = [x.astype(single) if x.dtype == np.float16 else x for x in operands]
    out = np.empty(held[0].shape, single if result == np.float16 else result)
    _LOOPS[len(held)](compiled(primitive, held[0].dtype), out, *held)
    with np.errstate(all="ignore"):
        return out.astype(result)


@functools.cache
def compiled(primitive: Primitive, dtype: np.dtype[Any]) -> Any:
    assert primitive.scalar is not None
    return numba.njit(error_model="numpy")(primitive.scalar.make(dtype))


def _loop1(element, out, x):  # type: ignore[no-untyped-def]
    for i in range(out.size):
        out[i] = element(x[i])


def _loop2(element, out, x, y):  # type: ignore[no-untyped-def]
    for i in range(out.size):
        out[i] = element(x[i], y[i])


_LOOPS = {1: numba.njit(_loop1), 2: numba.njit(_loop2)}


@pytest.mark.parametrize("primitive", REPLACED, ids=str)
def test_scalar_code_equals_numpy(primitive: Primitive) -> None:
    for signature in signatures(primitive, COMPILED_DTYPES):
        operands = samples(primitive, signature)
        got, want = scalar_results(primitive, signature, operands), reference(primitive, operands)
        assert_agrees(primitive, got, want, operands)
