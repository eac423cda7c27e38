"""Copies past the caches: every alignment, every length, and nothing around them changed."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
from numba import cfunc, types

from minijit.kernels.cpu.streaming import settle_stores, stream


def _copy(dtype: Any) -> Any:
    """Return ``(target, first, source, count)`` as a C function of addresses."""
    pointer = types.CPointer(dtype)

    @cfunc(types.void(pointer, types.int64, pointer, types.int64))
    def copy(target, first, source, count):
        stream(target, first, source, count)
        settle_stores()

    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p, ctypes.c_int64] * 2)(copy.address)


@pytest.mark.parametrize("dtype", [types.uint8, types.float64], ids=str)
def test_exactly_what_was_asked_for_is_copied(dtype: Any) -> None:
    copy, kind = _copy(dtype), np.dtype(str(dtype))
    random = np.random.default_rng(0)
    source = random.integers(1, 99, 300).astype(kind)
    line = 64 // kind.itemsize
    for first in range(line + 2):
        for count in (*range(3 * line + 2), 290):
            memory = np.zeros(400, kind)
            expected = memory.copy()
            expected[first : first + count] = source[5 : 5 + count]
            address = source[5:].ctypes.data
            copy(memory.ctypes.data, first, address, count)
            np.testing.assert_array_equal(memory, expected)
