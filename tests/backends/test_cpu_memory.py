"""Memory of large results: used again only when nobody can see it any more."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest

from minijit.backends.cpu import memory
from minijit.backends.cpu.memory import clear_memory, empty, idle_bytes

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
    monkeypatch.setattr(memory, "MOST_IDLE_BYTES", 6 * 4 * SIZE)
    arrays = [empty((SIZE,), FLOAT32) for _ in range(10)]
    arrays.append(empty((100 * SIZE,), FLOAT32))
    del arrays
    assert 0 < idle_bytes() <= 6 * 4 * SIZE


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
