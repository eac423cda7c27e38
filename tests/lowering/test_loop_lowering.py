"""Loops and branches become kernels: which, what the kernels hold, and why others do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minijit
import minijit.numpy as jnp
from minijit import lax
from minijit.graph.jaxpr import Jaxpr
from minijit.graph.tree import flatten
from minijit.lowering.check import check_kernel
from minijit.lowering.demand import Program
from minijit.lowering.kernel_ir import (
    Branch,
    Index,
    Kernel,
    Load,
    Loop,
    Map,
    Node,
    Reduce,
    Store,
    blocks,
    walk,
)
from minijit.lowering.lower import lower_group
from minijit.lowering.partition import Group, Partition, partition
from minijit.runtime.pipeline import optimize
from tests.lowering.interpret import FEW_ROWS, run_program
from tests.sampling import sampled
from tests.transforms.random_bodies import random_loop_program, reference
from tests.transforms.random_programs import assert_equal, trace

X = np.arange(12, dtype=np.float32).reshape(4, 3)
V = np.array([1, 2, 4], np.float32)
W = np.eye(3, dtype=np.float32)
ROWS = np.arange(24, dtype=np.float32).reshape(4, 2, 3)


def optimized(function: Callable[..., Any], *args: Any) -> Jaxpr:
    return optimize(trace(lambda *xs: flatten(function(*xs))[0], args))


def interpreted(function: Callable[..., Any], *args: Any) -> Partition:
    """Run a program by the interpreter, compare it with plain Python, return how it was cut."""
    got, parts = run_program(optimized(function, *args), args)
    with np.errstate(all="ignore"), minijit.disable_jit():
        want = flatten(function(*args))[0]
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        assert (a.shape, a.dtype) == (np.shape(b), np.asarray(b).dtype)
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)
    return parts


def kernel_of(function: Callable[..., Any], *args: Any) -> Kernel:
    """Return the one kernel of a program that gives what plain Python gives."""
    interpreted(function, *args)
    program = Program(optimized(function, *args))
    parts = partition(program, FEW_ROWS)
    (group,) = parts.steps
    assert isinstance(group, Group)
    kernel = lower_group(program, group, parts.stored, {}, "k").kernel
    check_kernel(kernel)
    return kernel


def all_of(kernel: Kernel, kind: type[Any]) -> list[Any]:
    return [node for node in walk(kernel.body) if isinstance(node, kind)]


def inside(node: Node) -> list[Node]:
    return [inner for block in blocks(node) for inner in walk(block.body)]


def average(x: Any, v: Any) -> Any:
    def step(mean: Any, row: Any) -> Any:
        mean = mean * 0.75 + row * 0.25
        return mean, mean

    return lax.scan(step, v, x)


def test_the_text_of_a_scan() -> None:
    assert str(kernel_of(average, X, V)).splitlines() == [
        "kernel k rows=(3,) cols=()",
        "  in  b0: f32[3] x1",
        "  in  b1: f32[12] x0",
        "  out b2: f32[3] out0",
        "  out b3: f32[12] out1",
        "  row    v0: f32 = load b0[i0]",
        "  loop i1 < 4 with v1: f32 = v0",
        "    do",
        "      row    v2: f32 = mul v1 0.75:f32",
        "      row    v3: f32 = load b1[i0 + 3*i1]",
        "      row    v4: f32 = mul v3 0.25:f32",
        "      row    v5: f32 = add v2 v4",
        "           store b3[i0 + 3*i1] = v5",
        "      -> v5",
        "    give v6: f32",
        "       store b2[i0] = v6",
    ]


def test_a_reversed_scan_walks_backwards() -> None:
    kernel = kernel_of(lambda x, v: lax.scan(lambda c, row: (c + row, c), v, x, reverse=True), X, V)
    (loop,) = all_of(kernel, Loop)
    indices = [n.index for n in inside(loop) if isinstance(n, Load | Store)]
    assert [(i.offset, i.terms) for i in indices] == [(9, ((0, 1), (1, -3)))] * 2


def test_the_text_of_a_while_loop() -> None:
    kernel = kernel_of(
        lambda v, n: lax.while_loop(lambda s: s[1] > 0, lambda s: (s[0] * 2, s[1] - 1), (v, n))[0],
        V,
        np.int32(3),
    )
    lines = [line.strip() for line in str(kernel).splitlines()]
    assert "while" in lines
    (loop,) = all_of(kernel, Loop)
    assert (loop.length, len(loop.carries)) == (None, 2)
    assert loop.condition is not None
    assert [type(n) for n in loop.condition.body] == [Map]


def test_the_text_of_a_branch() -> None:
    kernel = kernel_of(lambda p, x: lax.cond(p, jnp.exp, lambda v: v * 2, x), np.array(True), X)
    (branch,) = all_of(kernel, Branch)
    assert [[n.op.name for n in block.body if isinstance(n, Map)] for block in branch.blocks] == [
        ["mul"],
        ["exp"],
    ]
    assert len(all_of(kernel, Store)) == 1


def test_what_is_around_a_loop_is_in_its_kernel() -> None:
    """Each array is read once and written once, and nothing is stored on the way."""

    def function(x: Any, v: Any) -> Any:
        last, ys = lax.scan(lambda c, row: (c * 0.5 + row, c), jnp.exp(v), jnp.sin(x))
        return jnp.tanh(last) + v, jnp.square(ys)

    kernel = kernel_of(function, X, V)
    assert len(all_of(kernel, Loop)) == 1
    assert sorted(n.buffer for n in all_of(kernel, Load)) == [0, 1]
    assert len(all_of(kernel, Store)) == len(kernel.outputs) == 2


def test_what_no_step_changes_is_before_the_loop() -> None:
    def function(x: Any, v: Any, k: Any) -> Any:
        def step(c: Any, row: Any) -> Any:
            return c * jnp.tanh(k * v) + row, None

        return lax.scan(step, v, x)[0]

    kernel = kernel_of(function, X, V, np.array(0.5, np.float32))
    (loop,) = all_of(kernel, Loop)
    ops = [n.op.name for n in inside(loop) if isinstance(n, Map)]
    assert ops == ["mul", "add"]
    before = [n.op.name for n in kernel.body if isinstance(n, Map)]
    assert before == ["mul", "tanh"]


def test_what_the_inner_steps_do_not_change_is_in_the_outer_step() -> None:
    def function(x: Any, v: Any) -> Any:
        def outer(c: Any, row: Any) -> Any:
            return lax.fori_loop(0, 3, lambda _, s: s * 0.5 + jnp.exp(row), c), None

        return lax.scan(outer, v, x)[0]

    kernel = kernel_of(function, X, V)
    outer, inner = all_of(kernel, Loop)
    assert (outer.length, inner.length, kernel.steps) == (4, 3, (4, 3))
    assert "exp" not in [n.op.name for n in inside(inner) if isinstance(n, Map)]
    assert "exp" in [n.op.name for n in inside(outer) if isinstance(n, Map)]


def test_the_work_of_a_block_stays_in_it() -> None:
    """It depends on no step, but the block may never run."""

    def function(x: Any, v: Any) -> Any:
        def step(c: Any, row: Any) -> Any:
            return lax.cond(c[0] > 1e6, lambda: c + jnp.exp(v), lambda: c + row), None

        return lax.scan(step, v, x)[0]

    parts = partition(Program(optimized(function, X, V)), FEW_ROWS)
    # The predicate reads an element of what is carried, which is another point's.
    assert [why for _, why in parts.blocked] == [
        "a step reads other elements of what it carries than its own"
    ]

    def counted(x: Any, v: Any) -> Any:
        def step(state: Any, row: Any) -> Any:
            n, c = state
            c = lax.cond(n > 2, lambda: c + jnp.exp(v), lambda: c + row)
            return (n + 1, c), None

        return lax.scan(step, (np.int32(0), v), x)[0][1]

    kernel = kernel_of(counted, X, V)
    (branch,) = all_of(kernel, Branch)
    assert "exp" in [n.op.name for n in inside(branch) if isinstance(n, Map)]
    assert "exp" not in [n.op.name for n in kernel.body if isinstance(n, Map)]


def test_a_counter_is_carried_once_for_all_points() -> None:
    def function(v: Any) -> Any:
        return lax.fori_loop(0, 4, lambda i, s: s + i, v)

    kernel = kernel_of(function, V)
    (loop,) = all_of(kernel, Loop)
    assert sorted(carry.level.name for carry in loop.carries) == ["LAUNCH", "ROW"]


def test_scalar_carries_alone_are_a_kernel_of_one_point() -> None:
    kernel = kernel_of(
        lambda n: lax.while_loop(lambda s: s < n, lambda s: s * 2, np.int32(1)), np.int32(100)
    )
    assert (kernel.rows, kernel.cols) == ((), ())
    kernel = kernel_of(lambda x: lax.scan(lambda c, a: (c + a, c), np.float32(0), x), X[0])
    assert (kernel.rows, kernel.steps) == ((), (3,))


def test_rows_are_reduced_in_each_step() -> None:
    def function(x: Any) -> Any:
        def step(c: Any, rows: Any) -> Any:
            total = (c + rows).sum(-1, keepdims=True)
            return (c + rows) / total, total

        return lax.scan(step, x[0], x + 1)

    kernel = kernel_of(function, ROWS)
    assert (kernel.rows, kernel.cols, kernel.steps) == ((2,), (3,), (4,))
    (loop,) = all_of(kernel, Loop)
    assert sum(isinstance(n, Reduce) for n in inside(loop)) == 1


def test_a_reduction_of_constants_is_a_kernel_before_the_loop() -> None:
    parts = interpreted(
        lambda x, v: lax.scan(lambda c, row: (c * v.sum() + row, None), v, x)[0], X, V
    )
    assert len(parts.steps) == 2
    assert parts.blocked == ()
    assert "a loop or a branch shares no kernel with a reduction" in [
        refusal.reason for refusal in parts.refusals
    ]


def test_loops_over_one_space_share_a_kernel() -> None:
    parts = interpreted(
        lambda x, v: (
            lax.scan(lambda c, row: (c + row, None), v, x)[0],
            lax.scan(lambda c, row: (c * row, None), v, x)[0],
            jnp.exp(v),
        ),
        X,
        V,
    )
    assert len(parts.steps) == 1


def test_the_position_is_known_in_a_step() -> None:
    kernel = kernel_of(
        lambda v: lax.fori_loop(0, 3, lambda i, s: s * 2 + jnp.arange(3, dtype=np.float32), v), V
    )
    assert len(all_of(kernel, Index)) == 1


LENGTHS = [1, 10, 100_000]


def test_kernels_do_not_grow_with_the_number_of_steps() -> None:
    texts = []
    for length in LENGTHS:
        x = np.zeros((length, 3), np.float32)
        program = Program(optimized(average, x, V))
        parts = partition(program, FEW_ROWS)
        (group,) = parts.steps
        assert isinstance(group, Group)
        texts.append(str(lower_group(program, group, parts.stored, {}, "k").kernel).splitlines())
    assert len({len(text) for text in texts}) == 1
    assert [text[8] for text in texts][1:] == texts[1][8:9] * 2


def summed(c: Any, x: Any) -> Any:
    return lax.scan(lambda total, row: (total + row, None), c, x)[0]


BLOCKED: dict[str, tuple[Callable[..., Any], tuple[Any, ...], str]] = {
    "product": (
        lambda w: lax.fori_loop(0, 3, lambda _, c: jnp.tanh(c @ c), w),
        (W,),
        "both factors of a matmul change at each step",
    ),
    "product-in-a-branch": (
        lambda x, w: lax.cond(x[0, 0] > 0, lambda: x @ w, lambda: x),
        (X, W),
        "matmul is run by the array library",
    ),
    "neighbours": (
        lambda v: lax.fori_loop(0, 3, lambda _, s: s + jnp.roll(s, 1), v),
        (V,),
        "a step reads other elements of what it carries than its own",
    ),
    "an-element": (
        lambda v: lax.while_loop(lambda s: s[0] < 50, lambda s: s * 2, v),
        (V,),
        "a step reads other elements of what it carries than its own",
    ),
    "two-axes": (
        lambda x: lax.fori_loop(0, 2, lambda _, s: s - s.mean(0) + s.mean(1, keepdims=True), x),
        (X,),
        "its body reduces or multiplies rows of several shapes, or along several axes",
    ),
    "shapes": (
        lambda v, x: lax.fori_loop(0, 2, lambda _, s: (s[0] * 2, s[1] + s[0]), (v, x))[1],
        (V, X),
        "it computes arrays of shapes (4, 3) and (3,)",
    ),
    "collected-inside": (
        lambda x, v: lax.scan(
            lambda c, row: (c + lax.scan(lambda a, b: (a + b, a * 2), row, x)[1][1], None), v, x
        )[0],
        (X, V),
        "a loop inside it collects values, which have to be in memory",
    ),
    "taken-apart-inside": (
        lambda x, v: lax.fori_loop(
            0, 2, lambda _, c: summed(c, lax.fori_loop(0, 3, lambda _, s: s * 2, x + c)), v
        ),
        (X, V),
        "a loop inside it takes apart what another computes",
    ),
    "a-choice-taken-apart-inside": (
        lambda n, x, v: lax.fori_loop(
            0, 2, lambda i, c: summed(c, lax.cond(i + n > 1, lambda: x, lambda: -x)), v
        ),
        (np.int32(1), X, V),
        "a loop inside it takes apart what another computes",
    ),
    "collected-in-a-branch": (
        lambda x, v: lax.cond(
            x[0, 0] > 0, lambda: lax.scan(lambda a, b: (a + b, a * 2), v, x)[1], lambda: x
        ),
        (X + 1, V),
        "a loop inside it collects values, which have to be in memory",
    ),
}


@pytest.mark.parametrize("name", BLOCKED)
def test_what_no_kernel_holds_is_driven_by_the_host(name: str) -> None:
    function, args, reason = BLOCKED[name]
    parts = interpreted(function, *args)
    assert reason in [why for _, why in parts.blocked]


def test_long_rows_are_driven_by_the_host() -> None:
    x = np.ones((2, 40), np.float32)
    function = lambda v: lax.fori_loop(0, 2, lambda _, s: s / s.sum(-1, keepdims=True), v)  # noqa: E731
    program = Program(optimized(function, x))
    assert partition(program, FEW_ROWS, most_columns=40).blocked == ()
    ((_, why),) = partition(program, FEW_ROWS, most_columns=39).blocked
    assert why == "rows of 40 values are more than a loop keeps: 39"


def test_results_of_one_loop_that_fit_no_one_kernel_are_all_there() -> None:
    """Batches of a map: sums of rows, and the rows."""
    parts = interpreted(lambda x: lax.map(lambda v: (v.sum(), v), x, batch_size=3), X)
    assert sum(isinstance(step, Group) for step in parts.steps) >= 2


def test_single_values_are_reduced_too() -> None:
    """Rows of one value: a reduction all the same."""
    one = np.ones((1,), np.float32)

    def unfinished(state: Any) -> Any:
        return (state[0] < 3) & (state[1].max() < 5)

    interpreted(
        lambda v: lax.while_loop(unfinished, lambda s: (s[0] + 1, s[1] * 2), (np.int32(0), v)), one
    )
    interpreted(
        lambda v: lax.fori_loop(0, 2, lambda _, s: s + s.reshape(1).sum(), v), np.ones((1, 1))
    )


@pytest.mark.parametrize("seed", sampled(range(9000, 9300, 10), 2))
def test_random_programs(seed: int) -> None:
    for number in range(seed, seed + 10):
        function, args = random_loop_program(number, 4 + number % 10)
        with np.errstate(all="ignore"):
            got, _ = run_program(optimize(trace(function, args)), args)
        assert_equal(got, reference(function, args))
