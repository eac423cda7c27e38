"""Buffers of device memory and views of arrays, as cuda.core has them."""

from __future__ import annotations

import dataclasses
import math
import weakref
from typing import Any

import numpy as np

from tests.numba_cuda import state

__all__ = ["Buffer", "DeviceMemory", "StridedMemoryView"]


class Buffer:
    """A piece of device memory."""

    def __init__(self, handle: int, size: int) -> None:
        self.handle, self.size = handle, size

    @classmethod
    def from_handle(cls, ptr: Any, size: int, mr: Any = None, owner: Any = None) -> Buffer:
        return cls(int(ptr), size)


class DeviceMemory:
    """Makes buffers, which are freed with the object."""

    def allocate(self, size: int, *, stream: Any = None) -> Buffer:
        buffer = Buffer(state.memory.allocate(size), size)
        weakref.finalize(buffer, state.free, buffer.handle)
        return buffer


@dataclasses.dataclass(frozen=True, slots=True)
class _Layout:
    strides_in_bytes: tuple[int, ...] | None
    is_contiguous_c: bool
    is_contiguous_f: bool

    @property
    def is_contiguous_any(self) -> bool:
        return self.is_contiguous_c or self.is_contiguous_f


class StridedMemoryView:
    """The address, shape and strides of an array on the host or on the device."""

    def __init__(
        self,
        ptr: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...] | None,
        dtype: np.dtype[Any],
        readonly: bool,
        owner: Any,
    ) -> None:
        """Take ``strides`` in bytes; None stands for rows one after the other."""
        self.ptr, self.shape, self.dtype, self.readonly = ptr, tuple(shape), dtype, readonly
        self.owner, self.size = owner, math.prod(shape)
        by_rows = _packed(self.shape, dtype.itemsize)
        by_columns = _packed(self.shape[::-1], dtype.itemsize)[::-1]
        have = by_rows if strides is None else tuple(strides)
        self.strides = None if strides is None else tuple(n // dtype.itemsize for n in strides)
        # The stride along an axis of one element does not matter.
        kept = [n for n, extent in enumerate(self.shape) if extent != 1]
        same = [all(have[n] == want[n] for n in kept) for want in (by_rows, by_columns)]
        empty = not self.size
        self._layout = _Layout(strides, same[0] or empty, same[1] or empty)

    @classmethod
    def from_array_interface(cls, obj: Any) -> StridedMemoryView:
        array = np.asanyarray(obj)
        address = array.__array_interface__["data"][0]
        strides = None if array.flags.c_contiguous else array.strides
        return cls(address, array.shape, strides, array.dtype, not array.flags.writeable, obj)

    @classmethod
    def from_any_interface(cls, obj: Any, stream_ptr: Any = None) -> StridedMemoryView:
        if hasattr(obj, "__cuda_array_interface__"):
            return cls.from_cuda_array_interface(obj)
        return cls.from_array_interface(obj)

    @classmethod
    def from_cuda_array_interface(cls, obj: Any, stream_ptr: Any = None) -> StridedMemoryView:
        what = obj.__cuda_array_interface__
        address, readonly = what["data"]
        dtype = np.dtype(what.get("descr") if what["typestr"][1] == "V" else what["typestr"])
        return cls(address or 0, what["shape"], what.get("strides"), dtype, readonly, obj)

    @classmethod
    def from_dlpack(cls, obj: Any, stream_ptr: Any = None) -> StridedMemoryView:
        raise BufferError("the emulated device has no DLPack arrays")

    @classmethod
    def from_buffer(
        cls,
        buffer: Buffer,
        shape: tuple[int, ...],
        strides: tuple[int, ...] | None = None,
        dtype: Any = None,
    ) -> StridedMemoryView:
        """Take ``strides`` in elements, as the real one does."""
        kind = np.dtype(dtype)
        steps = None if strides is None else tuple(n * kind.itemsize for n in strides)
        return cls(buffer.handle, shape, steps, kind, False, buffer)


def _packed(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    steps = [itemsize]
    for extent in shape[:0:-1]:
        steps.append(steps[-1] * extent)
    return tuple(steps[::-1][: len(shape)]) if shape else ()
