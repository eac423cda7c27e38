"""The steps of a plan: a kernel to launch, or an operation that the array library runs."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from minijit.graph.events import emit, subscribers
from minijit.graph.locks import process_lock
from minijit.graph.primitive import Primitive

if TYPE_CHECKING:
    from minijit.backends.base import Backend, Launcher
    from minijit.lowering.source import KernelSource
    from minijit.runtime.plan import Plan

__all__ = [
    "EagerStep",
    "HostWork",
    "KernelStep",
    "LowerAgain",
    "Operands",
    "Run",
    "Slot",
    "Step",
    "contiguous",
    "picker",
    "slots_among",
]

Slot = int
"""The place of a value while the plan runs: arguments first, then constants, then the rest."""
Operands = tuple[Slot | np.generic, ...]
"""What a step reads: a slot, or a NumPy scalar for a literal."""
Run = Callable[[list[Any]], None]
"""Runs a step: it reads from its slots and writes to them."""
LowerAgain = Callable[[], "KernelSource"]
"""Returns a kernel's source: at once where it was lowered in this process."""

_lock = process_lock()


class HostWork:
    """What the host itself did while steps ran, counted by name."""

    def __init__(self) -> None:
        """Start from nothing."""
        self._counts: Counter[str] = Counter()

    def add(self, **counts: int) -> None:
        """Count more, in any thread."""
        with _lock:
            self._counts.update(counts)

    def so_far(self) -> Counter[str]:
        """Return the counts."""
        with _lock:
            return self._counts.copy()


class Step(Protocol):
    """One step: it reads values from their slots and puts others into theirs.

    Attributes:
        counted: Under which name ``stats`` counts it.
    """

    counted: ClassVar[str]

    @property
    def work(self) -> HostWork | None:
        """What the host did for it; None where it does nothing but launch."""

    @property
    def outputs(self) -> tuple[Slot, ...]:
        """Slots of the results."""

    @property
    def released(self) -> tuple[Slot, ...]:
        """Slots whose values nothing needs afterwards."""

    @property
    def used(self) -> tuple[Slot, ...]:
        """Slots that are read."""

    @property
    def plans(self) -> tuple[Plan, ...]:
        """The plans that it runs."""

    @property
    def traffic(self) -> int:
        """Bytes of the arrays that kernels read and write when it runs once."""

    def prepared(self, backend: Backend) -> Run:
        """Return what runs it."""


@dataclasses.dataclass(frozen=True, slots=True)
class KernelStep:
    """Launch one kernel.

    Attributes:
        name: Its name.
        source: Its source, for people and for further kernels.
        text_bytes: Length of that.
        traffic: Bytes of the arrays that it reads and writes.
        launcher: Runs it.
        inputs: Slots of its input buffers.
        outputs: Slots of its output buffers.
        allocators: What allocates each of them before the launch.
        arguments: Slots of its scalars.
        released: Slots whose values nothing needs afterwards.
    """

    counted: ClassVar[str] = "kernels"
    work: ClassVar[None] = None
    plans: ClassVar[tuple[Plan, ...]] = ()

    name: str
    source: LowerAgain
    text_bytes: int
    traffic: int
    launcher: Launcher
    inputs: tuple[Slot, ...]
    outputs: tuple[Slot, ...]
    allocators: tuple[Callable[[], Any], ...]
    arguments: tuple[Slot, ...]
    released: tuple[Slot, ...] = ()

    @property
    def used(self) -> tuple[Slot, ...]:
        """Slots that are read."""
        return self.inputs + self.arguments

    @property
    def operands(self) -> tuple[Slot, ...]:
        """Slots of all that the launcher takes, in its order."""
        return self.inputs + self.outputs + self.arguments

    def prepared(self, backend: Backend) -> Run:
        """Return what allocates the outputs and launches."""
        launcher, pick = self.launcher, picker(self.operands)
        places = tuple(zip(self.outputs, self.allocators, strict=True))

        def run(values: list[Any]) -> None:
            for slot, allocate in places:
                values[slot] = allocate()
            launcher(pick(values))
            if subscribers:
                self.announce()

        return run

    def announce(self) -> None:
        """Tell that it ran."""
        if subscribers:
            emit("launch", kernel=self.name)


@dataclasses.dataclass(frozen=True, slots=True)
class EagerStep:
    """Let the array library compute one equation.

    Attributes:
        primitive: What to compute.
        params: Its static parameters.
        into: ``(*arrays, out=array)``: the same into memory that is there, where the library can.
        operands: A slot for each operand, or a NumPy scalar for a literal.
        outputs: Slots of the results.
        allocators: What allocates each of them, for ``into``.
        stored: Whether kernels read the results, so that what the library allocates must be
            contiguous.
        released: Slots whose values nothing needs afterwards.
    """

    counted: ClassVar[str] = "eager_steps"
    work: ClassVar[None] = None
    plans: ClassVar[tuple[Plan, ...]] = ()
    traffic: ClassVar[int] = 0

    primitive: Primitive
    params: dict[str, Any]
    into: Callable[..., Any] | None
    operands: Operands
    outputs: tuple[Slot, ...]
    allocators: tuple[Callable[[], Any], ...]
    stored: bool
    released: tuple[Slot, ...] = ()

    @property
    def used(self) -> tuple[Slot, ...]:
        """Slots that are read."""
        return slots_among(self.operands)

    def prepared(self, backend: Backend) -> Run:
        """Return what computes it."""
        return self._into() if self.into is not None else self._eager(backend.xp)

    def _into(self) -> Run:
        """Return what has it computed into memory of ours."""
        into, read = self.into, self._reader()
        (out,), (allocate,) = self.outputs, self.allocators
        assert into is not None

        def run(values: list[Any]) -> None:
            values[out] = memory = allocate()
            into(*read(values), out=memory)
            if subscribers:
                self.announce()

        return run

    def _eager(self, xp: Any) -> Run:
        """Return what lets the library find memory for the results."""
        read, several = self._reader(), self.primitive.multiple_results

        def run(values: list[Any]) -> None:
            result = self.primitive.eager(xp, *read(values), **self.params)
            results = result if several else (result,)
            for slot, value in zip(self.outputs, results, strict=True):
                values[slot] = contiguous(xp, value) if self.stored else value
            self.announce()

        return run

    def _reader(self) -> Callable[[list[Any]], Sequence[Any]]:
        """Return a function from the values to the operands."""
        operands = self.operands
        if operands and len(self.used) == len(operands):
            return picker(self.used)
        return lambda values: [values[o] if isinstance(o, int) else o for o in operands]

    def announce(self) -> None:
        """Tell that it ran."""
        if subscribers:
            emit("eager", primitive=self.primitive.name)


def picker(places: tuple[int, ...]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """Return a function from a sequence to the tuple of what it has in one place or more."""
    if len(places) > 1:
        return itemgetter(*places)
    (place,) = places  # of one, itemgetter returns it bare
    return lambda values: (values[place],)


def slots_among(operands: Iterable[Slot | np.generic]) -> tuple[Slot, ...]:
    """Return the slots among operands, the others being literals."""
    return tuple(operand for operand in operands if isinstance(operand, int))


def contiguous(xp: Any, value: Any) -> Any:
    """Return an array in C order, with the shape that it has (NumPy makes 0-d arrays 1-d)."""
    return xp.ascontiguousarray(value).reshape(value.shape)
