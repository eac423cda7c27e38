"""The CUDA backend on the emulated device: what it compiles is PTX that goes no further."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from minijit.backends.base import Binary
from minijit.backends.cuda.backend import CudaBackend
from minijit.backends.cuda.compiler import ComputeCapability, compile_ptx, link, source_file
from minijit.backends.emulator.device import EmulatedDevice
from minijit.backends.emulator.listing import with_listing
from minijit.lowering.source import KernelSource

__all__ = ["EmulatedBackend"]


class EmulatedBackend(CudaBackend):
    """Compiles as for a GPU, down to the cubin and its report, and runs the PTX.

    The text has directives that lead to the generated source, which binaries for a GPU lack, and
    the source itself as comments.
    """

    name = "cuda-emulated"

    def __init__(
        self, device: EmulatedDevice | None = None, cc: ComputeCapability = (9, 0)
    ) -> None:
        """Use ``device``, by default a new one, and compile for ``cc``."""
        super().__init__(device or EmulatedDevice(cc), cc)

    def parameters(self, source: KernelSource) -> Mapping[str, Any]:
        """Return what a GPU's binary depends on, and the text, which is part of this one."""
        return {**super().parameters(source), "text": source.text}

    def _build(self, source: KernelSource) -> Binary:
        """Compile one source; ``code`` is the PTX whose cubin has the resources."""
        ptx = compile_ptx(source, self.cc, lines=True)
        linked = link(ptx, self.cc)
        code = with_listing(ptx, source_file(source), source.text).encode()
        return Binary(code, linked.entry, linked.resources)
