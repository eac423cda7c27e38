"""What it takes to compile a program grows like the program, in every step and for every form."""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pytest

import minijit.numpy as jnp
from minijit.backends.base import Backend
from minijit.backends.registry import get_backend
from minijit.graph.few_rows import FewRows
from minijit.graph.tree import flatten
from minijit.lowering.demand import Program
from minijit.lowering.partition import partition
from minijit.runtime import pipeline
from minijit.runtime.placement import layout_of
from tests.transforms.random_programs import trace

SQUARE = np.linspace(-1, 1, 36, dtype=np.float32).reshape(6, 6)

T = TypeVar("T")


def shifted(x: Any, n: int) -> Any:
    for _ in range(n):
        x = x + x[::-1] * 2
    return x


def centred(x: Any, n: int) -> Any:
    for k in range(n):
        x = x - x.sum(k % 2, keepdims=True)
    return x


def layers(x: Any, n: int) -> Any:
    for _ in range(n):
        x = jnp.tanh(x @ x * 2 + 1)
    return x


def squeezed(x: Any, n: int) -> Any:
    """No kernel can hold the middle one of three reshapes."""
    for _ in range(n):
        x = jnp.tile((x + 1).reshape(4, 9)[:, 1:7].reshape(-1)[:18] * 2, 2).reshape(6, 6)
    return x


def random_steps(x: Any, n: int) -> Any:
    """Cheap and costly operations and reductions, of whatever came not long before."""
    choose = random.Random(0)
    made = [x, x * 2]
    for _ in range(n):
        one, other = choose.choice(made[-20:]), choose.choice(made[-20:])
        step: Callable[[], Any] = choose.choice(
            (
                lambda a=one, b=other: a + b,
                lambda a=one, b=other: a * b,
                lambda a=one: jnp.tanh(a),
                lambda a=one: a - a.mean(choose.choice((0, 1)), keepdims=True),
            )
        )
        made.append(step())
    return made[-20:]


GROWING: dict[str, Callable[[Any, int], Any]] = {
    "siblings": lambda x, n: [x * k for k in range(n)],
    "results": lambda x, n: list(itertools.accumulate([x] * n, lambda y, _: jnp.tanh(y))),
    "reductions": lambda x, n: [(x * k).sum(k % 2) for k in range(n)],
    "one sum of many": lambda x, n: sum(jnp.sin(x * k) for k in range(n)),
    "one array of many sums": lambda x, n: jnp.stack([(x * k).sum() for k in range(n)]),
    "products of one array": lambda x, n: [jnp.tanh(x @ (x * k)) for k in range(n)],
    "shapes": lambda x, n: [
        (x[: 1 + k % 5, : 1 + k % 6], jnp.tanh(x[k % 6]) * k) for k in range(n)
    ],
    "shifted": shifted,
    "centred": centred,
    "layers": layers,
    "squeezed": squeezed,
    "random": random_steps,
}


STEPS = ("optimize", "partition", "lower", "source")


def counted(run: Callable[[], T]) -> tuple[T, int]:
    """Return what ``run`` returns, and how many calls it makes, those of generators included."""
    calls = 0

    def notice(frame: Any, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(notice)
    try:
        return run(), calls
    finally:
        sys.setprofile(None)


def calls_of(function: Callable[[Any], Any], backend: Backend) -> dict[str, int]:
    """Return how many calls each step takes from the traced program to the sources of kernels."""
    traced = trace(lambda *xs: flatten(function(*xs))[0], (SQUARE,))
    program, optimizing = counted(lambda: pipeline.optimize(traced, backend))
    found = Program(program)
    parts, partitioning = counted(partial(partition, found, few_rows=FewRows(32), most_buffers=24))
    layouts = dict(zip(program.invars, [layout_of(SQUARE)], strict=True))
    kernels, lowering = counted(lambda: pipeline.lower(found, parts, layouts, backend))
    every = list(itertools.chain(*kernels))
    _, writing = counted(lambda: [backend.emit(lowered.kernel) for lowered in every])
    return dict(zip(STEPS, (optimizing, partitioning, lowering, writing), strict=True))


@pytest.mark.parametrize("name", GROWING)
def test_work_grows_like_the_program(name: str) -> None:
    backend = get_backend("cpu")
    # The first imports what it needs.
    _, few, more, most = (
        calls_of(lambda x, n=number: GROWING[name](x, n), backend) for number in (40, 40, 80, 160)
    )
    # It makes twice the calls for twice the program; a search among all pairs makes four times.
    for step in STEPS:
        assert most[step] - more[step] < 2.2 * (more[step] - few[step]), step
