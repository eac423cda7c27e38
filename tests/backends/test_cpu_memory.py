"""Memory of large results: used again only when nobody can see it any more."""

from __future__ import annotations

import gc
import threading
from collections import Counter
from typing import Any

import numpy as np
import pytest

import minijit
from minijit.backends.cpu import memory
from minijit.backends.cpu.memory import clear_memory, empty, expect, idle_bytes

FLOAT32 = np.dtype(np.float32)
SIZE = memory.LEAST_BYTES // 4 * 2


@pytest.fixture(autouse=True)
def _nothing_idle() -> None:
    gc.collect()
    clear_memory()


def address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def test_memory_is_used_again() -> None:
    first = empty((SIZE,), FLOAT32)
    place = address(first)
    assert place % 64 == 0
    del first
    assert idle_bytes() >= 4 * SIZE
    second = empty((2, SIZE // 2), FLOAT32)
    assert address(second) == place
    assert idle_bytes() == 0


@pytest.mark.parametrize(
    "view",
    [
        lambda array: array[5:],
        lambda array: array.base,
        lambda array: np.asarray(array),
        lambda array: memoryview(array),
        lambda array: memoryview(array.base),
        lambda array: array.reshape(2, -1).T[::-1].view(np.int32),
        lambda array: np.frombuffer(array, np.uint8)[8:],
        lambda array: np.from_dlpack(array),
        lambda array: array.data.cast("B"),
    ],
)
def test_memory_with_a_view_is_not_used_again(view: Any) -> None:
    array = empty((SIZE,), FLOAT32)
    array[:] = 7
    place, seen = address(array), view(array)
    del array
    gc.collect()
    other = empty((SIZE,), FLOAT32)
    other[:] = 1
    assert address(other) != place
    del other
    assert np.frombuffer(memoryview(np.ascontiguousarray(seen)), np.uint8).view(FLOAT32)[-1] == 7
    del seen
    assert idle_bytes() >= 8 * SIZE


def test_small_arrays_are_numpys() -> None:
    array = empty((16,), FLOAT32)
    assert array.base is None
    assert array.flags.owndata


def test_idle_memory_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "LEAST_IDLE_BYTES", 6 * 4 * SIZE)
    arrays = [empty((SIZE,), FLOAT32) for _ in range(10)]
    arrays.append(empty((100 * SIZE,), FLOAT32))
    del arrays
    assert 0 < idle_bytes() <= 6 * 4 * SIZE


def adam(p: Any, g: Any, m: Any, v: Any) -> tuple[Any, Any, Any]:
    m = 0.9 * m + 0.1 * g
    v = 0.999 * v + 0.001 * g * g
    return p - 1e-3 * m / (np.sqrt(v) + 1e-8), m, v


@pytest.mark.parametrize("kept", [True, False])
def test_what_a_program_returns_fits(
    kept: bool, monkeypatch: pytest.MonkeyPatch, counts: Counter[str]
) -> None:
    monkeypatch.setattr(memory, "LEAST_IDLE_BYTES", 4 * SIZE)
    fresh: list[Any] = []
    allocate = np.empty

    def recorded(shape: Any, dtype: Any = float) -> Any:
        array = allocate(shape, dtype)
        if array.nbytes >= memory.LEAST_BYTES:
            fresh.append(shape)
        return array

    monkeypatch.setattr(memory.np, "empty", recorded)
    # No multiple of the grain of the pool: what it rounds up counts as well.
    p, g, m, v = (np.ones(SIZE + 77, np.float32) for _ in range(4))
    # Another function in each test: what is expected was forgotten with the memory.
    step = minijit.jit(lambda *state: adam(*state))
    for _ in range(6):
        results = step(p, g, m, v)
        if kept:
            p, m, v = results
    assert (counts["trace"], counts["launch"]) == (1, 6)
    assert len(fresh) == 6  # three of one call, and three while those are still there
    del results, p, m, v
    assert 3 * 4 * SIZE < idle_bytes() <= memory.most_idle_bytes() < 4 * 4 * SIZE


def test_no_more_than_a_share_of_the_machine_lies_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "machine_bytes", lambda: 8 * 5 * memory.LEAST_IDLE_BYTES)
    expect([3 * memory.LEAST_IDLE_BYTES])
    assert memory.most_idle_bytes() == 3 * memory.LEAST_IDLE_BYTES
    expect([3 * memory.LEAST_IDLE_BYTES] * 2)
    assert memory.most_idle_bytes() == 5 * memory.LEAST_IDLE_BYTES
    clear_memory()
    assert memory.most_idle_bytes() == memory.LEAST_IDLE_BYTES


def test_threads_never_share_memory() -> None:
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(200):
            array = empty((SIZE,), FLOAT32)
            array[::4096] = number
            if not (array[::4096] == number).all():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_large_arrays_are_ordinary_arrays() -> None:
    array = empty((4, SIZE // 4), FLOAT32)
    assert array.shape == (4, SIZE // 4)
    assert array.dtype == np.float32
    assert array.flags.c_contiguous
    assert array.flags.writeable
    assert array.flags.aligned
    array[:] = 3
    assert (array + 1).sum(dtype=np.float64) == 4 * SIZE
