"""What a target must offer: IR to source to binary without a device, then launches on one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

if TYPE_CHECKING:
    from minijit.graph.aval import ShapedArray
    from minijit.graph.device_kernel import DeviceKernel
    from minijit.graph.few_rows import FewRows
    from minijit.lowering.kernel_ir import Kernel
    from minijit.lowering.source import KernelSource

__all__ = ["Backend", "Binary", "Build", "Custom", "Launcher", "Support", "load_source"]

Launcher = Callable[[tuple[Any, ...]], None]
"""Runs one loaded kernel on ``(*buffers, *arguments)``, in the order of the kernel's declaration;
buffers are arrays of the backend, arguments NumPy scalars or Python numbers."""


Build = Callable[["KernelSource | Support"], "Binary"]
"""Returns the binary of a source: compiled, or kept from before."""


class Support(NamedTuple):
    """Machine code that a backend needs beside kernels, whatever these compute.

    Attributes:
        name: What to call it.
        text: All that it is made from.
        compile: Makes it.
    """

    name: str
    text: str
    compile: Callable[[], Binary]


class Custom(NamedTuple):
    """A user's kernel, loaded.

    Attributes:
        launch: Runs it on contiguous arrays: operands, then results.
        allocators: What allocates each result.
    """

    launch: Callable[[Sequence[Any]], None]
    allocators: tuple[Callable[[], Any], ...]


@dataclasses.dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Binary:
    """Machine code of one kernel, ready to be kept on disk.

    Attributes:
        code: A cubin, or a relocatable object file.
        entry: Symbol of the kernel.
        resources: What the compiler reported, for example registers, shared memory and spills.
    """

    code: bytes
    entry: str
    resources: Mapping[str, int]


class Backend(Protocol):
    """A device and its compiler."""

    name: str
    few_rows: FewRows
    """Which reductions do not fill the device, so that they are split."""
    splits_columns: bool
    """Whether columns of many rows are reduced in blocks, which lie together in memory: not where
    so many threads run at once that theirs do."""
    reduces_in_blocks: bool
    """Whether few long rows are reduced in blocks where a second reduction needs the first."""
    most_buffers: int
    """How many arrays one kernel may read and write."""
    most_columns: int
    """How long a row may be that a loop in a kernel keeps from step to step."""
    most_matrix_bytes: int
    """How large the matrices may be together that a loop in a kernel multiplies rows with."""
    steps_ahead: int
    """How many steps of a while loop are launched at most before the host reads whether they were
    due: 1 where launches return when they have finished."""
    graph_launches: int
    """How many launches a captured graph holds at most; 0 where a graph would gain nothing."""

    @property
    def xp(self) -> Any:
        """The array library of eager and library steps: the module ``numpy`` or ``cupy``."""

    def emit(self, kernel: Kernel) -> KernelSource:
        """Choose a schedule for ``kernel`` and write its source."""

    def environment(self) -> Mapping[str, Any]:
        """Return what binaries depend on beside their source: the target and who compiles.

        It can be written as JSON, ``"target"`` is for people to read, and no compiler is imported.
        """

    def parameters(self, source: KernelSource) -> Mapping[str, Any]:
        """Return what the binary of ``source`` depends on beside code and types, as JSON allows."""

    def variants(self, source: KernelSource) -> tuple[KernelSource, ...]:
        """Return ``source`` and every other source that a launch of its kernel may need."""

    def candidates(self, source: KernelSource) -> tuple[KernelSource, ...]:
        """Return ``source``, and its kernel on other schedules that may be faster on a machine."""

    def compile(self, source: KernelSource) -> Binary:
        """Compile a source; needs no device."""

    def custom(
        self,
        kernel: DeviceKernel,
        operands: Sequence[ShapedArray],
        results: Sequence[ShapedArray],
        params: Mapping[str, Any],
        build: Callable[[Support], Binary],
    ) -> Custom | None:
        """Compile and load a user's whole kernel; None where the device runs none.

        ``build`` returns the machine code of a kernel in Python, for the types and the device that
        the text of the source says.
        """

    def interface(self, source: KernelSource, binary: Binary) -> Mapping[str, Any]:
        """Return what a launch of ``source``, compiled to ``binary``, needs to know of it.

        It can be written as JSON, and read by another process with the same ``environment``.
        """

    def load(
        self,
        interface: Mapping[str, Any],
        binary: Binary,
        source: Callable[[], KernelSource],
        build: Build | None = None,
    ) -> Launcher:
        """Make a binary callable on the device; imports no compiler, and nothing that lowers.

        Args:
            interface: What launches need to know; see ``interface``.
            binary: The machine code.
            source: Returns what it was made from, or another source of equal code, should a
                further one have to be made of that.
            build: Returns the binary of a further source; default: ``compile``.
        """

    def allocator(self, shape: Sequence[int], dtype: np.dtype[Any]) -> Callable[[], Any]:
        """Return a function that allocates an uninitialised C-contiguous array at each call.

        The arrays are of the class that users get; see ``result``.
        """

    def expect(self, sizes: Sequence[int]) -> None:
        """Learn of how many bytes the arrays are that one call of a program allocates."""

    def asarray(self, value: Any) -> Any:
        """Return ``value`` as an array of this device, copying only when it lives elsewhere."""

    def is_array(self, value: object) -> bool:
        """Whether ``value`` is an array of this device that kernels read in place."""

    def result(self, array: Any) -> Any:
        """Return ``array`` as users get it: of a class that has ``block_until_ready``."""

    def plain(self, value: Any) -> Any:
        """Return an array as one of the array library's own class, with which it works fastest.

        What is no array comes back as it is.
        """

    def reader(self, array: Any) -> Callable[[], bytes]:
        """Return a function that waits for what computes ``array``, contiguous, and reads it."""

    def capture(self, launch: Callable[[], None]) -> Callable[[], None]:
        """Record the kernels that ``launch`` launches, none of them for the first time.

        Nothing runs meanwhile, and nothing may be allocated, copied or waited for.

        Returns:
            What launches all of them at once, on what then lies at the same addresses.
        """

    def synchronize(self) -> None:
        """Wait until everything launched has finished."""


def load_source(
    backend: Backend, source: KernelSource, binary: Binary, build: Build | None = None
) -> Launcher:
    """Make the binary of a source that is at hand callable; see ``Backend.load``."""
    return backend.load(backend.interface(source, binary), binary, lambda: source, build)
