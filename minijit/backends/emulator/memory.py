"""Global memory: each buffer in an address range of its own, far from every other.

A buffer keeps its bytes where NumPy has them; its address on the device is made up. Ranges lie
2**36 bytes apart, so an index that overflows or runs away never lands in another buffer, and a
range is never used twice.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
import weakref
from typing import Any

import numpy as np

from minijit.backends.emulator.errors import MemoryAccessError, UninitialisedReadError
from minijit.backends.emulator.operation import Array

__all__ = ["POISON", "RANGE_BITS", "Buffer", "Fault", "GlobalMemory"]

RANGE_BITS = 36
_FIRST = 16
# A negative or a large offset from a buffer stays in the buffer's own range.
_MIDDLE = 1 << (RANGE_BITS - 1)
POISON = 0xFFFBFDFE
"""Every word of fresh memory: float16, float32 and float64 read it as NaN."""
_POISON_BYTES = np.frombuffer(POISON.to_bytes(4, "little"), np.uint8)


class Buffer:
    """The memory of one array: the range of an array that owns its bytes.

    Attributes:
        address: On the device.
        size: In bytes.
        bytes: All of it as uint8.
        unwritten: Which bytes nothing has written, or None when all are.
        writable: Whether kernels may write.
    """

    __slots__ = (
        "__weakref__",
        "_read_only",
        "_views",
        "_written",
        "address",
        "bytes",
        "host",
        "size",
        "unwritten",
        "writable",
    )

    def __init__(self, number: int, data: Array, host: int, writable: bool) -> None:
        """Give ``data`` (uint8), which lies at ``host``, the range of that number."""
        # Aligned as an allocation on a GPU is, wherever NumPy put it.
        self.address = (number << RANGE_BITS) + _MIDDLE
        self.host = host
        self.bytes = data
        self.size = data.size
        self.unwritten: Array | None = None
        self.writable = writable
        self._views: dict[int, Array] = {}
        self._read_only: tuple[int, int] | None = None
        self._written: tuple[int, int] | None = None

    def begin(self) -> None:
        """Forget what earlier launches read and wrote."""
        self._read_only = self._written = None

    def note_read_only(self, places: Array, width: int) -> int | None:
        """Note that the launch reads elements as constant; return the lane if it wrote one."""
        self._read_only = _hull(self._read_only, places, width)
        if self._written is None:
            return None
        low, high = self._written
        bad = (places * width >= low) & (places * width < high)
        return int(np.argmax(bad)) if bad.any() else None

    def note_write(self, places: Array, width: int) -> int | None:
        """Note a write; return the lane if the launch reads the element as constant."""
        self._written = _hull(self._written, places, width)
        if self._read_only is None:
            return None
        low, high = self._read_only
        bad = (places * width >= low) & (places * width < high)
        return int(np.argmax(bad)) if bad.any() else None

    def view(self, width: int) -> Array:
        """Return the whole elements of ``width`` bytes that the buffer has."""
        found = self._views.get(width)
        if found is None:
            kind = f"u{width}" if width <= 8 else f"V{width}"
            found = self.bytes[: self.size // width * width].view(kind)
            self._views[width] = found
        return found

    def mark_fresh(self) -> None:
        """Fill with poison and take everything as not written."""
        self.view(4).fill(POISON)
        rest = self.size & 3
        self.bytes[self.size - rest :] = _POISON_BYTES[:rest]
        self.unwritten = np.ones(self.size, np.bool_)

    def is_poison(self, starts: Array) -> Array:
        """Whether bytes, by number, still hold what fresh memory was filled with."""
        words = self.view(4)
        same = self.bytes[starts] == _POISON_BYTES[starts & 3]
        if words.size:
            inside = starts >> 2 < words.size
            whole = words[np.minimum(starts >> 2, words.size - 1)] == np.uint32(POISON)
            same = np.where(inside, whole, same)
        return np.asarray(same)

    def settle(self) -> None:
        """Forget the map of unwritten bytes when it has become empty."""
        if self.unwritten is not None and not self.unwritten.any():
            self.unwritten = None


class GlobalMemory:
    """The address space of one device."""

    def __init__(self, first: int = _FIRST) -> None:
        """Start empty; ranges are numbered from ``first`` on."""
        self._numbers = itertools.count(first)
        self._by_number: dict[int, Buffer] = {}
        self._by_owner: dict[int, Buffer] = {}
        self._heap: dict[int, Array] = {}
        self._lock = threading.RLock()

    def adopt(self, array: Array, number: int | None = None) -> Buffer:
        """Return the buffer that holds ``array``, whose memory becomes addressable if need be.

        Views share the buffer of the array that owns the memory. Its range is the next one, or
        the one with that ``number``, which must be below the first.
        """
        owner = _owner(array)
        with self._lock:
            found = self._by_owner.get(id(owner))
            if found is not None:
                return found
            low, high = np.lib.array_utils.byte_bounds(owner)
            raw = (ctypes.c_uint8 * max(high - low, 1)).from_address(low)
            data = np.ctypeslib.as_array(raw)[: high - low]
            number = next(self._numbers) if number is None else number
            buffer = Buffer(number, data, low, owner.flags.writeable or array.flags.writeable)
            self._by_number[number] = buffer
            self._by_owner[id(owner)] = buffer
            # The buffer must not keep the owner: its range ends with the array.
            weakref.finalize(owner, self._forget, number, id(owner)).atexit = False
            return buffer

    def allocate(self, size: int) -> int:
        """Return the address of fresh memory, which stays until it is freed; 0 for no bytes."""
        if not size:
            return 0
        data = np.empty(size, np.uint8)
        buffer = self.adopt(data)
        buffer.mark_fresh()
        self._heap[buffer.address] = data
        return buffer.address

    def free(self, address: int) -> None:
        """Give back what :meth:`allocate` returned, or 0; ``KeyError`` for anything else."""
        if address:
            del self._heap[address]

    def _forget(self, number: int, owner: int) -> None:
        with self._lock:
            self._by_number.pop(number, None)
            self._by_owner.pop(owner, None)

    def address(self, array: Array) -> int:
        """Return the device address of the first element of ``array``."""
        buffer = self.adopt(array)
        host: int = array.__array_interface__["data"][0]
        return buffer.address + host - buffer.host

    def begin_launch(self) -> None:
        """Start to watch what a launch reads and writes."""
        for buffer in list(self._by_number.values()):
            buffer.begin()

    def end_launch(self) -> None:
        """Drop what is not needed between launches."""
        for buffer in list(self._by_number.values()):
            buffer.settle()

    def find(self, address: int) -> Buffer | None:
        """Return the buffer in whose range ``address`` lies, if it still exists."""
        return self._by_number.get(address >> RANGE_BITS)

    def locate(self, addresses: Array, width: int) -> tuple[Buffer, Array]:
        """Return the one buffer of all ``addresses`` (uint64) and their element numbers.

        Raises:
            MemoryAccessError: with ``lane``, the place of the address at fault.
            LookupError: they lie in several buffers.
        """
        low, high = int(addresses.min()), int(addresses.max())
        buffer = self.find(low)
        if buffer is not self.find(high):
            raise LookupError
        if buffer is None:
            lane = int(addresses.argmin())
            raise Fault(MemoryAccessError, lane, f"address {low:#x} belongs to no buffer")
        end = buffer.address + buffer.size
        if low < buffer.address or high + width > end:
            bad = (addresses < np.uint64(buffer.address)) | (addresses > np.uint64(end - width))
            lane = int(np.argmax(bad))
            offset = int(addresses[lane]) - buffer.address
            raise Fault(
                MemoryAccessError,
                lane,
                f"{width} bytes at byte {offset} of a buffer of {buffer.size} bytes",
            )
        if width > 1 and int(np.bitwise_or.reduce(addresses)) & (width - 1):
            lane = int(np.argmax(addresses & np.uint64(width - 1) != 0))
            raise Fault(
                MemoryAccessError,
                lane,
                f"address {int(addresses[lane]):#x} is not a multiple of {width}",
            )
        shift = np.uint64(width.bit_length() - 1)
        return buffer, ((addresses - np.uint64(buffer.address)) >> shift).view(np.int64)

    def check_written(self, buffer: Buffer, places: Array, width: int) -> None:
        """Complain if an element was written neither by a kernel nor by the host."""
        unwritten = buffer.unwritten
        if unwritten is None:
            return
        starts = places * width
        for byte in range(width):
            bad = unwritten[starts + byte]
            if not bad.any():
                continue
            # The host may have written behind our back: then the poison is gone.
            bad &= buffer.is_poison(starts + byte)
            unwritten[(starts + byte)[~bad]] = False
            if bad.any():
                lane = int(np.argmax(bad))
                message = f"byte {int(starts[lane]) + byte} of a buffer was never written"
                raise Fault(UninitialisedReadError, lane, message)

    def mark_written(self, buffer: Buffer, places: Array, width: int) -> None:
        """Note that elements were written."""
        if buffer.unwritten is not None:
            starts = places * width
            for byte in range(width):
                buffer.unwritten[starts + byte] = False


class Fault(Exception):
    """An access at fault: the kind of error, which of the lanes, and what happened."""

    def __init__(self, kind: type[Exception], lane: int, message: str) -> None:
        """Keep what the machine needs for an error that names the thread."""
        super().__init__(message)
        self.kind = kind
        self.lane = lane


def _hull(before: tuple[int, int] | None, places: Array, width: int) -> tuple[int, int]:
    low, high = int(places.min()) * width, (int(places.max()) + 1) * width
    return (low, high) if before is None else (min(before[0], low), max(before[1], high))


def _owner(array: Array) -> Array:
    """Return the array at the end of the chain of views."""
    base: Any = array
    while isinstance(base.base, np.ndarray):
        base = base.base
    return base  # type: ignore[no-any-return]
