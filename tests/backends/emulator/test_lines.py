"""Faults in generated kernels name and quote the line of the generated source."""

from __future__ import annotations

import linecache
import re

import pytest

from minijit.backends.cuda.compiler import compile_ptx, source_file
from minijit.backends.emulator.backend import EmulatedBackend
from minijit.backends.emulator.errors import EmulationError
from minijit.backends.emulator.listing import quoted, with_listing
from minijit.backends.emulator.memory import GlobalMemory
from minijit.lowering.cuda import emit_cuda
from minijit.lowering.kernel_ir import Kernel
from minijit.lowering.source import KernelSource
from tests.backends.emulator.emulated_kernels import launch, unwritten
from tests.lowering import cuda_kernels

CC = (9, 0)


def fault(source: KernelSource, old: str, new: str) -> str:
    """The message of the fault that a change of the PTX causes."""
    backend = EmulatedBackend(cc=CC)
    text = backend.listed(source, backend.compile(source)).code.decode()
    changed = re.sub(old, new, text, count=1, flags=re.MULTILINE)
    assert changed != text
    memory = GlobalMemory()
    arrays = [unwritten(memory, buffer.size, buffer.dtype) for buffer in source.kernel.buffers]
    arrays[0][:] = 1
    with pytest.raises(EmulationError) as caught:
        launch(changed, arrays, source.launch.grid, source.launch.block, memory=memory)
    return str(caught.value)


SOFTMAX, GELU = cuda_kernels.softmax(4, 8192), cuda_kernels.gelu(1 << 12)
OTHERS = (
    cuda_kernels.adam(10_003),
    cuda_kernels.transpose(64, 50),
    cuda_kernels.layernorm(8, 1000),
    cuda_kernels.column_sum(512, 96),
    cuda_kernels.argmax(8, 1000),
)
LOAD, STORE = r"(ld\.global\S* .*\[%rd\d+)", r"(st\.global\S* *\t*\[%rd\d+)"
BEYOND = r"\1+4096000"


@pytest.mark.parametrize(
    ("kernel", "old", "new", "wanted"),
    [
        (SOFTMAX, LOAD, BEYOND, "load_vector"),
        (SOFTMAX, STORE, BEYOND, "store_vector"),
        (SOFTMAX, r"^.*bar\.sync.*$", "", "reduce_max"),
        (GELU, STORE, BEYOND, "store_vector"),
    ],
    ids=["load", "store", "barrier", "map"],
)
def test_a_fault_quotes_the_generated_line(kernel: Kernel, old: str, new: str, wanted: str) -> None:
    source = emit_cuda(kernel, CC)
    message = fault(source, old, new)
    found = re.search(r"PTX line \d+ \((<minijit cuda .*>):(\d+)\): .*\n.*: (.*)$", message)
    assert found is not None, message
    assert found[1] == source_file(source)
    assert found[3] == source.text.splitlines()[int(found[2]) - 1].strip()
    assert wanted in found[3]
    assert re.search(rf"kernel {kernel.name}, block \d+, thread \d+", message)


def test_texts_for_devices_have_no_lines() -> None:
    source = emit_cuda(cuda_kernels.gelu(1 << 12), CC)
    plain, lined = compile_ptx(source, CC), compile_ptx(source, CC, lines=True)
    assert ".loc" not in plain
    assert ".file" not in plain
    assert f'"{source_file(source)}"' in lined  # no folder before it
    assert lined == compile_ptx(source, CC, lines=True)


def instructions(ptx: str) -> list[str]:
    """The statements without names of registers and labels, which lines may change."""
    code = (line.partition("//")[0].strip() for line in ptx.splitlines())
    kept = [line for line in code if line and not re.match(r"\.(loc|file|section|target)\b", line)]
    kept = [line for line in kept if not re.match(r"[{}]|\$\w+:", line)]
    return [re.sub(r"%\w+|\$\w+", "_", line) for line in kept]


@pytest.mark.parametrize("kernel", [SOFTMAX, GELU, *OTHERS], ids=str)
def test_what_runs_is_what_a_device_gets(kernel: Kernel) -> None:
    source = emit_cuda(kernel, CC)
    plain, lined = compile_ptx(source, CC), compile_ptx(source, CC, lines=True)
    assert plain != lined
    assert instructions(plain) == instructions(lined)


def test_kernels_of_one_name_have_files_of_their_own() -> None:
    small, large = (emit_cuda(cuda_kernels.gelu(size), CC) for size in (1 << 12, 10_003))
    assert source_file(small) != source_file(large)
    compile_ptx(small, CC)
    assert not [name for name in linecache.cache if name.startswith("<minijit cuda gelu")]


def test_listing() -> None:
    ptx = '// PTX\n\t.file\t1 "<file>"\n'
    text = with_listing(ptx, "def f():\n    pass  # a.py:1\n")
    assert quoted(text, "<file>", 2) == "pass  # a.py:1"
    assert (
        quoted(text, "<file>", 3) is quoted(text, "<file>", 0) is quoted(text, "other", 1) is None
    )
