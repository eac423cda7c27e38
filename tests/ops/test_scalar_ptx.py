"""Scalar functions compile as CUDA device functions, in the arithmetic of their own types.

Those in whose place CUDA has others are compiled in tests/lowering/test_cuda_primitives.py.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from numba import cuda
from numba.cuda import types

import minijit.numpy.elementwise  # noqa: F401 - declares everything
from minijit.graph.primitive import Primitive
from minijit.lowering.cuda_emitter import CudaEmitter
from tests.ops.samples import Signature, elementwise_primitives, replaced_by, signatures
from tests.sampling import sampled

# Single precision would not hold the quotient.
INTEGER_DIVISION = {"floor_divide", "remainder", "fmod"}
NAMES = "bool", "int8", "uint8", "int32", "uint32", "int64", "uint64", "float32", "float64"
DTYPES = tuple(map(np.dtype, NAMES))
PRIMITIVES = [p for p in elementwise_primitives() if not replaced_by(CudaEmitter, p)]


def ptx_of(primitive: Primitive, signature: Signature) -> str:
    assert primitive.scalar is not None
    code = primitive.scalar.make(signature[0])
    argument_types = tuple(getattr(types, _numba_name(dtype)) for dtype in signature)
    text, _ = cuda.compile(code, argument_types, device=True, abi="numba", cc=(9, 0), output="ptx")
    return str(text)


def _numba_name(dtype: np.dtype[Any]) -> str:
    return "boolean" if dtype.kind == "b" else dtype.name


@pytest.mark.parametrize("primitive", PRIMITIVES, ids=str)
def test_compiles_without_wider_arithmetic(primitive: Primitive) -> None:
    for signature in sampled(signatures(primitive, DTYPES), 2, PRIMITIVES.index(primitive)):
        ptx = ptx_of(primitive, signature)
        if signature[-1] == np.float32:
            assert ".f64" not in ptx, signature
        if signature[0].itemsize <= 4 and primitive.name in INTEGER_DIVISION:
            assert not re.search(r"\b(div|rem)\.[su]64", ptx), signature
