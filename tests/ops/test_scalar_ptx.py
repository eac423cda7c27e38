"""Every scalar function compiles as a CUDA device function, in the arithmetic of its own type."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from numba import cuda
from numba.cuda import types

import minijit.numpy.elementwise  # noqa: F401 - declares everything
from minijit.graph.primitive import Primitive
from tests.ops.samples import Signature, elementwise_primitives, signatures

# libdevice reduces large arguments of these with float64 constants.
SLOW_PATH_IN_DOUBLE = {"sin", "cos", "tan"}
# Single precision would not hold the quotient.
INTEGER_DIVISION = {"floor_divide", "remainder", "fmod"}
DTYPES = tuple(map(np.dtype, ("bool", "int8", "uint32", "int64", "uint64", "float32", "float64")))


def ptx_of(primitive: Primitive, signature: Signature) -> str:
    assert primitive.scalar is not None
    code = primitive.scalar.make(signature[0])
    argument_types = tuple(getattr(types, _numba_name(dtype)) for dtype in signature)
    text, _ = cuda.compile(code, argument_types, device=True, abi="numba", cc=(9, 0), output="ptx")
    return str(text)


def _numba_name(dtype: np.dtype[Any]) -> str:
    return "boolean" if dtype.kind == "b" else dtype.name


@pytest.mark.parametrize("primitive", elementwise_primitives(), ids=str)
def test_compiles_without_wider_arithmetic(primitive: Primitive) -> None:
    for signature in signatures(primitive, DTYPES):
        ptx = ptx_of(primitive, signature)
        if signature[-1] == np.float32 and primitive.name not in SLOW_PATH_IN_DOUBLE:
            assert ".f64" not in ptx, signature
        if signature[0].itemsize <= 4 and primitive.name in INTEGER_DIVISION:
            assert not re.search(r"\b(div|rem)\.[su]64", ptx), signature
