"""Warming up: everything is compiled when the first call comes, whoever compiled it."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minijit
from minijit.graph.config import config
from tests.conftest import Device

SIZES = (3, 5, 7, 11)


def rows(x: Any) -> Any:
    return np.exp(x - x.max(-1, keepdims=True)).sum(-1) * 1.75


def test_calls_find_everything_compiled(device: Device, counts: Counter[str]) -> None:
    f = minijit.jit(rows)
    types = [(minijit.ShapeDtypeStruct((2, size), np.float32),) for size in SIZES]
    programs = minijit.warmup(f, types, processes=2)
    assert counts["trace"] == len(programs) == len(SIZES)
    before = counts["compile"]
    assert before == (1 if hasattr(os, "fork") else len(SIZES))  # others: in the processes
    for size in SIZES:
        x = np.linspace(0, 1, 2 * size, dtype=np.float32).reshape(2, size)
        np.testing.assert_allclose(device.get(f(device.put(x))), rows(x), rtol=1e-5)
    assert (counts["compile"], counts["trace"]) == (before, len(SIZES))


def test_what_was_compiled_is_on_the_disk(tmp_path: Path, counts: Counter[str]) -> None:
    with config.override(compilation_cache="rw", compilation_cache_dir=str(tmp_path)):
        f = minijit.jit(lambda x, *, shift: x.cumsum() - shift)
        types = [{"x": np.ones(size), "shift": 2.5} for size in SIZES]
        minijit.warmup(f, types, processes=3)
        minijit.clear_caches()
        before = counts["compile"]
        f(x=np.ones(7), shift=1.0)
        assert counts["compile"] == before


def test_programs_that_are_not_worth_a_file_are_warmed_up(
    tmp_path: Path, counts: Counter[str]
) -> None:
    with config.override(
        compilation_cache="rw",
        compilation_cache_dir=str(tmp_path),
        persistent_cache_min_compile_time_secs=1e6,
    ):
        f = minijit.jit(lambda x: x.cumsum() * 1.25)
        minijit.warmup(f, [(np.ones(size),) for size in SIZES], processes=2)
    assert counts["compile"] == (1 if hasattr(os, "fork") else len(SIZES))


def test_errors_are_those_of_this_process() -> None:
    f = minijit.jit(lambda x: x.reshape(2, -1))
    with pytest.raises(ValueError, match="reshape"):
        minijit.warmup(f, [(np.ones(4),), (np.ones(3),)])
    with pytest.raises(TypeError, match=r"write \(x,\) for one argument"):
        minijit.warmup(f, [np.ones(4)])
    with pytest.raises(TypeError, match="takes a jitted function"):
        minijit.warmup(np.sin, [(np.ones(4),)])
