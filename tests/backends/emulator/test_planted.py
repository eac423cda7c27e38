"""Errors planted into the PTX of our own kernels and into their launches: each is noticed."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from minijit.backends.cuda.compiler import compile_ptx
from minijit.backends.emulator.errors import (
    EmulationError,
    MemoryAccessError,
    SharedRaceError,
    UninitialisedReadError,
)
from minijit.backends.emulator.memory import GlobalMemory
from minijit.lowering.cuda import emit_cuda
from minijit.lowering.kernel_ir import Kernel
from tests.backends.emulator.emulated_kernels import launch, unwritten
from tests.lowering import cuda_kernels

F32 = np.float32


def run_changed(
    kernel: Kernel,
    change: Callable[[str], str] = str,
    *,
    blocks: int = 0,
    offset: int = 0,
    short: int = 0,
    fresh: bool = False,
) -> Any:
    """Run a kernel of one input and one output after a change; returns the output.

    ``blocks`` are added to the grid, ``offset`` to the addresses, ``short`` elements are missing
    at the end of the output; with ``fresh`` nothing has written the input.
    """
    source = emit_cuda(kernel, (9, 0))
    text = compile_ptx(source, (9, 0))
    changed = change(text)
    assert change is str or changed != text
    memory = GlobalMemory()
    size_in, size_out = kernel.buffers[0].size, kernel.buffers[1].size
    x = np.linspace(0, 1, size_in + offset, dtype=F32)[offset:]
    if fresh:
        x = unwritten(memory, size_in, F32)
    out = unwritten(memory, size_out + offset - short, F32)
    grid = source.launch.grid + blocks
    sizes = map(np.int64, source.launch.sizes)
    launch(changed, [x, out[offset:], *sizes], grid, source.launch.block, memory=memory)
    return out


def softmax() -> Kernel:
    return cuda_kernels.softmax(4, 8192)


def test_unchanged_kernel_is_fine() -> None:
    out = run_changed(softmax()).reshape(4, 8192)
    np.testing.assert_allclose(out.sum(axis=1), 1, rtol=1e-5)


def without(pattern: str, count: int = 0) -> Callable[[str], str]:
    return lambda text: re.sub(rf"^.*{pattern}.*$", "", text, count=count, flags=re.MULTILINE)


def test_missing_barrier() -> None:
    with pytest.raises((SharedRaceError, UninitialisedReadError), match="shared memory"):
        run_changed(softmax(), without(r"bar\.sync"))


def test_missing_store_to_shared_memory() -> None:
    with pytest.raises(UninitialisedReadError, match="shared memory was never written"):
        run_changed(softmax(), without(r"st\.shared", 1))


def test_one_array_for_two_reductions() -> None:
    def merged(text: str) -> str:
        return re.sub(r"(?<=, )softmax_shared_1", "softmax_shared_0", text)

    with pytest.raises(SharedRaceError, match="no barrier between"):
        run_changed(softmax(), merged)


def test_shared_array_too_small() -> None:
    def smaller(text: str) -> str:
        return re.sub(r"_shared_1\[\d+\]", "_shared_1[4]", text)

    with pytest.raises(MemoryAccessError, match="shared memory"):
        run_changed(softmax(), smaller)


@pytest.mark.parametrize("kernel", [cuda_kernels.gelu(1 << 12), softmax()], ids=str)
def test_a_block_too_many(kernel: Kernel) -> None:
    with pytest.raises(MemoryAccessError, match="of a buffer of"):
        run_changed(kernel, blocks=1)


def test_a_block_too_few_leaves_memory_unwritten() -> None:
    assert np.isnan(run_changed(softmax(), blocks=-1)).sum() == 8192


def test_output_too_small() -> None:
    with pytest.raises(MemoryAccessError, match="of a buffer of"):
        run_changed(cuda_kernels.gelu(10_003), short=1)


def test_unaligned_buffers() -> None:
    with pytest.raises(MemoryAccessError, match="not a multiple of 16"):
        run_changed(cuda_kernels.gelu(1 << 12), offset=1)


def test_input_that_nothing_wrote() -> None:
    with pytest.raises(UninitialisedReadError, match="never written"):
        run_changed(cuda_kernels.gelu(1 << 12), fresh=True)


def test_missing_tail() -> None:
    def always(text: str) -> str:
        # The guards of the elements at the end let everything pass.
        return re.sub(r"^\t@%p\d+ bra [^\n]*;$", "", text, flags=re.MULTILINE)

    with pytest.raises(MemoryAccessError):
        run_changed(cuda_kernels.gelu(10_003), always)


def test_index_in_too_few_bits() -> None:
    def narrow(text: str) -> str:
        return re.sub(r"mul\.wide\.s32(\s+%rd\d+, %r\d+), \d+;", r"mul.wide.s32\1, 1048576;", text)

    with pytest.raises(MemoryAccessError):
        run_changed(softmax(), narrow)


def test_shuffle_that_names_absent_threads() -> None:
    # A branch around the first exchange keeps half of each warp away.
    def branch(text: str) -> str:
        mark = text.index("shfl.sync")
        start = text.rindex("\n", 0, mark) + 1
        end = text.index("\n", mark) + 1
        half = "and.b32 %r999, %r1, 16;\nsetp.ne.u32 %p999, %r999, 0;\n@%p999 bra $skipped;\n"
        text = f"{text[:start]}{half}{text[start:end]}$skipped:\n{text[end:]}"
        text = text.replace(".reg .pred", ".reg .b32 %r999;\n.reg .pred %p999;\n.reg .pred", 1)
        return re.sub(r"mov\.u32\s+(%r\d+), %tid\.x;", r"mov.u32 \1, %tid.x;\nmov.u32 %r1, \1;",
                      text, count=1)  # fmt: skip

    with pytest.raises(EmulationError, match=r"shfl\.sync|never written"):
        run_changed(softmax(), branch)
