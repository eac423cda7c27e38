"""Transposed copies of tiles: elements of each size, whole squares or not."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
from numba import cfunc, types

from minijit.kernels.cpu.turning import turn


def _turn(dtype: Any) -> Any:
    """Return ``(target, pitch, source, first, stride, rows, columns)`` as a C function."""
    pointer = types.CPointer(dtype)
    number = types.int64

    @cfunc(types.void(pointer, number, pointer, number, number, number, number))
    def copy(target, pitch, source, first, stride, rows, columns):
        turn(target, pitch, source, first, stride, rows, columns)

    kinds = [ctypes.c_void_p, ctypes.c_int64] * 2 + [ctypes.c_int64] * 3
    return ctypes.CFUNCTYPE(None, *kinds)(copy.address)


@pytest.mark.parametrize("dtype", [types.int8, types.uint16, types.float32], ids=str)
def test_rows_become_columns(dtype: Any) -> None:
    turned, kind = _turn(dtype), np.dtype(str(dtype))
    source = np.arange(60 * 70).astype(kind).reshape(60, 70)
    for rows in (0, 1, 3, 8, 16, 17, 33):
        for columns in (1, 4, 15, 16, 32, 41):
            for stride in (70, -70):
                target = np.full((40, 50), 99, kind)
                start = 2 if stride > 0 else 59
                address = (target.ctypes.data, 50, source.ctypes.data, 70 * start + 5)
                turned(*address, stride, rows, columns)
                picked = source[start :: stride // 70][:columns, 5 : 5 + rows]
                expected = np.full((40, 50), 99, kind)
                expected[:rows, :columns] = picked.T
                np.testing.assert_array_equal(target, expected)
