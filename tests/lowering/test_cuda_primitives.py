"""The primitives for which CUDA has code of its own compile in every dtype they are defined for.

The scalar code of the others is compiled in tests/ops/test_scalar_ptx.py.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

import numpy as np
import pytest

from minijit.backends.cuda.compiler import compile_ptx, compile_source
from minijit.graph.aval import ShapedArray
from minijit.graph.primitive import Primitive
from minijit.lowering.cuda import emit_cuda
from minijit.lowering.cuda_emitter import CudaEmitter
from minijit.lowering.kernel_ir import Kernel
from tests.lowering.kernel_builder import CONVERT, OPS, Builder
from tests.ops.samples import elementwise_primitives, replaced_by
from tests.sampling import sampled

REPLACED = [p.name for p in elementwise_primitives() if replaced_by(CudaEmitter, p)]
DTYPES = [np.dtype(name) for name in ("float32", "float16", "float64", "int32", "uint8", "bool")]
# The library reduces huge angles in float64, in a branch that others do not take.
HUGE_ANGLES = {"sin", "cos", "tan"}


def arity(op: Primitive) -> int:
    assert op.scalar is not None
    return len(inspect.signature(op.scalar.make(np.dtype(np.float32))).parameters)


def operand_dtypes(op: Primitive, dtype: np.dtype[Any]) -> list[np.dtype[Any]] | None:
    """The dtypes in which ``op`` is computed, or None when it is not defined for ``dtype``."""
    count = arity(op)
    if op.name == "select":
        return [np.dtype(np.bool_), dtype, dtype]
    if op.ufunc is None:
        return [dtype] * count if dtype.kind == "f" else None
    for given in ([dtype] * count, [dtype] + [np.dtype(np.int32)] * (count - 1)):
        try:
            loop = op.ufunc.resolve_dtypes((*given, *[None] * op.ufunc.nout))
        except TypeError:
            continue
        if list(loop[:count]) == given:
            return given
    return None


def kernel_of(op: Primitive, dtype: np.dtype[Any]) -> Kernel | None:
    dtypes = operand_dtypes(op, dtype)
    if dtypes is None:
        return None
    out: Any = dtype
    if op.ufunc is not None:
        out = op.ufunc.resolve_dtypes((*dtypes, *[None] * op.ufunc.nout))[-1]
    elif op.name != CONVERT:
        try:
            out = op.abstract_eval(*(ShapedArray((1 << 20,), each) for each in dtypes)).dtype
        except TypeError:
            return None
    build = Builder((1 << 20,))
    build.store(build.map(op.name, *(build.load([1], each) for each in dtypes), dtype=out), [1])
    return build.kernel(f"only_{op.name}")


NAMES = [*REPLACED, CONVERT, "select", "pow"]


@pytest.mark.parametrize("name", NAMES)
def test_primitive_compiles(name: str) -> None:
    kernels = [(dtype, kernel_of(OPS[name], dtype)) for dtype in DTYPES]
    defined = [(dtype, kernel) for dtype, kernel in kernels if kernel is not None]
    assert defined, "defined for no dtype"
    for dtype, kernel in sampled(defined, 2, NAMES.index(name)):
        ptx = compile_ptx(emit_cuda(kernel), (9, 0))
        if dtype.kind == "f" and dtype.itemsize < 8 and name not in HUGE_ANGLES:
            assert not re.search(r"^\s*(?!\.reg)\S*\.f64\b", ptx, re.MULTILINE)


@pytest.mark.parametrize("name", ["exp", "tanh", "pow", "floor_divide"])
@pytest.mark.parametrize("cc", [(8, 0), (10, 0)])
def test_primitives_link_for_other_architectures(name: str, cc: tuple[int, int]) -> None:
    kernel = kernel_of(OPS[name], np.dtype(np.float32))
    assert kernel is not None
    assert compile_source(emit_cuda(kernel), cc).resources["spill_stores"] == 0
