"""Batching against a Python loop: every primitive, every subset of operands, random programs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import minijit
from minijit.extend.samples import DTYPES, samples, signatures
from minijit.graph.check import check_jaxpr
from minijit.graph.evaluate import evaluate
from minijit.graph.jaxpr import Jaxpr
from minijit.graph.primitive import (
    NO_BATCH,
    Derived,
    Kind,
    Primitive,
    Unsupported,
    all_primitives,
)
from minijit.graph.trace import bind
from minijit.ops.gather import SCATTERED
from tests.conftest import Device
from tests.sampling import sampled
from tests.transforms.random_bodies import random_loop_program, reference
from tests.transforms.random_programs import Array, Function, random_program

SIZE = 3
PRIMITIVES = tuple(all_primitives())
X = np.arange(24, dtype=np.float32).reshape(2, 3, 4) % 7 - 3
ROWS = np.array([[0, 2, 1], [1, 0, 2]])
FLAG = np.array([True, False])

WHOLE: dict[str, list[tuple[tuple[Any, ...], dict[str, Any]]]] = {
    "convert_element_type": [((X,), {"dtype": np.dtype(np.int32), "weak_type": False})],
    "broadcast_in_dim": [
        ((X[0],), {"shape": (3, 2, 4), "dims": (0, 2)}),
        ((X[0, :1],), {"shape": (2, 5, 4), "dims": (1, 2)}),
        ((X[0, 0, 0],), {"shape": (2, 3), "dims": ()}),
    ],
    "reshape": [
        ((X,), {"shape": (6, 4)}),
        ((X,), {"shape": (24,)}),
        ((X[0, 0, 0],), {"shape": (1, 1)}),
    ],
    "transpose": [((X,), {"permutation": order}) for order in itertools.permutations(range(3))],
    "squeeze": [((X[:, :1, :1],), {"axes": axes}) for axes in ((1,), (2,), (1, 2))],
    "rev": [((X,), {"axes": axes}) for axes in ((0,), (1, 2))],
    "slice": [((X,), {"start": (0, 1, 0), "stop": (2, 3, 4), "step": (1, 1, 3)})],
    "diagonal": [
        ((X,), {"offset": offset, "axis1": first, "axis2": second})
        for offset, first, second in ((0, 0, 1), (1, 2, 0), (-1, 1, 2))
    ],
    "concatenate": [((X, X[:, :2] + 1, X), {"axis": 1}), ((X[0, 0], X[0, 0] * 2), {"axis": 0})],
    "pad": [((X, np.float32(9)), {"low": (0, 1, 2), "high": (1, 0, 1)})],
    "gather": [
        ((X, ROWS), {"axes": (1,), "at": 1}),
        ((X, ROWS), {"axes": (2,), "at": 0}),
        ((X, ROWS % 2, ROWS), {"axes": (0, 2), "at": 1}),
        ((X, ROWS % 2, ROWS, ROWS), {"axes": (0, 1, 2), "at": 0}),
        ((X[0, 0], np.int64(1)), {"axes": (0,), "at": 0}),
    ],
    "scatter": [
        *(
            ((X, X[:, :2, None] * 5, ROWS[:, :1]), {"axes": (1,), "at": 1, "how": how})
            for how in SCATTERED
        ),
        ((X, X[:, :, :3] * 5, ROWS % 2, ROWS), {"axes": (0, 2), "at": 0, "how": "add"}),
    ],
    "sort": [((X,), {"axis": axis}) for axis in range(3)],
    "argsort": [((X,), {"axis": axis}) for axis in range(3)],
    "cumsum": [((X,), {"axis": axis}) for axis in range(3)],
    "cumprod": [((X,), {"axis": axis}) for axis in range(3)],
    "matmul": [
        ((a, b), {})
        for a, b in (
            (X[0], X[1].T),
            (X[0], X[0, 0]),
            (X[0, 0], X[0].T),
            (X[0, 0], X[0, 1]),
            (X, X[0].T),
            (X[0], X.swapaxes(1, 2)),
            (X, X.swapaxes(1, 2)),
            (X[0, 0], X.swapaxes(1, 2)),
            (X, X[0, 0]),
            (X[:1], np.stack([X, X]).swapaxes(2, 3)),
            (X[0, 0] > 0, X[0, 1] < 0),
            (X[0, 0].astype(np.int8) * 40, X[0, 1].astype(np.int8) * 3),
        )
    ],
}
"""Operands of one element, and parameters, of primitives whose kinds do not say what they take."""


def cases(primitive: Primitive) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Operands of one element and parameters to try a primitive on."""
    if primitive.name in WHOLE:
        return WHOLE[primitive.name]
    if primitive.kind is Kind.REDUCTION:
        x = X > 0 if primitive.name in ("reduce_any", "reduce_all") else X
        every = [axes for n in range(1, 4) for axes in itertools.combinations(range(3), n)]
        return [((x,), {"axes": axes}) for axes in every]
    chosen = signatures(primitive, DTYPES)
    columns = samples(primitive, next((s for s in chosen if s[-1] == np.float32), chosen[0]), 12)
    arrays = tuple(column[-6:].reshape(2, 3) for column in columns)
    mixed = [
        tuple(x if n == kept else x[0, 0] for n, x in enumerate(arrays))
        for kept in range(len(arrays))
    ]
    return [(operands, {}) for operands in (arrays, tuple(x[0, 0] for x in arrays), *mixed)]


def axes_to_try(operands: Sequence[Any]) -> Iterator[tuple[int | None, ...]]:
    """Yield where the batch may lie in each operand (nowhere, first, last), in at least one."""
    places = [dict.fromkeys((None, 0, np.ndim(x))) for x in operands]
    for axes in itertools.product(*places):
        if any(axis is not None for axis in axes):
            yield axes


def stacked(x: Any, axis: int | None) -> Any:
    """Return a batch of arrays like ``x``."""
    if axis is None:
        return x
    shifted = [
        np.roll(x, n) if np.ndim(x) else x + n if x.dtype != bool else x for n in range(SIZE)
    ]
    return np.stack(shifted, axis)


def element(x: Any, axis: int | None, number: int) -> Any:
    return x if axis is None else np.take(x, number, axis)


def looped(
    function: Callable[..., Sequence[Any]], args: Sequence[Any], axes: Sequence[Any]
) -> list[Any]:
    """Return what a loop over the elements collects."""
    with np.errstate(all="ignore"):
        rows = [
            function(*(element(x, axis, n) for x, axis in zip(args, axes, strict=True)))
            for n in range(SIZE)
        ]
    return [np.stack([np.asarray(value) for value in column]) for column in zip(*rows, strict=True)]


def assert_equal(got: Sequence[Any], want: Sequence[Any], rtol: float = 0) -> None:
    for a, b in zip(got, want, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol)


def batched(function: Function, args: Sequence[Any], axes: Sequence[Any]) -> Jaxpr:
    """Return the program of the batch, checked."""
    jaxpr = minijit.make_jaxpr(minijit.vmap(function, in_axes=tuple(axes)))(*args)
    check_jaxpr(jaxpr)
    return jaxpr


def test_every_primitive_says_what_a_batch_of_it_is() -> None:
    """Derived from its kind, by a rule, or with a reason of its own why there is none."""
    for primitive in PRIMITIVES:
        if primitive.kind in (Kind.VIEW, Kind.PIECEWISE, Kind.GATHER, Kind.LIBRARY):
            assert primitive.batch not in (Derived.BY_KIND, NO_BATCH), primitive
        else:
            assert primitive.batch is Derived.BY_KIND, primitive


def tried(*kinds: Kind) -> list[Primitive]:
    """Primitives of some kinds that can be batched and computed alone."""
    return [
        p
        for p in PRIMITIVES
        if p.kind in kinds and not isinstance(p.batch, Unsupported) and not p.effect
    ]


WHOLE_KINDS = (Kind.REDUCTION, Kind.VIEW, Kind.PIECEWISE, Kind.GATHER, Kind.LIBRARY)


@pytest.mark.parametrize("primitive", tried(Kind.ELEMENTWISE, *WHOLE_KINDS), ids=str)
def test_a_batch_is_the_loop(primitive: Primitive) -> None:
    for operands, params in cases(primitive):

        def apply(*xs: Any, params: dict[str, Any] = params) -> list[Any]:
            return [bind(primitive, *xs, **params)]

        for axes in axes_to_try(operands):
            args = [stacked(x, axis) for x, axis in zip(operands, axes, strict=True)]
            want = looped(apply, args, axes)
            with np.errstate(all="ignore"):
                got = evaluate(batched(apply, args, axes), args)
            assert_equal(got, want, 1e-6 if primitive.name == "matmul" else 0)


@pytest.mark.parametrize("place", [0, -1])
@pytest.mark.parametrize("kind", WHOLE_KINDS, ids=lambda kind: kind.value)
def test_batches_on_each_device(kind: Kind, place: int, device: Device) -> None:
    """All operations of a kind in one program, mapped over all operands."""
    every = [(p, *case) for p in tried(kind) for case in cases(p)]
    every = sampled(every, 3, -place) if kind is Kind.REDUCTION else every
    args = [[stacked(x, np.ndim(x) if place else 0) for x in operands] for _, operands, _ in every]

    def apply(groups: list[list[Any]]) -> list[Any]:
        return [bind(p, *xs, **params) for (p, _, params), xs in zip(every, groups, strict=True)]

    given = [[device.put(x) for x in xs] for xs in args]
    got = device.get(minijit.jit(minijit.vmap(apply, in_axes=place))(given))
    for (primitive, operands, params), xs, result in zip(every, args, got, strict=True):
        axes = [np.ndim(x) if place else 0 for x in operands]
        (want,) = looped(lambda *ys, p=primitive, k=params: [bind(p, *ys, **k)], xs, axes)
        assert_equal([result], [want], 1e-6 if result.dtype.kind == "f" else 0)


@pytest.mark.parametrize("seed", range(0, 60, 10))
def test_batches_of_random_programs(seed: int) -> None:
    for number in range(seed, seed + 10):
        check_random(*random_program(number, 4 + number % 12), number)


def check_random(function: Function, example: Sequence[Array], seed: int) -> None:
    rng = np.random.default_rng(seed)
    axes = [int(rng.integers(x.ndim + 1)) if rng.integers(3) else None for x in example]
    axes[0] = axes[0] or 0
    args = [stacked(x, axis) for x, axis in zip(example, axes, strict=True)]
    want = looped(lambda *xs: reference(function, xs), args, axes)
    with np.errstate(all="ignore"):
        assert_equal(evaluate(batched(function, args, axes), args), want)


@pytest.mark.parametrize("seed", range(500, 560, 10))
def test_batches_of_random_loops_and_branches(seed: int) -> None:
    for number in range(seed, seed + 10):
        check_random(*random_loop_program(number), number)
