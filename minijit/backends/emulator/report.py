"""What the launches of a program cost, as data and as a table to read."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

__all__ = ["BufferTraffic", "KernelReport", "LaunchReport", "LibraryStep"]

_SECTOR = 32


@dataclasses.dataclass(frozen=True, slots=True)
class BufferTraffic:
    """Sectors (32 bytes) of global memory that one launch moves for one array.

    Attributes:
        name: Of the array; several names where arrays are views of one.
        written: Whether these are writes.
        l1_sectors: Sectors that warps ask for.
        l2_sectors: Those that the L1 passes on.
        dram_sectors: Those that the L2 passes on.
        fewest: Different ones among them.
        broadcast: Whether the program itself uses each element many times, as the weights of a
            layer: between uses it stays in a cache.
    """

    name: str
    written: bool
    l1_sectors: int
    l2_sectors: int
    dram_sectors: int
    fewest: int
    broadcast: bool


@dataclasses.dataclass(frozen=True, slots=True)
class LaunchReport:
    """One launch of a kernel.

    Attributes:
        name: The kernel.
        schedule: How it is mapped to the machine.
        grid: Blocks.
        block: Threads of a block.
        elements: Elements of the largest array that it reads or writes.
        instructions: PTX instructions, counted once for each thread that runs them.
        lanes_used: Share of the threads of a warp that take part in an instruction.
        l1_sectors: Sectors (32 bytes) of global memory that warps ask for.
        fewest_by_request: The fewest that could hold what each request of a warp asks for; more
            sectors are a matter of coalescing.
        l2_sectors: Sectors without those that a block finds in the L1, by a model of caches that
            holds less than a GPU (:mod:`minijit.backends.emulator.cache`).
        dram_sectors: Sectors without those that a block, or one of its neighbours, finds in the L2.
        fewest: Different sectors, those that are read and those that are written.
        traffic: The same by array.
        shared_requests: Accesses of warps to shared memory.
        bank_conflicts: Turns that these take beyond the first.
        branches: Conditional branches that a warp runs.
        divergent_branches: Those at which its threads go both ways.
        barriers: Barriers that blocks pass.
        atomics: Atomic operations of threads.
        registers: Of a thread, from the assembler's report as all that follows.
        shared: Bytes of shared memory of a block, the dynamic part included.
        stack: Bytes of a thread's stack frame.
        spill_stores: Bytes that registers do not hold.
        spill_loads: Bytes read back.
    """

    name: str
    schedule: str
    grid: int
    block: int
    elements: int
    instructions: int
    lanes_used: float
    l1_sectors: int
    fewest_by_request: int
    l2_sectors: int
    dram_sectors: int
    fewest: int
    traffic: tuple[BufferTraffic, ...]
    shared_requests: int
    bank_conflicts: int
    branches: int
    divergent_branches: int
    barriers: int
    atomics: int
    registers: int
    shared: int
    stack: int
    spill_stores: int
    spill_loads: int

    @property
    def instructions_per_element(self) -> float:
        """Instructions for each of the ``elements``."""
        return self.instructions / max(self.elements, 1)

    @property
    def bytes(self) -> int:
        """Bytes between memory and L2, those of broadcast operands once."""
        return _SECTOR * sum(t.fewest if t.broadcast else t.dram_sectors for t in self.traffic)

    @property
    def l2_bytes(self) -> int:
        """Bytes between L2 and L1, those of broadcast operands once."""
        return _SECTOR * sum(t.fewest if t.broadcast else t.l2_sectors for t in self.traffic)

    @property
    def l1_bytes(self) -> int:
        """Bytes that warps ask for, those of broadcast operands once."""
        return _SECTOR * sum(t.fewest if t.broadcast else t.l1_sectors for t in self.traffic)

    @property
    def fewest_bytes(self) -> int:
        """The fewest: each sector that is read once, and each that is written once."""
        return _SECTOR * self.fewest

    @property
    def excess(self) -> float:
        """Bytes over the fewest bytes; 1.0 is perfect."""
        return self.bytes / self.fewest_bytes if self.fewest else 1.0

    def as_dict(self) -> dict[str, Any]:
        """Return everything, what is derived included, for JSON."""
        derived = (
            "instructions_per_element", "bytes", "l2_bytes", "l1_bytes", "fewest_bytes", "excess",
        )  # fmt: skip
        return {**dataclasses.asdict(self), **{name: getattr(self, name) for name in derived}}


@dataclasses.dataclass(frozen=True, slots=True)
class LibraryStep:
    """A step that CuPy would run on a GPU; nothing is counted."""

    name: str

    def as_dict(self) -> dict[str, Any]:
        """Return the name."""
        return {"library": self.name}


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class KernelReport:
    """What one call of a program does on an emulated GPU; ``str()`` is a table.

    Attributes:
        compute_capability: Of that GPU.
        steps: Launches and steps of the array library, in order.
        program_bytes: Bytes that have to go in and come out, however the program is cut into
            kernels: of arguments and captured arrays the elements that it uses, each once in
            memory (a broadcast array has few), and all results. Operations other than views count
            as using all of their operands.
        outputs: What the call returned, in NumPy arrays.
    """

    compute_capability: tuple[int, int]
    steps: tuple[LaunchReport | LibraryStep, ...]
    program_bytes: int
    outputs: Any

    @property
    def bytes(self) -> int:
        """Bytes that all launches move; what the array library moves is not known."""
        return sum(step.bytes for step in self.kernels)

    @property
    def kernels(self) -> tuple[LaunchReport, ...]:
        """The launches alone."""
        return tuple(step for step in self.steps if isinstance(step, LaunchReport))

    def as_dict(self) -> dict[str, Any]:
        """Return everything but the outputs, for JSON."""
        steps = [step.as_dict() for step in self.steps]
        return {
            "compute_capability": list(self.compute_capability),
            "bytes": self.bytes,
            "program_bytes": self.program_bytes,
            "steps": steps,
        }

    def __str__(self) -> str:
        """Return two tables, a line for each step, and the schedules."""
        capability = ".".join(map(str, self.compute_capability))
        launches = f"{len(self.kernels)} launch{'' if len(self.kernels) == 1 else 'es'}"
        moved = f"{self.bytes:,} bytes moved, {self.program_bytes:,} go in and out"
        parts = [f"compute capability {capability}, {launches}: {moved}"]
        parts += _table(_MEMORY, [_memory(step) for step in self.steps])
        if self.kernels:
            parts += ["", *_table(_THREADS, [_threads(step) for step in self.kernels]), ""]
            parts += [f"{step.name}: {step.schedule}" for step in self.kernels]
        return "\n".join(parts)


_MEMORY = (
    "step", "grid", "block", "elements", "instr/element", "bytes", "fewest", "excess",
    "L2", "L1", "L1/request",
)  # fmt: skip
_THREADS = (
    "kernel", "lanes used", "divergent", "shared requests", "conflicts", "barriers", "atomics",
    "registers", "shared", "stack", "spills",
)  # fmt: skip


def _memory(step: LaunchReport | LibraryStep) -> tuple[str, ...]:
    if isinstance(step, LibraryStep):
        return (f"library: {step.name}", *["-"] * (len(_MEMORY) - 1))
    return (
        step.name,
        f"{step.grid:,}",
        str(step.block),
        f"{step.elements:,}",
        f"{step.instructions_per_element:.1f}",
        f"{step.bytes:,}",
        f"{step.fewest_bytes:,}",
        f"{step.excess:.2f}",
        f"{step.l2_bytes:,}",
        f"{step.l1_bytes:,}",
        _ratio(step.l1_sectors, step.fewest_by_request),
    )


def _threads(step: LaunchReport) -> tuple[str, ...]:
    return (
        step.name,
        f"{step.lanes_used:.0%}",
        f"{step.divergent_branches / step.branches:.0%}" if step.branches else "-",
        f"{step.shared_requests:,}",
        f"{step.bank_conflicts:,}",
        f"{step.barriers:,}",
        f"{step.atomics:,}",
        str(step.registers),
        f"{step.shared:,}",
        str(step.stack),
        str(step.spill_stores + step.spill_loads),
    )


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    cells = [heads, *rows]
    widths = [max(len(row[place]) for row in cells) for place in range(len(heads))]
    lines = []
    for row in cells:
        first, *others = (
            cell.rjust(width) if place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        lines.append("  ".join([first, *others]).rstrip())
    return lines


def _ratio(part: int, whole: int) -> str:
    return f"{part / whole:.2f}" if whole else "-"
