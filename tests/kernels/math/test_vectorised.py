"""In a plain loop every function becomes vector code, with no call left and no type changed."""

from __future__ import annotations

import math
import re
from typing import Any

import numba
import numpy as np
import pytest
from llvmlite import binding

from minijit.kernels.math import BRANCHING, CPU_FUNCTIONS
from minijit.kernels.math.device import called
from minijit.lowering.symbols import Symbol, resolve
from tests.kernels.math.reference import BINARY, CASES, FLOATS, apply, arguments_of, loop

# These compute in float64 for a float32 result, on purpose.
THROUGH_FLOAT64 = ("power", "cbrt", "hypot", "erfc", "log10", "logaddexp", "logaddexp2")
HAS_FMA = bool(binding.get_host_cpu_features().get("fma"))
pytestmark = pytest.mark.skipif(not HAS_FMA, reason="the assembly of x86-64 with FMA is examined")

PACKED = re.compile(r"^\s*v(?:fn?m(?:add|sub)\d+|mul|add|sqrt|div)p([sd])\s.*%[yz]mm", re.MULTILINE)
WRAPPER = re.compile(r"^(?:_ZN7cpython|cfunc)\S*:", re.MULTILINE)
CALLS = re.compile(r"^\s*callq?\s+(\S+)", re.MULTILINE)


def _assembly(name: str, dtype: str) -> str:
    arity = 2 if name in BINARY else 1
    function = resolve(Symbol(*CPU_FUNCTIONS[name, dtype]))
    branches = (name, dtype) in BRANCHING
    compiled = loop(called(function) if branches else function, arity)
    compiled.compile((numba.types.Array(numba.from_dtype(np.dtype(dtype)), 1, "C"),) * (arity + 1))
    return _called_of(compiled) if branches else _loop_of(compiled)


def _called_of(compiled: Any) -> str:
    """The assembly of the function of wide vectors that the loop calls."""
    (text,) = compiled.inspect_asm().values()
    *_, last = re.findall(r"^minijit\.\w+\.\d+:.*?\.Lfunc_end", text, re.MULTILINE | re.DOTALL)
    return str(last)


def _loop_of(compiled: Any) -> str:
    """The assembly of the loop, without the wrapper that makes it callable from Python."""
    (text,) = compiled.inspect_asm().values()
    first, *_ = str(text).split(".Lfunc_end0")
    assert not WRAPPER.search(first)
    return first


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_loop_is_vector_code(name: str, dtype: str) -> None:
    text = _assembly(name, dtype)
    rare = (name, dtype) in BRANCHING  # of angles that are far off, in a branch
    assert len(set(CALLS.findall(text))) == rare
    assert (f"minijit._{name}_far." in text) == rare
    widths = PACKED.findall(text)
    assert len(widths) >= 2
    if dtype == "float64" or name in THROUGH_FLOAT64:
        assert widths.count("d") >= 2
    else:
        assert "d" not in widths
        assert "cvtps2pd" not in text


@pytest.mark.parametrize("dtype", FLOATS)
def test_the_check_sees_a_loop_that_stays_scalar(dtype: str) -> None:
    compiled = loop(numba.njit(lambda x: math.exp(x)), 1)
    compiled.compile((numba.types.Array(numba.from_dtype(np.dtype(dtype)), 1, "C"),) * 2)
    text = _loop_of(compiled)
    assert CALLS.findall(text)
    assert not PACKED.findall(text)


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_called_functions_return_the_same_bits_for_vectors_and_for_what_is_left(
    name: str, dtype: str
) -> None:
    arguments = arguments_of(name, dtype, 1_000)
    arguments = tuple(argument[: argument.size // 16 * 16 - 1] for argument in arguments)
    out = np.empty_like(arguments[0])
    compiled = loop(called(resolve(Symbol(*CPU_FUNCTIONS[name, dtype]))), len(arguments))
    compiled(*arguments, out)
    view = f"i{out.itemsize}"
    wanted = apply(name, dtype, *arguments)
    same = (out.view(view) == wanted.view(view)) | (np.isnan(out) & np.isnan(wanted))
    assert same.all(), [argument[~same][0] for argument in arguments]
    (text,) = compiled.inspect_asm().values()
    assert re.search(rf"minijit\.{name}_{dtype}\.\d", text)


@pytest.mark.parametrize("dtype", FLOATS)
def test_what_cannot_overflow_takes_fewer_instructions(dtype: str) -> None:
    counts = [
        len(re.findall(r"^\s*v.*%[yz]mm", _assembly(name, dtype), re.MULTILINE))
        for name in ("exp_nonpositive", "exp")
    ]
    assert counts[0] < counts[1]
    assert "vmin" not in _assembly("exp_nonpositive", dtype)
