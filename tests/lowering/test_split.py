"""A reduction in blocks: partial results, their combination, and a last block that is not full."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import minijit
import minijit.numpy as jnp
from minijit.graph.few_rows import FewRows
from minijit.graph.layout import Layout
from minijit.lowering import split
from minijit.lowering.check import check_kernel
from minijit.lowering.demand import Program
from minijit.lowering.lower import Lowered, lower_group
from minijit.lowering.partition import partition
from minijit.runtime.pipeline import optimize
from tests.lowering.interpret import Memory, run_kernel
from tests.transforms.random_programs import trace

FEW = FewRows(32)
SHORT = FewRows(32, columns=1, block=8)


def halves(function: Any, *args: Any, few: FewRows = FEW) -> tuple[Any, Lowered, Lowered]:
    jaxpr = optimize(trace(lambda *xs: list(function(*xs)), args))
    program = Program(jaxpr)
    parts = partition(program, few_rows=few)
    (group,) = parts.steps
    first, second = split.split_reduction(lower_group(program, group, parts.stored, {}, "k"), few)
    return jaxpr, first, second


CASES: dict[str, tuple[Any, tuple[int, ...]]] = {
    "sum": (lambda x: [x.sum()], (64,)),
    "ragged": (lambda x: [x.sum(), x.max()], (61,)),
    "ragged-rows": (lambda x: [x.sum(1), x.min(1)], (3, 29)),
    "position": (lambda x: [x.argmax(), x.argmin()], (53,)),
    "columns": (lambda x: [x.sum(0)], (37, 3)),
    "cells-too": (lambda x: [x.sum(), x * 2], (45,)),
    "what-follows": (lambda x: [jnp.abs(x.sum() + 1) * 2], (45,)),
    "guarded": (lambda x: [jnp.pad(x, (2, 3)).sum(), jnp.concatenate([x, x]).max()], (40,)),
    "shorter-than-a-block": (lambda x: [x.sum()], (5,)),
}


@pytest.mark.parametrize("name", CASES)
def test_two_kernels_compute_what_one_does(name: str) -> None:
    function, shape = CASES[name]
    x = np.random.default_rng(0).integers(-9, 9, shape).astype(np.float64)
    jaxpr = optimize(trace(lambda v: list(function(v)), [x]))
    program = Program(jaxpr)
    parts = partition(program, few_rows=SHORT)
    memory: Memory = {jaxpr.invars[0]: x.ravel()}
    for step in parts.steps:
        assert step.split
        lowered = lower_group(program, step, parts.stored, {}, "k")
        for kernel in split.split_reduction(lowered, SHORT):
            check_kernel(kernel.kernel)
            run_kernel(kernel, memory)
    for var, want in zip(jaxpr.outvars, function(x), strict=True):
        np.testing.assert_array_equal(memory[var].reshape(np.shape(want)), want)


def test_blocks_do_not_depend_on_the_machine() -> None:
    _, first, second = halves(lambda x: [x.sum()], np.ones(1 << 20, np.float32))
    assert (first.kernel.rows, first.kernel.cols) == ((64,), (1 << 14,))
    assert (second.kernel.rows, second.kernel.cols) == ((), (64,))
    assert first.kernel.ragged is None


def test_blocks_are_as_short_as_it_takes_to_fill_the_target() -> None:
    few = FewRows(264, block=1 << 12)
    lengths = {100_000: 1 << 12, 1 << 20: 1 << 12, 1 << 22: 1 << 14, 1 << 26: 1 << 16}
    for cells, length in lengths.items():
        _, first, _ = halves(lambda x: [x.sum()], np.ones(cells, np.float32), few=few)
        assert first.kernel.cols == (length,)


def test_the_partials_are_one_buffer_that_both_know() -> None:
    _, first, second = halves(lambda x: [x.sum()], np.ones(100_000, np.float32))
    assert first.buffers[-1] is second.buffers[0]
    assert first.kernel.ragged == 100_000
    assert len(second.buffers) == 2  # the input is not read again


def test_argmax_keeps_value_and_position() -> None:
    _, first, _ = halves(lambda x: [x.argmax()], np.ones(1 << 16, np.float32))
    assert [b.dtype for b in first.kernel.buffers[1:]] == [np.float32, np.int64]


def lowered(function: Any, x: Any, layout: Layout | None = None) -> Lowered:
    jaxpr = optimize(trace(lambda v: list(function(v)), [x]))
    program = Program(jaxpr)
    parts = partition(program, few_rows=FewRows(32))
    (group,) = parts.steps
    layouts = {} if layout is None else {jaxpr.invars[0]: layout}
    return lower_group(program, group, parts.stored, layouts, "k")


@pytest.mark.parametrize(
    ("function", "shape", "tall"),
    [
        (lambda x: [x.sum(0)], (1024, 1024), True),
        (lambda x: [x.sum(0)], (1023, 1024), False),  # fifteen blocks and a part
        (lambda x: [x.sum(0), x.argmax(0)], (1024, 1024), True),
        (lambda x: [x.sum(0), 2 * x], (1024, 1024), True),
        (lambda x: [x / x.sum(0)], (1024, 1024), False),  # cells need what all blocks give
        (lambda x: [x.sum(1)], (1024, 1024), False),
        (lambda x: [x.sum(1)], (64, 128, 512), False),  # 64 blocks as they are
        (lambda x: [x.sum(1)], (2, 8192, 128), True),
        (lambda x: [x.sum((0, 1))], (16, 128, 512), True),
        (lambda x: [x.sum((0, 2))], (64, 64, 512), False),
    ],
)
def test_tall_columns(function: Any, shape: tuple[int, ...], tall: bool) -> None:
    assert split.is_tall(lowered(function, np.ones(shape, np.float32))) is tall


def test_columns_of_what_lies_in_columns_are_not_tall() -> None:
    x = np.ones((1024, 1024), np.float32)
    assert not split.is_tall(lowered(lambda v: [v.sum(0)], x, Layout((1, 1024))))


def test_tall_blocks_are_even_where_they_can_be() -> None:
    for columns, length, ragged in ((30_000, 60, None), (29_989, 65, 29_989)):
        tall = lowered(lambda v: [v.sum(0)], np.empty((columns, 1000), np.float32))
        first, second = split.split_columns(tall)
        assert first.kernel.rows == (-(-columns // length), 1000)
        assert (first.kernel.cols, first.kernel.ragged) == ((length,), ragged)
        assert (second.kernel.rows, second.kernel.cols) == ((1000,), (-(-columns // length),))


REDUCTIONS = ("sum", "prod", "max", "min", "any", "argmax", "argmin")


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int32])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_tall_columns_on_any_number_of_threads(name: str, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(-3, 4, (2100, 1030)).astype(dtype)
    if name == "prod":
        x = np.where(rng.random(x.shape) < 0.999, dtype(1), dtype(2))
    f = minijit.jit(lambda v: getattr(v, name)(axis=0))
    assert len(f.lower(x).compile().kernels()) == 2
    found = []
    for threads in (1, 2, 3):
        with minijit.config.override(num_threads=threads):
            found.append(f(x))
    want = getattr(x, name)(axis=0)
    assert (found[0].dtype, found[0].shape) == (want.dtype, want.shape)
    assert found[0].tobytes() == found[1].tobytes() == found[2].tobytes()
    np.testing.assert_array_equal(found[0], want)


def test_sums_of_tall_columns_are_more_accurate_than_one_after_the_other() -> None:
    x = np.random.default_rng(0).standard_normal((16411, 130)).astype(np.float32) + 100
    exact = x.astype(np.float64).sum(axis=0)
    f = minijit.jit(lambda v: v.sum(axis=0))
    assert len(f.lower(x).compile().kernels()) == 2
    assert 8 * np.abs(f(x) - exact).max() < np.abs(x.sum(axis=0) - exact).max()


def test_tall_columns_of_nan_and_infinity() -> None:
    x = np.ones((1200, 1030), np.float32)
    x[700, :100] = np.nan
    x[900, 50:150] = -np.inf
    x[1199, 140:] = np.inf
    f = minijit.jit(lambda v: (v.max(0), v.min(0), v.argmax(0), v.sum(0)))
    with np.errstate(invalid="ignore"):
        for got, want in zip(f(x), (x.max(0), x.min(0), x.argmax(0), x.sum(0)), strict=True):
            np.testing.assert_array_equal(got, want)
