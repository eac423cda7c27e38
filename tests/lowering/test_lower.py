"""Random programs cut into kernels, lowered, split and interpreted give what NumPy gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import minijit.numpy as jnp
from minijit.graph.few_rows import FewRows
from minijit.graph.layout import Layout
from minijit.lowering import partition
from minijit.lowering.demand import Program
from minijit.lowering.kernel_ir import Level, Load, Reduce, Store
from minijit.lowering.lower import lower_group
from minijit.runtime.pipeline import optimize
from tests.lowering.interpret import run_program
from tests.transforms.random_programs import assert_equal, random_program, trace


@pytest.mark.parametrize("seed", range(0, 300, 10))
def test_random_programs(seed: int) -> None:
    for number in range(seed, seed + 10):
        function, args = random_program(number, 4 + number % 16)
        with np.errstate(all="ignore"):
            want = function(*args)
            got, _ = run_program(optimize(trace(function, args)), args)
        assert_equal(got, want)


@pytest.mark.parametrize("seed", range(1000, 1100, 10))
def test_random_programs_with_long_reductions_split(seed: int) -> None:
    were_split = 0
    for number in range(seed, seed + 10):
        function, args = random_program(number, 4 + number % 12)
        with np.errstate(all="ignore"):
            want = function(*args)
            few = FewRows(8, columns=4, block=4)
            got, parts = run_program(optimize(trace(function, args)), args, few_rows=few)
        assert_equal(got, want)
        were_split += sum(getattr(step, "split", False) for step in parts.steps)
    assert were_split


def kernel_of(function: Any, *args: Any, layouts: Any = None) -> Any:
    program = Program(optimize(trace(lambda *xs: [function(*xs)], args)))
    parts = partition.partition(program, few_rows=FewRows(32))
    (group,) = parts.steps
    known = dict(zip(program.jaxpr.invars, layouts, strict=True)) if layouts else {}
    return lower_group(program, group, parts.stored, known, "k").kernel


def test_softmax_reads_once_and_writes_once() -> None:
    def softmax(x: Any) -> Any:
        e = jnp.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    kernel = kernel_of(softmax, np.ones((4, 8), np.float32))
    assert (kernel.rows, kernel.cols) == ((4,), (8,))
    assert [type(s) for s in kernel.body].count(Load) == 1
    assert [type(s) for s in kernel.body].count(Store) == 1
    assert all(s.out.level is Level.ROW for s in kernel.body if isinstance(s, Reduce))
    lines = str(kernel).splitlines()
    assert lines[0] == "kernel k rows=(4,) cols=(8,)"
    assert "  cell   v0: f32 = load b0[8*i0 + i1]" in lines
    assert "  row    v1: f32 = reduce max v0" in lines


def test_float16_sums_accumulate_in_float32() -> None:
    kernel = kernel_of(lambda x: x.sum(), np.ones(8, np.float16))
    (reduce,) = (s for s in kernel.body if isinstance(s, Reduce))
    assert reduce.accumulators == (np.dtype(np.float32),)


def test_strides_and_offsets_stay_in_the_index() -> None:
    x = np.ones((4, 6), np.float32)
    kernel = kernel_of(lambda x: x[::-1, 1::2] * 2, x, layouts=[Layout((10, 1))])
    (load,) = (s for s in kernel.body if isinstance(s, Load))
    assert (load.index.offset, load.index.terms) == (31, ((0, -10), (1, 2)))
    assert not kernel.buffers[0].contiguous
    assert kernel.buffers[1].contiguous


def test_scalars_are_arguments_and_no_buffers() -> None:
    by_value = Layout((), by_value=True)
    kernel = kernel_of(
        lambda x, s: x * s, np.ones(4, np.float32), 2.0, layouts=[Layout((1,)), by_value]
    )
    assert [a.dtype for a in kernel.arguments] == [np.float32]  # the host rounds a Python number
    assert len(kernel.buffers) == 2


def test_a_numpy_scalar_is_rounded_by_the_kernel() -> None:
    """By the host an int64 would go through float64 and be rounded twice."""
    kernel = kernel_of(
        lambda s: s.astype(np.float32), np.int64(1), layouts=[Layout((), by_value=True)]
    )
    assert [a.dtype for a in kernel.arguments] == [np.int64]


def test_joined_arrays_are_read_only_where_they_are() -> None:
    """Memory before and after an operand belongs to somebody else."""
    kernel = kernel_of(lambda x, y: jnp.concatenate([x, y]), np.ones(3), np.ones(4))
    assert all(s.guard is not None for s in kernel.body if isinstance(s, Load))
