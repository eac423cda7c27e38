"""The emulated device: NumPy arrays in an address space of their own, launches that return done."""

from __future__ import annotations

import ctypes
import dataclasses
import math
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from minijit.backends.cuda.device import Extent, Function, three
from minijit.backends.emulator.counters import Counters
from minijit.backends.emulator.errors import CaptureError
from minijit.backends.emulator.memory import GlobalMemory
from minijit.backends.emulator.program import Program

__all__ = ["DeviceArray", "EmulatedDevice", "Launch"]


class DeviceArray(np.ndarray[Any, np.dtype[Any]]):
    """An array on the emulated device; whatever NumPy computes from it lives there too."""

    __slots__ = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Launch:
    """One launch that was counted.

    Attributes:
        code: The PTX text.
        grid: Blocks.
        block: Threads of a block.
        shared: Bytes of dynamic shared memory.
        values: The bytes of each parameter.
        counters: What it cost.
    """

    code: bytes
    grid: int
    block: int
    shared: int
    values: tuple[bytes, ...]
    counters: Counters


class EmulatedDevice:
    """Implements :class:`minijit.backends.cuda.device.Device` without hardware.

    Attributes:
        counting: Whether launches are counted.
        counters: By kernel, what its launches cost, when counting is on.
        launches: Those that were counted, in order.
        memory: The address space.
    """

    xp: Any = np

    def __init__(
        self,
        compute_capability: tuple[int, int] = (9, 0),
        *,
        count: bool = False,
        block_order: int | None = None,
    ) -> None:
        """Make a device with no memory in use.

        Args:
            compute_capability: What it says it is.
            count: Whether to count what launches cost, which takes time.
            block_order: Seed of the random order in which blocks run; None runs them by number.
        """
        self.compute_capability = compute_capability
        self.memory = GlobalMemory()
        self.counters: dict[str, Counters] = {}
        self.launches: list[Launch] = []
        self.counting = count
        self._order = None if block_order is None else np.random.default_rng(block_order)
        # One kernel at a time, as on one stream.
        self._lock = threading.RLock()
        self._capturing = _Capturing()

    def load(self, code: bytes, entry: str, grid: Extent, block: Extent, shared: int) -> Function:
        """Make kernel ``entry`` of a PTX text, which stands for the cubin, ready to launch.

        Raises:
            EmulationError: the emulator does not understand the text; it says what and where.
        """
        program = Program.of(code.decode(), entry, self.memory)
        sizes = [variable.size for variable in program.flat.params]
        blocks, threads = three(grid), three(block)

        def run(arguments: int) -> None:
            slots = (ctypes.c_uint64 * len(sizes)).from_address(arguments)
            values = [ctypes.string_at(slot, n) for slot, n in zip(slots, sizes, strict=True)]
            if self._capturing.launches is None:
                start(values)
            else:
                self._capturing.launches.append(partial(start, values))

        def start(values: Sequence[bytes]) -> None:
            with self._lock:
                counters = Counters() if self.counting else None
                program.launch(
                    self.memory, values, blocks, threads,
                    shared=shared, counters=counters, order=self._order,
                )  # fmt: skip
                if counters is not None:
                    self.counters.setdefault(entry, Counters()).add(counters)
                    count, size = math.prod(blocks), math.prod(threads)
                    launch = Launch(code, count, size, shared, tuple(values), counters)
                    self.launches.append(launch)

        return run

    def empty(self, shape: Sequence[int], dtype: np.dtype[Any]) -> Any:
        """Allocate memory that counts as unwritten and reads as NaN."""
        self._forbid("memory is allocated")
        array = np.empty(tuple(shape), dtype)
        if array.nbytes:
            self.memory.adopt(array).mark_fresh()
        return array.view(DeviceArray)

    def zeros(self, shape: Sequence[int], dtype: np.dtype[Any]) -> Any:
        """Allocate memory that is written."""
        self._forbid("memory is allocated")
        return np.zeros(tuple(shape), dtype).view(DeviceArray)

    def asarray(self, value: Any) -> Any:
        """Copy to the device, also from a GPU; arrays that are there stay."""
        if isinstance(value, DeviceArray):
            return value
        self._forbid("an array is copied to the device")
        if hasattr(value, "__cuda_array_interface__") and hasattr(value, "get"):
            value = value.get()
        return np.array(value).view(DeviceArray)

    def pointer(self, array: Any) -> int:
        """Return the address of the first element."""
        return self.memory.address(array)

    def array_class(self) -> type:
        """Return the class of the device's arrays."""
        return DeviceArray

    def read(self, array: Any) -> np.ndarray[Any, Any]:
        """Copy to the host."""
        self._forbid("an array is copied to the host")
        return np.array(array)

    def capture(self, launch: Callable[[], None]) -> Callable[[], None]:
        """Record the kernels with the values of their parameters.

        Raises:
            CaptureError: something else happens meanwhile, which would not be in the graph.
        """
        self._forbid("another graph is captured")
        launches: list[Callable[[], None]] = []
        self._capturing.launches = launches
        try:
            launch()
        finally:
            self._capturing.launches = None

        def replay() -> None:
            self._forbid("a graph is launched")
            for start in launches:
                start()

        return replay

    def wait(self) -> None:
        """Launches have ended when they return."""
        self._forbid("the host waits for the device")

    def _forbid(self, what: str) -> None:
        if self._capturing.launches is not None:
            raise CaptureError(f"{what} while a graph is captured: it would not be in the graph")


class _Capturing(threading.local):
    """The launches that the calling thread records, if it does."""

    launches: list[Callable[[], None]] | None = None
