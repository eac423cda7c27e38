"""What goes wrong in a kernel: one exception class for each kind of fault."""

from __future__ import annotations

__all__ = [
    "BarrierError",
    "CaptureError",
    "EmulationError",
    "HungKernelError",
    "MemoryAccessError",
    "PtxSyntaxError",
    "SharedRaceError",
    "UninitialisedReadError",
    "UnknownInstructionError",
]


class EmulationError(RuntimeError):
    """A kernel did what a GPU forbids; the message names the kernel, the line and the thread."""


class PtxSyntaxError(EmulationError):
    """The text is not PTX that the parser understands."""


class UnknownInstructionError(EmulationError):
    """The emulator has no such instruction; it never skips one."""


class MemoryAccessError(EmulationError):
    """An access out of bounds, misaligned, or a write to memory that is only read."""


class UninitialisedReadError(EmulationError):
    """A read of memory or of a register that nothing wrote."""


class SharedRaceError(EmulationError):
    """Two threads use one place in shared memory, one writes, and no barrier is between."""


class BarrierError(EmulationError):
    """A barrier or an exchange that not all of its threads reach."""


class CaptureError(EmulationError):
    """While a graph is captured, something is done that a graph cannot hold."""


class HungKernelError(EmulationError):
    """A loop does not end."""
