"""One code for many sizes: what is compiled for one number of elements serves the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import minijit
from tests.conftest import Device

SIZES = [65, 66, 511, 512, 1000, 4097, (3, 50), (2, 3, 41), 70_001]
SMALL = [0, 1, 2, 7, 8, 9, 63, 64]

Program = Callable[[Any, Any], Any]


@pytest.fixture(autouse=True)
def nothing_compiled() -> Iterator[None]:
    minijit.clear_caches()
    yield
    minijit.clear_caches()


PROGRAMS: list[Program] = [
    lambda x, y: x * 2 - y,
    lambda x, y: (np.where(x > y, x, -y), (x > 0) & (y > 0)),
    lambda x, y: (x.astype(np.float64) * y, y + np.float32(3)),
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_size_has_its_result(device: Device, program: Program, counts: Counter[str]) -> None:
    f = minijit.jit(program)
    for size in SIZES + SMALL:
        x = np.linspace(-1, 1, int(np.prod(size)), dtype=np.float32).reshape(size)
        y = np.flip(x).copy() / 3
        got, want = device.get(f(device.put(x), device.put(y))), program(x, y)
        for one, other in zip(
            got if isinstance(got, tuple) else (got,),
            want if isinstance(want, tuple) else (want,),
            strict=True,
        ):
            assert (one.shape, one.dtype) == (other.shape, other.dtype)
            np.testing.assert_array_equal(one, other)
    assert counts["trace"] == len(SIZES + SMALL)


def test_larger_sizes_share_one_compile(device: Device, counts: Counter[str]) -> None:
    f = minijit.jit(lambda x: np.tanh(x) / 3)
    kept = []
    for size in SIZES:
        f(device.put(np.ones(size, np.float32)))
        kept.append(f.lower(device.put(np.ones(size, np.float32))).compile())
    # On CUDA sizes that are whole tiles need no test of the end, which is another code.
    assert counts["compile"] == (1 if device.name == "cpu" else 2)
    assert counts["load"] == len({int(np.prod(size)) for size in SIZES})
    assert f.stats()["signatures"] == len(SIZES)


def test_sizes_of_one_code_run_side_by_side(device: Device) -> None:
    f = minijit.jit(lambda x: x + 1)
    arrays = [np.full(size, size, np.float32) for size in (100, 200, 5000)]
    for _ in range(2):
        for x in arrays:
            np.testing.assert_array_equal(device.get(f(device.put(x))), x + 1)


def test_the_text_says_what_is_passed(device: Device) -> None:
    compiled = minijit.jit(lambda x: x - 1).lower(device.put(np.ones(999, np.float32))).compile()
    assert "# extent: i" in compiled.as_text()
    assert "999 here" in compiled.as_text()


def test_captured_positions_and_scalars_come_along(device: Device, counts: Counter[str]) -> None:
    f = minijit.jit(lambda x, s: x * s + np.arange(x.shape[0], dtype=np.float32))
    for size in (100, 1000, 3000):
        x = np.ones(size, np.float32)
        want = x * 2.5 + np.arange(size, dtype=np.float32)
        np.testing.assert_array_equal(device.get(f(device.put(x), 2.5)), want)


def test_branches_share_a_code_on_the_cpu(counts: Counter[str]) -> None:
    f = minijit.jit(lambda p, x: minijit.lax.cond(p, lambda v: np.exp(v) * 2, lambda v: v - 1, x))
    kept = []
    for size in (65, 1000, 70_001):
        x = np.linspace(-1, 1, size, dtype=np.float32)
        kept.append(f.lower(True, x).compile())
        np.testing.assert_allclose(f(True, x), np.exp(x) * 2, rtol=1e-6)
        np.testing.assert_array_equal(f(False, x), x - 1)
    assert counts["compile"] == 1
