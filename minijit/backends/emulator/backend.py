"""The CUDA backend on the emulated device: what it compiles is PTX that goes no further."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from minijit.backends.base import Binary, Build, Launcher
from minijit.backends.cuda.backend import CudaBackend
from minijit.backends.cuda.device import ComputeCapability
from minijit.backends.emulator.device import EmulatedDevice
from minijit.backends.emulator.listing import with_listing

if TYPE_CHECKING:
    from minijit.lowering.source import KernelSource

__all__ = ["EmulatedBackend"]


class EmulatedBackend(CudaBackend):
    """Compiles as for a GPU, down to the cubin and its report, and runs the PTX.

    The text has directives that lead to the generated source, which binaries for a GPU lack; when
    it is loaded, the source itself is added as comments.
    """

    name = "cuda-emulated"
    takes_ptx = True

    def __init__(
        self, device: EmulatedDevice | None = None, cc: ComputeCapability = (9, 0)
    ) -> None:
        """Use ``device``, by default a new one, and compile for ``cc``."""
        super().__init__(device or EmulatedDevice(cc), cc)

    def load(
        self,
        interface: Mapping[str, Any],
        binary: Binary,
        source: Callable[[], KernelSource],
        build: Build | None = None,
    ) -> Launcher:
        """Load the PTX; faults will quote the source."""
        return super().load(interface, self.listed(source(), binary), source, build)

    def listed(self, source: KernelSource, binary: Binary) -> Binary:
        """Return ``binary`` with the text of ``source`` in the place of whatever it came from."""
        code = with_listing(binary.code.decode(), source.text).encode()
        return Binary(code, binary.entry, binary.resources)

    def _build(self, source: KernelSource) -> Binary:
        """Compile one source; ``code`` is the PTX whose cubin has the resources."""
        from minijit.backends.cuda.compiler import compile_ptx, link

        ptx = compile_ptx(source, self.cc, lines=True)
        linked = link(ptx, self.cc)
        return Binary(ptx.encode(), linked.entry, linked.resources)
