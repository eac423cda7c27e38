"""Graphs on the emulated device: what a capture records, and what it refuses."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from minijit.backends.base import load_source
from minijit.backends.emulator.backend import EmulatedBackend
from minijit.backends.emulator.errors import CaptureError, MemoryAccessError
from tests.lowering.kernel_builder import Builder, constant

SIZE = 8


@pytest.fixture(scope="module")
def backend() -> EmulatedBackend:
    return EmulatedBackend()


@pytest.fixture(scope="module")
def double(backend: EmulatedBackend) -> Callable[[Any, Any], None]:
    """Writes twice the first array to the second."""
    build = Builder((SIZE,))
    build.store(build.map("mul", build.load([1]), constant(2.0)), [1])
    source = backend.emit(build.kernel())
    launch = load_source(backend, source, backend.compile(source))
    return lambda x, y: launch((x, y))


def test_a_capture_runs_nothing_and_a_replay_everything_again(
    backend: EmulatedBackend, double: Any
) -> None:
    x, y = (backend.asarray(np.full(SIZE, value, np.float32)) for value in (3, 0))

    def launch() -> None:
        double(x, y)
        double(y, x)

    replay = backend.capture(launch)
    assert (x == 3).all()
    assert (y == 0).all()
    for times in (1, 2):
        replay()
        assert (x == 3 * 4**times).all()
        assert (y == x / 2).all()


def forbidden(backend: EmulatedBackend) -> dict[str, Callable[[], object]]:
    array = backend.asarray(np.zeros(SIZE, np.float32))
    replay = backend.capture(lambda: None)
    return {
        "memory is allocated": backend.allocator((3,), np.dtype(np.float32)),
        "an array is copied to the device": lambda: backend.asarray(np.zeros(2)),
        "an array is copied to the host": backend.reader(array),
        "the host waits for the device": backend.synchronize,
        "another graph is captured": lambda: backend.capture(lambda: None),
        "a graph is launched": replay,
    }


@pytest.mark.parametrize("what", forbidden(EmulatedBackend()))
def test_what_a_graph_cannot_hold_is_refused(
    what: str, backend: EmulatedBackend, double: Any
) -> None:
    refused = forbidden(backend)[what]
    refused()
    x, y = (backend.asarray(np.ones(SIZE, np.float32)) for _ in range(2))

    def launch() -> None:
        double(x, y)
        refused()

    with pytest.raises(CaptureError, match=f"^{what} while a graph is captured"):
        backend.capture(launch)
    double(x, y)  # launches run again, and at once
    assert (y == 2).all()
    refused()


def test_other_threads_go_on_meanwhile(backend: EmulatedBackend, double: Any) -> None:
    x, y, z = (backend.asarray(np.ones(SIZE, np.float32)) for _ in range(3))

    def launch() -> None:
        double(x, y)
        thread = threading.Thread(target=lambda: double(backend.asarray(x), z))
        thread.start()
        thread.join()

    replay = backend.capture(launch)
    assert (z == 2).all()
    assert (y == 1).all()
    z[:] = 0
    replay()
    assert (y == 2).all()
    assert (z == 0).all()


def test_a_graph_does_not_keep_its_arrays(backend: EmulatedBackend, double: Any) -> None:
    arrays = [backend.asarray(np.ones(SIZE, np.float32)) for _ in range(2)]
    replay = backend.capture(lambda: double(*arrays))
    arrays.clear()
    with pytest.raises(MemoryAccessError):
        replay()
