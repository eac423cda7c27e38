"""Records the kernels that programs are cut into for CUDA, and checks what they compile to."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import math
import re
from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np

from minijit.backends import registry
from minijit.backends.base import Binary
from minijit.backends.cpu.backend import CpuBackend
from minijit.backends.cuda import compiler
from minijit.backends.cuda.backend import CudaBackend
from minijit.lowering.coalesce import coalesce
from minijit.lowering.kernel_ir import Kernel, Load, Map, Reduce, Store
from minijit.lowering.source import KernelSource
from minijit.lowering.statements import walk

ARCHITECTURES = ((8, 0), (9, 0))
# libdevice reduces large arguments of these with float64 constants, those in float64 on a stack.
FLOAT64_INSIDE = {"sin", "cos", "tan"}
# Only a user's division of 64-bit integers is one in the code; no index may be.
INTEGER_DIVISIONS = {"floor_divide", "remainder", "fmod"}

_FLOAT64 = re.compile(r"^\s*(?!\.reg)\S*\.f64\b", re.MULTILINE)
_DIVISION = re.compile(r"\b(?:div|rem)\.[su]64")
_ACCESS = re.compile(
    r"^\s*(?:@!?%p\d+ )?(ld|st)\.global(?:\.nc)?(\.v[24])?\.[bfsu](\d+)", re.MULTILINE
)


class _Recorder(CpuBackend):
    """Computes on the CPU what is cut into kernels as for CUDA, and keeps these kernels."""

    few_rows = CudaBackend.few_rows
    splits_columns = CudaBackend.splits_columns
    reduces_in_blocks = CudaBackend.reduces_in_blocks
    most_columns = CudaBackend.most_columns
    most_matrix_bytes = CudaBackend.most_matrix_bytes

    def __init__(self) -> None:
        super().__init__()
        self.kernels: dict[str, Kernel] = {}

    def emit(self, kernel: Kernel) -> KernelSource:
        self.kernels.setdefault(repr(kernel), kernel)
        return super().emit(kernel)


@contextlib.contextmanager
def recorded() -> Iterator[dict[str, Kernel]]:
    """Collect the distinct kernels of what is compiled inside, by their IR."""
    recorder = _Recorder()
    with mock.patch.dict(registry._backends, {"cpu": recorder}):
        yield recorder.kernels


@dataclasses.dataclass(frozen=True, slots=True)
class Compiled:
    """A kernel as the CUDA backend would load it."""

    source: KernelSource
    ptx: str
    binary: Binary


def compiled(kernel: Kernel, cc: tuple[int, int]) -> Compiled:
    """Compile as the backend does: again with less work for a thread where registers spill."""
    tried: list[Compiled] = []

    def compile_source(source: KernelSource, cc: tuple[int, int]) -> Binary:
        ptx = compiler.compile_ptx(source, cc)
        tried.append(Compiled(source, ptx, compiler.link(ptx, cc)))
        return tried[-1].binary

    backend = CudaBackend(cc=cc)
    with mock.patch("minijit.backends.cuda.compiler.compile_source", compile_source):
        code = backend.compile(backend.emit(kernel)).code
    return next(found for found in tried if found.binary.code == code)


def check(kernel: Kernel, cc: tuple[int, int], *, vectors: bool = True) -> Binary:
    """Compile a kernel, assert what holds for every kernel, and return the cubin.

    Args:
        kernel: The kernel.
        cc: Compute capability.
        vectors: Whether a contiguous map has to move 128 bits at a time.
    """
    result = compiled(kernel, cc)
    source, ptx, used = result.source, result.ptx, result.binary.resources
    note = f"{kernel}\n{source.schedule}\n{used}"
    maps = [node for node in walk(kernel.body) if isinstance(node, Map)]
    operations = {node.op.name for node in maps}
    divided = {node.args[0].dtype for node in maps if node.op.name in INTEGER_DIVISIONS}
    in_float64 = np.dtype(np.float64) in _dtypes(kernel)
    assert (used["spill_stores"], used["spill_loads"]) == (0, 0), note
    assert used["stack"] == 0 or (in_float64 and operations & FLOAT64_INSIDE), note
    assert 0 < used["registers"] <= 128, note
    assert result.binary.code.startswith(b"\x7fELF")
    if not in_float64 and not operations & FLOAT64_INSIDE:
        assert not _FLOAT64.search(ptx), note
    if not divided & {np.dtype(np.int64), np.dtype(np.uint64)}:
        assert not _DIVISION.search(ptx), note
    if vectors and _is_contiguous_map(kernel):
        _check_vectors(kernel, source, ptx, note)
    return result.binary


def digest(binary: Binary) -> str:
    """Return a digest of the cubin."""
    return hashlib.sha256(binary.code).hexdigest()


def _dtypes(kernel: Kernel) -> set[np.dtype[Any]]:
    """All dtypes that a kernel holds values in."""
    found = {part.dtype for part in (*kernel.buffers, *kernel.arguments)}
    for statement in walk(kernel.body):
        operands = [value for name in ("out", "value") if (value := getattr(statement, name, None))]
        operands += getattr(statement, "args", ())
        found |= {operand.dtype for operand in operands}
        found |= set(getattr(statement, "accumulators", ()))
    return found


def _accesses(kernel: Kernel) -> list[Load | Store]:
    """The loads and stores of a kernel that differ from element to element."""
    return [s for s in kernel.body if isinstance(s, Load | Store) and not s.index.is_constant]


def _flat(kernel: Kernel) -> Kernel:
    return coalesce(dataclasses.replace(kernel, rows=kernel.extents, cols=()))


def _is_contiguous_map(kernel: Kernel) -> bool:
    """Whether all arrays are read and written from end to end in one order.

    The threads of a kernel with loops or branches take a point each.
    """
    if kernel.structured or any(isinstance(statement, Reduce) for statement in kernel.body):
        return False
    flat = _flat(kernel)
    return len(flat.rows) == 1 and all(
        s.index.terms == ((0, 1),) and s.index.offset == 0 and getattr(s, "guard", None) is None
        for s in _accesses(flat)
    )


def _check_vectors(kernel: Kernel, source: KernelSource, ptx: str, note: str) -> None:
    """Assert that every array is moved 128 bits at a time, but for a last, incomplete tile."""
    flat = _flat(kernel)
    accesses = _accesses(flat)
    found = [
        (kind, int(vector[2:] or 1) * int(width)) for kind, vector, width in _ACCESS.findall(ptx)
    ]
    for kind, statement in (("ld", Load), ("st", Store)):
        wanted = {s.buffer for s in accesses if isinstance(s, statement)}
        assert len([bits for k, bits in found if (k, bits) == (kind, 128)]) >= len(wanted), note
        assert wanted <= set(source.launch.aligned), note
    tile = source.launch.work * source.launch.block
    if math.prod(flat.rows) % tile == 0 and len(accesses) == len(_moves(flat)):
        assert {bits for _, bits in found} == {128}, note


def _moves(kernel: Kernel) -> list[Load | Store]:
    return [s for s in kernel.body if isinstance(s, Load | Store)]
