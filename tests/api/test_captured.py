"""Arrays captured by closure: read in place, in whatever strides, and resized behind our back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minijit
import minijit.numpy as jnp
from minijit.graph.config import config
from minijit.runtime.captured import CapturedArrayChanged

X = np.arange(12, dtype=np.float32)


def misaligned() -> Any:
    raw = bytearray(1) + bytearray(X.tobytes())
    return np.frombuffer(raw, np.float32, 12, offset=1).reshape(3, 4).T


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w: x + w,
        lambda x, w: (x * w).sum(0),
        lambda x, w: w.T @ x,
        lambda x, w: x + w[::-1],
    ],
)
def test_misaligned_arrays(function: Callable[..., Any]) -> None:
    w = misaligned()
    assert not w.flags.aligned
    x = X.reshape(4, 3) * 10
    np.testing.assert_array_equal(minijit.jit(lambda x: function(x, w))(x), function(x, w))


def test_misaligned_arrays_are_read_at_each_call() -> None:
    w = misaligned()
    f = minijit.jit(lambda x: x + w)
    x = X.reshape(4, 3)
    f(x)
    w[...] = 7
    np.testing.assert_array_equal(f(x), x + 7)


def resized(q: Any) -> None:
    q.resize((4,), refcheck=False)


def reshaped(q: Any) -> None:
    q.shape = (3, 4)


def grown(q: Any) -> None:
    q.resize((100_000,), refcheck=False)


CHANGES = [resized, reshaped, grown]
CALLS: list[Callable[[Any], Any]] = [
    lambda f: f(1.0),
    lambda f: f(s=1.0),
    lambda f: f(s=np.float64(1)),
]


@pytest.mark.filterwarnings("ignore:Setting the shape:DeprecationWarning")
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("call", CALLS)
def test_arrays_resized_in_place_are_traced_anew(
    counts: Counter[str], change: Callable[[Any], None], call: Callable[[Any], Any]
) -> None:
    q = np.arange(12.0)
    f = minijit.jit(lambda s: (q * s, (q * s).sum()))
    for _ in range(3):
        call(f)
    assert counts["trace"] == 1
    change(q)
    for _ in range(3):
        doubled, total = call(f)
        np.testing.assert_array_equal(doubled, q)
        assert total == q.sum()
    assert counts["trace"] == 2
    assert (f._cache_size(), f.stats()["plans"]) == (1, 1)


@pytest.mark.filterwarnings("ignore:Setting the strides:DeprecationWarning")
def test_strides_alone_are_part_of_the_program(counts: Counter[str]) -> None:
    base = np.arange(16.0)
    q = base[:4]
    f = minijit.jit(lambda s: q + s)
    f(0.0)
    q.strides = (16,)
    for _ in range(2):
        np.testing.assert_array_equal(f(0.0), base[:8:2])
    assert counts["trace"] == 2


def test_growing_and_shrinking_again_is_no_change(counts: Counter[str]) -> None:
    q = np.arange(12.0)
    f = minijit.jit(lambda s: q + s)
    f(0.0)
    q.resize((1 << 20,), refcheck=False)  # its memory moves
    q.resize((12,), refcheck=False)
    np.testing.assert_array_equal(f(1.0), np.arange(12.0) + 1)
    assert counts["trace"] == 1


def test_a_compiled_program_says_so_and_the_function_recovers() -> None:
    q = np.arange(12.0)
    f = minijit.jit(lambda s: q + s)
    lowered = f.lower(1.0)
    compiled = lowered.compile()
    compiled(1.0)
    resized(q)
    with pytest.raises(CapturedArrayChanged, match="resized or reshaped in place"):
        compiled(1.0)
    f.clear_cache()
    with pytest.raises(CapturedArrayChanged):
        minijit.jit(lambda s: q + s).lower(1.0).compile()(resize_again(q))
    np.testing.assert_array_equal(f(1.0), q + 1)


def resize_again(q: Any) -> float:
    q.resize((2,), refcheck=False)
    return 1.0


def test_what_was_only_lowered_is_traced_anew() -> None:
    q = np.arange(12.0)
    f = minijit.jit(lambda s: q + s)
    lowered = f.lower(1.0)
    resized(q)
    with pytest.raises(CapturedArrayChanged):
        lowered.compile()
    np.testing.assert_array_equal(f(1.0), q + 1)


def test_inner_programs_notice_too() -> None:
    q = np.arange(12.0)
    inner = minijit.jit(lambda s: q + s)
    np.testing.assert_array_equal(minijit.jit(lambda s: inner(s) * 2)(1.0), (q + 1) * 2)
    resized(q)
    np.testing.assert_array_equal(minijit.jit(lambda s: inner(s) * 3)(1.0), (q + 1) * 3)


def test_the_miss_is_explained(caplog: pytest.LogCaptureFixture) -> None:
    q = np.arange(12.0)
    f = minijit.jit(lambda s: jnp.exp(q) + s)
    f(1.0)
    resized(q)
    with config.override(explain_cache_misses=True):
        f(1.0)
    assert "a captured array was resized" in caplog.text
