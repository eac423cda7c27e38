"""How many kernels programs take, what each refusal says, and that size is no trouble."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minijit
import minijit.numpy as jnp
from minijit.graph.few_rows import FewRows
from minijit.graph.jaxpr import Jaxpr
from minijit.graph.tree import flatten
from minijit.lowering.demand import Program
from minijit.lowering.partition import Group, Partition, partition
from minijit.runtime.pipeline import optimize
from tests.lowering.interpret import run_program
from tests.transforms.random_programs import trace

X = np.linspace(-2, 2, 48, dtype=np.float32).reshape(6, 8)
V = np.linspace(0.5, 1.5, 8, dtype=np.float32)
SQUARE = np.linspace(-1, 1, 36, dtype=np.float32).reshape(6, 6)
LONG = np.ones(1 << 16, np.float32)


def optimized(function: Callable[..., Any], *args: Any) -> Jaxpr:
    return optimize(trace(lambda *xs: flatten(function(*xs))[0], args))


def partitioned(function: Callable[..., Any], *args: Any) -> Partition:
    return partition(Program(optimized(function, *args)), few_rows=FewRows(32))


def softmax(x: Any) -> Any:
    e = jnp.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def layernorm(x: Any, g: Any, b: Any) -> Any:
    d = x - x.mean(-1, keepdims=True)
    return d / jnp.sqrt((d * d).mean(-1, keepdims=True) + 1e-5) * g + b


def rmsnorm(x: Any, g: Any) -> Any:
    return x / jnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * g


def logsumexp(x: Any) -> Any:
    m = x.max(-1, keepdims=True)
    return jnp.log(jnp.exp(x - m).sum(-1)) + m[..., 0]


def gelu(x: Any) -> Any:
    return 0.5 * x * (1 + jnp.tanh(0.7978845608 * (x + 0.044715 * x**3)))


def poly(x: Any) -> Any:
    return ((((2 * x + 3) * x - 1) * x + 4) * x - 2) * x


def black_scholes(s: Any, k: Any, t: Any) -> Any:
    root = 0.2 * jnp.sqrt(t)
    d1 = (jnp.log(s / k) + (0.05 + 0.02) * t) / root
    d2 = d1 - root
    n1, n2 = (0.5 * (1 + jnp.tanh(0.8 * d)) for d in (d1, d2))
    discounted = k * jnp.exp(-0.05 * t)
    return s * n1 - discounted * n2, discounted * (1 - n2) - s * (1 - n1)


def adam(p: Any, g: Any, m: Any, v: Any, step: Any) -> Any:
    m = 0.9 * m + 0.1 * g
    v = 0.999 * v + 0.001 * g * g
    update = (m / (1 - 0.9**step)) / (jnp.sqrt(v / (1 - 0.999**step)) + 1e-8)
    return p - 1e-3 * update, m, v


def colstats(x: Any) -> Any:
    mean = x.mean(0)
    return mean, ((x - mean) ** 2).mean(0)


ONE_KERNEL: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "softmax": (softmax, (X,)),
    "layernorm": (layernorm, (X, V, V)),
    "rmsnorm": (rmsnorm, (X, V)),
    "logsumexp": (logsumexp, (X,)),
    "gelu": (gelu, (X,)),
    "poly": (poly, (X,)),
    "black-scholes": (black_scholes, (V, V, V)),
    "adam": (adam, (X, X, X, X * X, 3.0)),
    "two-outputs": (lambda x, y: (jnp.sin(x), y * 2), (X, X)),
    "column-stats": (colstats, (X,)),
    "column-sum": (lambda x: (x * 2).sum(0), (X,)),
    "several-reductions": (lambda x: (x.sum(-1), x.max(-1), x.argmax(-1)), (X,)),
    "reduction-and-its-input": (lambda x: (jnp.exp(x), jnp.exp(x).sum(-1)), (X,)),
    "stencil": (lambda x: 0.25 * (x[2:] + 2 * x[1:-1] + x[:-2]), (V,)),
    "stencil-2d": (lambda x: x[1:, 1:] + x[:-1, :-1] - x[1:, :-1] * x[:-1, 1:], (X,)),
    "transposed-operand": (lambda x: (x * 2).T + x, (SQUARE,)),
    "split-by-reshape": (lambda x: x.reshape(6, 2, 4).sum(-1) * 2, (X,)),
    "merged-by-reshape": (lambda x: jnp.exp(x).reshape(48) + 1, (X,)),
    "concatenate": (lambda x, y: jnp.concatenate([x * 2, y + 1]) - 3, (V, V)),
    "pad": (lambda x: jnp.pad(jnp.exp(x), ((1, 1), (0, 2))) + 1, (X,)),
    "broadcast": (lambda x, v: x * v + v[:6, None], (X, V)),
    "hundred-arguments": (lambda *xs: sum(x * k for k, x in enumerate(xs)), (V,) * 100),
}


@pytest.mark.parametrize("name", ONE_KERNEL)
def test_is_one_kernel(name: str) -> None:
    function, args = ONE_KERNEL[name]
    jaxpr = optimized(function, *args)
    got, parts = run_program(jaxpr, args)
    assert len(parts.steps) == 1
    assert not parts.refusals
    want = flatten(function(*args))[0]
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=3e-6, atol=3e-6)


def kinds(parts: Partition) -> list[str]:
    return ["kernel" if isinstance(s, Group) else s.primitive.name for s in parts.steps]


def test_what_follows_a_matmul_is_one_kernel() -> None:
    def dense(x: Any, w: Any, b: Any) -> Any:
        return (jnp.tanh(x @ w + b) ** 2).mean(-1)

    assert kinds(partitioned(dense, X, X.T.copy(), V[:6])) == ["matmul", "kernel"]


def test_a_transposed_operand_of_a_matmul_is_not_copied() -> None:
    parts = partitioned(lambda x: (x.T @ x, x.T + 1), X)
    program_views = [s for s in parts.steps if not isinstance(s, Group)]
    assert sum(s.primitive.name == "transpose" for s in program_views) == 1
    view = next(s for s in program_views if s.primitive.name == "transpose")
    assert not parts.stored.intersection(view.outvars)


def test_full_reduction_of_a_long_array_is_two_launches() -> None:
    parts = partitioned(lambda x: (x * x).sum(), LONG)
    (group,) = parts.steps
    assert isinstance(group, Group)
    assert group.split


def test_what_needs_a_split_reduction_waits_for_it() -> None:
    parts = partitioned(lambda x: x / x.sum(), LONG)
    assert kinds(parts) == ["kernel", "kernel"]
    assert "its result is known only after the kernel" in parts.refusals[0].reason


def test_row_and_column_statistics_of_a_square_are_kept_apart() -> None:
    def both(x: Any) -> Any:
        return x - x.sum(0) + x.sum(1)[:, None]

    got, parts = run_program(optimized(both, SQUARE), (SQUARE,))
    assert 2 <= len(parts.steps) <= 3
    np.testing.assert_allclose(got[0], both(SQUARE), rtol=1e-5, atol=1e-5)


REFUSED: dict[str, tuple[Callable[..., Any], tuple[Any, ...], str]] = {
    "shapes": (lambda x: x.sum(-1).sum(), (X,), "iteration spaces differ"),
    "place": (
        lambda x: (lambda e: (e, e + e[::-1]))(jnp.exp(jnp.sin(x) * jnp.cos(x))),
        (X,),
        "at another place than where it is computed",
    ),
    "split": (lambda x: x / x.sum(), (LONG,), "few long rows"),
    "cycle": (
        lambda x: (lambda e: e + (e @ e.T))(jnp.exp(jnp.sin(x) * jnp.cos(x))),
        (SQUARE,),
        "computed from that kernel's results",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_every_refusal_has_a_reason(name: str) -> None:
    function, args, reason = REFUSED[name]
    report = minijit.debug.explain_fusion(function, *args)
    assert reason in str(report)
    assert all("test_partition.py" in boundary for boundary in report.boundaries)


def test_the_report_lists_every_step() -> None:
    report = minijit.debug.explain_fusion(lambda x: jnp.tanh(x @ x.T).sum(-1), X)
    text = str(report)
    assert f"in {len(report.kernels)} steps" in text
    assert "array library: " in text
    assert "reduce_sum" in text


def layers(x: Any) -> Any:
    for _ in range(250):
        x = x - x.mean(-1, keepdims=True)
        x = jnp.tanh(x / jnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-5))
    return x


def products(x: Any) -> Any:
    for k in range(300):
        x = jnp.tanh(x @ x.T + k)
    return x


def chain(x: Any) -> Any:
    for k in range(1000):
        x = x * 0.999 + (k % 3) * 0.001
    return x


def fan_out(x: Any) -> Any:
    y = jnp.sin(x)
    return sum(y * k for k in range(200)) + y.max()


LARGE: dict[str, tuple[Callable[..., Any], tuple[Any, ...], int]] = {
    "chain": (chain, (V,), 1),
    "fan-out": (fan_out, (V,), 1),
    "layers": (layers, (X,), 4),
    "matmuls": (products, (SQUARE,), 300),
    "five-hundred-shapes": (
        lambda *xs: [(x * 2, x.sum()) for x in xs],
        tuple(np.ones(n + 2, np.float32) for n in range(500)),
        500,
    ),
    "sixty-outputs": (lambda x: [x * k + x.sum() for k in range(60)], (V,), 1),
    "eighty-reductions": (
        lambda x: jnp.stack([(x * k).sum(1) - x.max(1) for k in range(80)]),
        (X,),
        2,
    ),
}


@pytest.mark.parametrize("name", LARGE)
def test_large_programs(name: str) -> None:
    """Neither recursion nor a search that grows faster than the program: it would not end here."""
    function, args, most = LARGE[name]
    depth = sys.getrecursionlimit()
    program = Program(optimized(function, *args))
    sys.setrecursionlimit(200)
    try:
        parts = partition(program, few_rows=FewRows(32))
    finally:
        sys.setrecursionlimit(depth)
    assert sum(isinstance(step, Group) for step in parts.steps) <= most


GUARDED = np.linspace(0.1, 2, 40)
TWELVE = np.linspace(0.1, 2, 12)


def stacked(x: Any, z: Any) -> Any:
    """A costly value is a result, and is read under a guard in the middle of a reduction."""
    y = jnp.exp(x) * jnp.tanh(x)
    return y, jnp.concatenate([y[None], z]).sum(0)


def two_foldings(x: Any) -> Any:
    """Two results whose reshapes cut the same twelve elements as 3 x 4 and as 4 x 3."""
    return jnp.exp(x.reshape(3, 4).T.reshape(12)), jnp.exp(x.reshape(4, 3).T.reshape(12))


def two_folded_sums(x: Any) -> Any:
    """The same inside two reductions."""
    a = jnp.tanh(x.reshape(3, 4).T.reshape(12)) + 1
    b = jnp.tanh(x.reshape(4, 3).T.reshape(12)) * 2
    return a.sum() + b.max()


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (stacked, (GUARDED, GUARDED[None] + 1)),
        (two_foldings, (TWELVE,)),
        (two_folded_sums, (TWELVE,)),
    ],
    ids=["guarded", "foldings", "folded-sums"],
)
def test_what_cannot_share_a_kernel_does_not(
    function: Callable[..., Any], args: tuple[np.ndarray, ...]
) -> None:
    got, parts = run_program(optimized(function, *args), args)
    assert len(parts.steps) > 1
    for value, wanted in zip(got, flatten(function(*args))[0], strict=True):
        np.testing.assert_allclose(value, wanted, rtol=1e-12)


@pytest.mark.parametrize("most", [4, 16])
def test_a_kernel_reads_no_more_arrays_than_it_may(most: int) -> None:
    arrays = [V * n for n in range(40)]

    def total(*xs: Any) -> Any:
        result = xs[0]
        for x in xs[1:]:
            result = result + x
        return result

    program = Program(optimized(total, *arrays))
    parts = partition(program, few_rows=FewRows(32), most_buffers=most)
    groups = [step for step in parts.steps if isinstance(step, Group)]
    assert len(groups) == len(parts.steps) == -(-39 // (most - 2))


def test_an_operation_of_too_many_operands_is_left_to_the_array_library() -> None:
    arrays = [V] * 9
    program = Program(optimized(lambda *xs: jnp.concatenate(xs) * 2, *arrays))
    parts = partition(program, few_rows=FewRows(32), most_buffers=8)
    assert [isinstance(step, Group) for step in parts.steps] == [False, True]
