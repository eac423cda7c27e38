"""Functions that the driver provides to kernels: printf, the heap, failed assertions."""

from __future__ import annotations

import re
import sys
from typing import Any

import numpy as np

from minijit.backends.emulator.block_access import BlockAccess
from minijit.backends.emulator.errors import EmulationError, MemoryAccessError
from minijit.backends.emulator.layout import LOCAL_WINDOW
from minijit.backends.emulator.memory import Fault
from minijit.backends.emulator.operation import Array
from minijit.backends.emulator.ptx import Instruction

__all__ = ["SystemCalls"]

_GRID = 1
_LONGEST = 1 << 16
_LENGTH = r"(hh|h|ll|l|z|j|t)?"
_DIRECTIVE = re.compile(rf"%([-+ #0]*)(\*|\d+)?(?:\.(\*|\d+))?{_LENGTH}([diouxXeEfFgGaAcsp%])")


class SystemCalls(BlockAccess):
    """Lanes that call the driver; results and arguments are places in local memory."""

    __slots__ = ()

    def _callers(self, guard: Array | None) -> Array:
        chosen = self._chosen(guard)
        return np.arange(self.size) if chosen is None else chosen

    def _argument(self, item: Instruction, guard: Array | None, place: int, width: int) -> Array:
        where = np.array([place], np.uint64)
        values = self.load_local(item, where, width, 1, guard)[0]
        return np.broadcast_to(values, (self.size,))

    def _result(self, item: Instruction, guard: Array | None, place: int, value: Array) -> None:
        where = np.array([place], np.uint64)
        self.store_local(item, where, value.itemsize, (value,), guard)

    def _bytes(self, item: Instruction, lane: int, address: int, count: int) -> bytes:
        """Return up to ``count`` bytes that thread ``lane`` has at a generic address."""
        batch = self.batch
        if address >> 36 == LOCAL_WINDOW >> 36:
            number = lane if self.lanes is None else int(self.lanes[lane])
            offset = address - LOCAL_WINDOW
            row = batch.local[number * batch.local_row :][: batch.local_size]
            return bytes(row[offset : offset + count])
        buffer = batch.memory.find(address)
        if buffer is None or not 0 <= address - buffer.address < buffer.size:
            message = f"address {address:#x} belongs to no buffer"
            self._failed(item, Fault(MemoryAccessError, lane, message), None)
        offset = address - buffer.address
        return bytes(buffer.bytes[offset : offset + count])

    def _string(self, item: Instruction, lane: int, address: int) -> str:
        return self._bytes(item, lane, address, _LONGEST).partition(b"\0")[0].decode()

    def call_vprintf(
        self, item: Instruction, guard: Array | None, result: int, form: int, values: int
    ) -> None:
        """Print what a format says; the arguments lie one after the other in memory."""
        forms = self._argument(item, guard, form, 8)
        places = self._argument(item, guard, values, 8)
        printed = np.zeros(self.size, np.uint32)
        for lane in self._callers(guard):
            pattern = self._string(item, lane, int(forms[lane]))
            pieces, place = [], int(places[lane])
            end = 0
            for found in _DIRECTIVE.finditer(pattern):
                pieces.append(pattern[end : found.start()])
                end = found.end()
                text, place = self._formatted(item, lane, found, place)
                printed[lane] += found[5] != "%"
                pieces.append(text)
            sys.stdout.write("".join([*pieces, pattern[end:]]))
        sys.stdout.flush()
        self._result(item, guard, result, printed)

    def _formatted(
        self, item: Instruction, lane: int, found: re.Match[str], place: int
    ) -> tuple[str, int]:
        """Return the text of one directive, and where the next argument lies."""
        flags, width, precision, length, kind = found.groups()
        if kind == "%":
            return "%", place

        def take(kind: Any) -> Any:
            nonlocal place
            size = np.dtype(kind).itemsize
            place = -(-place // size) * size
            data = self._bytes(item, lane, place, size)
            place += size
            return np.frombuffer(data, kind)[0].item()

        width = str(take(np.int32)) if width == "*" else width or ""
        precision = str(take(np.int32)) if precision == "*" else precision
        form = f"%{flags}{width}" + (f".{precision}" if precision is not None else "")
        long = length in ("l", "ll", "z", "j", "t")
        if kind in "di":
            return f"{form}d" % take(np.int64 if long else np.int32), place
        if kind in "ouxX":
            return f"{form}{kind.replace('u', 'd')}" % take(np.uint64 if long else np.uint32), place
        if kind == "c":
            return f"{form}c" % (take(np.int32) & 255), place
        if kind in "sp":
            value = take(np.uint64)
            text = self._string(item, lane, value) if kind == "s" else f"{value:#x}"
            return f"{form}s" % text, place
        number = take(np.float64)
        if kind in "aA":
            text = number.hex()
            return f"{form}s" % (text.upper() if kind == "A" else text), place
        return f"{form}{kind}" % number, place

    def call_malloc(self, item: Instruction, guard: Array | None, result: int, size: int) -> None:
        """Take memory from the heap, for each thread its own."""
        sizes = self._argument(item, guard, size, 8)
        addresses = np.zeros(self.size, np.uint64)
        for lane in self._callers(guard):
            addresses[lane] = self.batch.memory.allocate(int(sizes[lane]))
        self._result(item, guard, result, addresses)

    def call_free(self, item: Instruction, guard: Array | None, pointer: int) -> None:
        """Give memory back to the heap."""
        pointers = self._argument(item, guard, pointer, 8)
        for lane in self._callers(guard):
            try:
                self.batch.memory.free(int(pointers[lane]))
            except KeyError:
                message = f"free of {int(pointers[lane]):#x}, which malloc did not return"
                self._failed(item, Fault(MemoryAccessError, lane, message), None)

    def call_assertfail(self, item: Instruction, guard: Array | None, *places: int) -> None:
        """Complain about an assertion that does not hold."""
        callers = self._callers(guard)
        if not callers.size:
            return
        lane = int(callers[0])
        message, file, function = (
            self._string(item, lane, int(self._argument(item, guard, place, 8)[lane]))
            for place in (places[0], places[1], places[3])
        )
        number = int(self._argument(item, guard, places[2], 4)[lane])
        self._fail(
            item, EmulationError, lane,
            f"{file}:{number}: {function}: assertion `{message}` failed",
        )  # fmt: skip

    def call_cudaCGGetIntrinsicHandle(
        self, item: Instruction, guard: Array | None, result: int, scope: int
    ) -> None:
        """Return a handle of a group of threads: the number of its scope."""
        scopes = self._argument(item, guard, scope, 4)
        self._result(item, guard, result, scopes.astype(np.uint64))

    def call_cudaCGSynchronize(
        self, item: Instruction, guard: Array | None, result: int, group: int, flags: int
    ) -> None:
        """Report success; threads are released by the machine."""
        handles = self._argument(item, guard, group, 8)
        if (handles != _GRID).any():
            self._fail(item, EmulationError, 0, f"a barrier for group {int(handles[0])}")
        self._result(item, guard, result, np.zeros(1, np.uint32))
