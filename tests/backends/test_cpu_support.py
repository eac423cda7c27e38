"""Functions that the code generator calls by itself are refused before they are run."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import minijit
from minijit.backends.cpu import compiler
from minijit.backends.cpu.backend import CpuBackend
from minijit.backends.cpu.support import undefined_symbols
from minijit.lowering.source import KernelSource

X = np.array([0.3, -1.5, 2.5, -0.0, 1e-7, 65504], np.float16)


def test_rounding_after_a_function_computed_in_float64() -> None:
    """LLVM is not to make one rounding of two here, which x86 has no instruction for."""
    outer, inner = (np.floor, np.ceil, np.rint, np.trunc), (np.sin, np.cos, np.cbrt, np.arctan)
    with np.errstate(all="ignore"):
        for first in outer:
            for second in inner:
                got = minijit.jit(lambda x, f=first, g=second: f(g(x)))(X)
                np.testing.assert_array_equal(got, first(second(X)))


def test_float64_is_rounded_to_float16_once() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal(20_000) * 10.0 ** rng.integers(-9, 5, 20_000)
    x = np.concatenate([x, [65519.999, 65520, 6e-8, 2.98e-8, 2.99e-8, -0.0, np.inf]])
    with np.errstate(all="ignore"):
        got = minijit.jit(lambda v: v.astype(np.float16))(x)
        np.testing.assert_array_equal(got.view(np.uint16), x.astype(np.float16).view(np.uint16))


def test_a_call_into_nowhere_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "_settle", lambda module: None)
    # Another library of the process may happen to bring the function.
    monkeypatch.setattr(compiler, "_in_c_library", lambda name: False)
    with pytest.raises(RuntimeError, match=r"calls unknown functions.*minijit.round_half"):
        minijit.jit(lambda x: np.exp(x) + 1)(X)


def test_undefined_symbols_are_the_library_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    sources: list[KernelSource] = []
    emit = CpuBackend.emit

    def recorded(self: CpuBackend, kernel: object) -> KernelSource:
        sources.append(emit(self, kernel))  # type: ignore[arg-type]
        return sources[-1]

    monkeypatch.setattr(CpuBackend, "emit", recorded)

    @minijit.extend.elementwise
    def log_gamma(x: Any) -> Any:
        return math.lgamma(x)

    minijit.jit(lambda x: log_gamma(x))(np.ones(5, np.float64))
    minijit.jit(lambda x: x + 1)(np.ones(5, np.float64))
    far, near = (compiler.compile_source(source) for source in sources)
    assert "lgamma" in set(undefined_symbols(far.code))
    assert list(undefined_symbols(near.code)) == []
    assert list(undefined_symbols(b"no object code")) == []
