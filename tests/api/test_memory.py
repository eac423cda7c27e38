"""What a cache keeps alive is bounded, whatever a function is called with and its globals are."""

from __future__ import annotations

import subprocess
import sys
import types
import weakref
from typing import Any

import numpy as np
import pytest

import minijit
from minijit.graph.config import config
from tests.conftest import Device
from tests.sampling import DEEP

MEBI = 2**20
SHAPES = 10_000 if DEEP else 2_000

MANY_SHAPES = """
import os, sys
import numpy as np
import minijit

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

minijit.config.update("cache_entries", 256)
minijit.config.update("recompile_warning", 0)
f = minijit.jit(lambda x: np.tanh(x) * 2 + x)
with minijit.debug.count() as counts:
    for size in range(1, int(sys.argv[1]) + 1):
        y = f(np.ones(size, np.float32))
        assert y.shape == (size,)
        if size == 1000:
            before = resident()
assert f.stats()["signatures"] == 256
print(counts["trace"], resident() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_many_shapes_need_no_more_memory() -> None:
    run = [sys.executable, "-c", MANY_SHAPES, str(SHAPES)]
    out = subprocess.run(run, capture_output=True, text=True, check=True).stdout
    traces, growth = map(int, out.split())
    assert traces == SHAPES
    assert growth < 64 * MEBI


def module() -> Any:
    made = types.ModuleType("m")
    exec("w = None\ndef f(x): return x * w", vars(made))
    return made


def test_arrays_that_a_global_stood_for_are_bounded(device: Device) -> None:
    m = module()
    f = minijit.jit(m.f)
    x = device.put(np.ones(MEBI // 8))
    alive: list[weakref.ref[Any]] = []
    with config.override(cache_bytes=4 * MEBI):
        for step in range(12):
            m.w = device.put(np.full(MEBI // 8, float(step)))
            alive.append(weakref.ref(m.w))
            assert float(device.get(f(x))[-1]) == step
    assert sum(each() is not None for each in alive) <= 5  # four, and the one at hand
    assert f._cache_size() <= 5


def test_an_array_that_all_programs_read_drives_none_out(device: Device) -> None:
    m = module()
    m.w = device.put(np.ones((1, MEBI // 8)))
    f = minijit.jit(m.f)
    with config.override(cache_bytes=MEBI // 2):
        for rows in range(1, 5):
            f(device.put(np.ones((rows, 1))))
    assert f._cache_size() == 4
