"""A reduction in blocks: partial results, their combination, and a last block that is not full."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import minijit.numpy as jnp
from minijit.lowering import joining, split
from minijit.lowering.check import check_kernel
from minijit.lowering.demand import Program
from minijit.lowering.lower import Lowered, lower_group
from minijit.lowering.partition import partition
from minijit.runtime.pipeline import optimize
from tests.lowering.interpret import Memory, run_kernel
from tests.transforms.random_programs import trace


def halves(function: Any, *args: Any) -> tuple[Any, Lowered, Lowered]:
    jaxpr = optimize(trace(lambda *xs: list(function(*xs)), args))
    program = Program(jaxpr)
    parts = partition(program, few_rows=32)
    (group,) = parts.steps
    first, second = split.split_reduction(lower_group(program, group, parts.stored, {}, "k"))
    return jaxpr, first, second


@pytest.fixture
def short_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split, "_BLOCK", 8)


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


@pytest.mark.usefixtures("short_blocks")
@pytest.mark.parametrize("name", CASES)
def test_two_kernels_compute_what_one_does(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joining, "LONG_ROW", 1)
    function, shape = CASES[name]
    x = np.random.default_rng(0).integers(-9, 9, shape).astype(np.float64)
    jaxpr = optimize(trace(lambda v: list(function(v)), [x]))
    program = Program(jaxpr)
    parts = partition(program, few_rows=32)
    memory: Memory = {jaxpr.invars[0]: x.ravel()}
    for step in parts.steps:
        assert step.split
        lowered = lower_group(program, step, parts.stored, {}, "k")
        for kernel in split.split_reduction(lowered):
            check_kernel(kernel.kernel)
            run_kernel(kernel, memory)
    for var, want in zip(jaxpr.outvars, function(x), strict=True):
        np.testing.assert_array_equal(memory[var].reshape(np.shape(want)), want)


def test_blocks_do_not_depend_on_the_machine() -> None:
    _, first, second = halves(lambda x: [x.sum()], np.ones(1 << 20, np.float32))
    assert (first.kernel.rows, first.kernel.cols) == ((64,), (1 << 14,))
    assert (second.kernel.rows, second.kernel.cols) == ((), (64,))
    assert first.kernel.ragged is None


def test_the_partials_are_one_buffer_that_both_know() -> None:
    _, first, second = halves(lambda x: [x.sum()], np.ones(100_000, np.float32))
    assert first.buffers[-1] is second.buffers[0]
    assert first.kernel.ragged == 100_000
    assert len(second.buffers) == 2  # the input is not read again


def test_argmax_keeps_value_and_position() -> None:
    _, first, _ = halves(lambda x: [x.argmax()], np.ones(1 << 16, np.float32))
    assert [b.dtype for b in first.kernel.buffers[1:]] == [np.float32, np.int64]
