"""Where the space of a map is cut, what each box still asks, and that nothing else changes."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minijit
import minijit.numpy as jnp
from minijit.graph.dtypes import BOOL
from minijit.graph.index import Affine
from minijit.lowering.boxes import boxes
from minijit.lowering.kernel_ir import (
    Buffer,
    Constant,
    Guard,
    Kernel,
    Level,
    Load,
    Map,
    Operand,
    Role,
    Statement,
    Store,
    Value,
)
from tests.conftest import Device
from tests.lowering.kernel_builder import OPS

F32 = np.dtype(np.float32)
X = np.arange(60 * 70, dtype=np.float32).reshape(60, 70)
V = np.arange(3_000, dtype=np.int32) % 251
RGB = np.arange(40 * 30 * 3, dtype=np.uint8).reshape(40, 30, 3)


def choice(rows: tuple[int, ...], conditions: list[Any]) -> Kernel:
    """Return a kernel that loads one number under each guard and takes the last that holds."""
    inputs = tuple(Buffer(f"x{n}", F32, Role.INPUT, True, 1) for n in range(len(conditions)))
    out = Buffer("out", F32, Role.OUTPUT, True, int(np.prod(rows)))
    body: list[Statement] = []
    result: Operand = Constant(np.float32(0), F32)
    for number, condition in enumerate(conditions):
        holds = Value(f"g{number}", BOOL, Level.ROW)
        loaded = Value(f"l{number}", F32, Level.ROW)
        chosen = Value(f"c{number}", F32, Level.ROW)
        body.append(Guard(holds, condition))
        body.append(Load(loaded, number, Affine(), holds))
        body.append(Map(chosen, OPS["select"], (holds, loaded, result), {}))
        result = chosen
    strides = np.cumprod((1, *rows[:0:-1]))[::-1]
    place = Affine(0, tuple((dim, int(stride)) for dim, stride in enumerate(strides)))
    body.append(Store(len(conditions), place, result, Level.ROW))
    return Kernel("k", rows, (), (*inputs, out), (), tuple(body))


def holds(guard: Guard, point: tuple[int, ...]) -> bool:
    values = (a.offset + sum(s * point[d] for d, s in a.terms) for a, _, _ in guard.conditions)
    return all(
        low <= value < high for value, (_, low, high) in zip(values, guard.conditions, strict=True)
    )


def taken(statements: Any, point: tuple[int, ...]) -> int | None:
    """Return which number is stored at a point; None for the zero."""
    guards = {s.out: s for s in statements if isinstance(s, Guard)}
    made = {s.out: s for s in statements if isinstance(s, Load | Map)}
    (store,) = (s for s in statements if isinstance(s, Store))
    value = store.value
    while True:
        match value, made.get(value):  # type: ignore[arg-type]
            case Constant(), _:
                return None
            case _, Map(args=(asked, one, other)):
                value = one if holds(guards[asked], point) else other  # type: ignore[index]
            case _, Load(guard=guard, buffer=buffer):
                assert guard is None or holds(guards[guard], point)  # type: ignore[index]
                return buffer


@pytest.mark.parametrize("seed", range(20))
def test_boxes_cover_the_space_and_choose_as_guards_do(seed: int) -> None:
    draw = random.Random(seed)
    rows = (draw.randint(30, 40), draw.randint(35, 45))
    conditions = []
    for _ in range(draw.randint(1, 3)):
        dims = draw.sample((0, 1), draw.randint(1, 2))
        condition = []
        for dim in dims:
            affine = Affine(draw.randint(-9, 9), ((dim, draw.choice((-3, -1, 1, 2))),))
            low = draw.randint(-60, 30)
            condition.append((affine, low, low + draw.randint(1, 60)))
        conditions.append(tuple(condition))
    kernel = choice(rows, conditions)
    seen = np.zeros(rows, int)
    for box in boxes(kernel):
        assert not any(isinstance(statement, Guard) for statement in box.statements)
        spans = [range(*box.spans.get(dim, (0, rows[dim]))) for dim in (0, 1)]
        for point in itertools.product(*spans):
            seen[point] += 1
            assert taken(box.statements, point) == taken(kernel.statements, point)
    assert (seen == 1).all() or not boxes(kernel)


def test_a_guard_of_two_dimensions_stays() -> None:
    both = ((Affine(0, ((0, 1), (1, 1))), 0, 30), (Affine(0, ((1, 1),)), 5, 50))
    first, second = boxes(choice((40, 50), [both]))
    assert not any(isinstance(s, Guard) for s in first.statements)
    (left,) = (s for s in second.statements if isinstance(s, Guard))
    assert left.conditions == both[:1]


def test_a_small_space_stays_whole() -> None:
    condition = ((Affine(0, ((0, 1),)), 5, 50),)
    assert len(boxes(choice((2_000,), [condition]))) == 3
    assert boxes(choice((200,), [condition])) == ()
    assert boxes(choice((2_000,), [])) == ()


def test_outer_dimensions_stay_whole_where_there_would_be_too_many() -> None:
    points = [tuple((Affine(0, ((d, 1),)), n, n + 1) for d in (0, 1)) for n in range(1, 24, 2)]
    found = boxes(choice((60, 60), points))
    assert len(found) == 25
    assert all(set(box.spans) == {1} for box in found)


def rolled(x: Any) -> Any:
    return sum(jnp.roll(jnp.roll(x, i, 0), j, 1) for i in (-1, 0, 1) for j in (-1, 0, 1))


def blurred(x: Any) -> Any:
    p = jnp.pad(x, ((2, 2), (0, 0)), mode="edge")
    return p[:-4] + 4 * p[1:-3] + 6 * p[2:-2] + 4 * p[3:-1] + p[4:]


MAPS: dict[str, tuple[Callable[..., Any], Any, int]] = {
    "concatenate": (lambda v: jnp.concatenate([v, v[::-1], v[:10]]), V, 3),
    "concatenate columns": (lambda x: jnp.concatenate([x, x * 2], 1), X, 2),
    "stack": (lambda v: jnp.stack([v, -v]), V, 2),
    "interleave": (lambda v: jnp.stack([v, -v], -1).reshape(-1), V, 2),
    "pad": (lambda x: jnp.pad(x, ((1, 2), (3, 4))), X, 9),
    "pad edge": (lambda x: jnp.pad(x, 2, mode="edge") + 1, X, 9),
    "pad reflect": (lambda x: jnp.pad(x, 2, mode="reflect"), X, 9),
    "pad wrap": (lambda x: jnp.pad(x, 2, mode="wrap"), X, 9),
    "pad channels": (lambda x: jnp.pad(x, ((1, 1), (1, 1), (0, 0))), RGB, 9),
    "roll": (lambda v: jnp.roll(v, 700) - v, V, 2),
    "roll both": (rolled, X, 9),
    "roll back": (lambda x: jnp.roll(x, -1, 0)[::-1, ::-1], X, 2),
    "blur": (blurred, X, 6),
}


@pytest.mark.parametrize("name", MAPS)
def test_maps_in_boxes(name: str, device: Device) -> None:
    function, value, count = MAPS[name]
    f = minijit.jit(function)
    got, want = device.get(f(device.put(value))), function(value)
    np.testing.assert_array_equal(got, want)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    if device.name == "cpu":
        (kernel,) = f.lower(value).compile().kernels()
        assert f"{count} boxes" in kernel.schedule
        # No loop asks anything.
        assert "select" not in str(kernel.source)
        assert " if v" not in str(kernel.source)
