"""What Numba and the assembler make of generated CUDA kernels; nothing here needs a GPU."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from minijit.backends.base import Binary
from minijit.backends.cuda.compiler import CudaCompileError, compile_ptx, link
from minijit.lowering.cuda import emit_cuda
from minijit.lowering.kernel_ir import Kernel
from minijit.lowering.source import KernelSource
from tests.lowering.cuda_kernels import KERNELS, adam, argmax, bias, gelu, layernorm, softmax
from tests.lowering.kernel_builder import Builder, constant
from tests.sampling import paired

ARCHITECTURES = ((8, 0), (9, 0), (10, 0))
FLOAT64 = re.compile(r"^\s*(?!\.reg)\S*\.f64\b", re.MULTILINE)


Compiled = tuple[KernelSource, str, Binary]


def compiled(kernel: Kernel, cc: tuple[int, int] = (9, 0)) -> Compiled:
    """Compile; asserts that nothing spills and nothing lies on a stack."""
    source = emit_cuda(kernel, cc)
    ptx = compile_ptx(source, cc)
    binary = link(ptx, cc)
    used = binary.resources
    assert (used["spill_stores"], used["spill_loads"], used["stack"]) == (0, 0, 0)
    assert 0 < used["registers"] <= 128
    assert binary.code.startswith(b"\x7fELF")
    return source, ptx, binary


def compile_all(kernel: Kernel) -> list[Compiled]:
    """Compile for every architecture."""
    return [compiled(kernel, cc) for cc in ARCHITECTURES]


def count(ptx: str, instruction: str) -> int:
    return len(re.findall(rf"^\s*(?:@!?%p\d+ )?{instruction}\b", ptx, re.MULTILINE))


@pytest.mark.parametrize(("name", "cc"), paired(KERNELS, ARCHITECTURES), ids=str)
def test_kernels_fit_in_registers_and_stay_in_float32(name: str, cc: tuple[int, int]) -> None:
    kernel = KERNELS[name]()
    source, ptx, binary = compiled(kernel, cc)
    assert not FLOAT64.search(ptx)
    assert not re.search(r"\b(div|rem)\.[su]64", ptx)
    assert f".maxntid {source.launch.block}" in ptx
    assert ".minnctapersm" in ptx
    assert binary.entry == kernel.name
    assert f".visible .entry {kernel.name}(" in ptx
    # What is not inlined would show under a mangled name.
    assert "_ZN" not in ptx


@pytest.mark.parametrize(
    ("kernel", "loads", "stores"),
    [(gelu(), 2, 2), (gelu(1 << 18), 1, 1), (adam(), 8, 6), (bias(64, 1024), 2, 1)],
    ids=["two chunks", "one chunk", "seven arrays", "broadcast"],
)
def test_contiguous_maps_move_128_bits(kernel: Kernel, loads: int, stores: int) -> None:
    for _, ptx, _ in compile_all(kernel):
        assert count(ptx, r"ld\.global\.nc\.v4\.[fb]32") == loads
        assert count(ptx, r"st\.global\.v4\.[fb]32") == stores
        assert count(ptx, r"st\.global\.[fb]32") == 0


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int8])
def test_other_widths_move_128_bits(dtype: type) -> None:
    build = Builder((1 << 20,))
    x = build.load([1], dtype)
    build.store(build.map("add", x, x), [1])
    vector = r"v2\.[fb]64" if dtype is np.float64 else r"v4\.[ub]32"
    for _, ptx, _ in compile_all(build.kernel()):
        assert count(ptx, rf"ld\.global\.nc\.{vector}") > 0
        assert count(ptx, rf"st\.global\.{vector}") > 0
        assert count(ptx, r"(ld|st)\.global\.(nc\.)?[ubsf]\d+") == 0


def test_rows_are_read_once_and_128_bits_at_a_time() -> None:
    # 16 values a thread in 4 vectors; the row stays in registers over three passes.
    for _, ptx, _ in compile_all(softmax()):
        assert count(ptx, r"ld\.global\.nc\.v4\.[fb]32") == 4
        assert count(ptx, r"st\.global\.v4\.[fb]32") == 4
        assert count(ptx, r"ld\.global") == 4


def test_no_vectors_when_they_are_not_allowed() -> None:
    source = emit_cuda(gelu(), vectorize=False)
    assert source.launch.aligned == ()
    ptx = compile_ptx(source, (9, 0))
    assert ".v4." not in ptx
    assert emit_cuda(gelu()).launch.aligned == (0, 1)


def test_loads_come_before_the_first_use() -> None:
    ptx = compiled(gelu())[1]
    assert ptx.rindex("ld.global.nc.v4") < ptx.index("mul.rn.f32")


def test_products_and_sums_are_not_contracted() -> None:
    build = Builder((4096,))
    x, y, z = (build.load([1]) for _ in range(3))
    build.store(build.map("add", build.map("mul", x, y), z), [1])
    for _, ptx, _ in compile_all(build.kernel()):
        assert count(ptx, r"fma") == 0
        # `.rn` also forbids the assembler to contract.
        assert count(ptx, r"mul\.rn\.f32") == count(ptx, r"add\.rn\.f32") > 0


def test_maxima_propagate_nan_in_one_instruction() -> None:
    build = Builder((4096,))
    build.store(build.map("max", build.load([1]), constant(0.0)), [1])
    for _, ptx, _ in compile_all(build.kernel()):
        assert count(ptx, r"max\.NaN\.f32") == 4
        assert count(ptx, r"setp") == 0


EXCHANGES = {
    "8 threads a row": (softmax(4096, 64), 2 * 3, 0),  # 3 steps for each of max and sum
    "a warp": (softmax(4096, 512), 2 * 5, 0),
    "4 warps": (softmax(4096, 2048), 2 * (5 + 2), 2),  # one barrier a reduction
    "8 columns a block": (softmax(256, 4096, axis=0), 2 * 2, 2),  # in the warp, then the warps
    "32 columns": (softmax(8192, 4096, axis=0), 0, 2),  # a warp has one thread for each
    "argmax": (argmax(4096, 1024), 5 * (1 + 2), 0),  # a float is one word, an int64 two
}


@pytest.mark.parametrize(("name", "cc"), paired(EXCHANGES, ARCHITECTURES), ids=str)
def test_exchanges_between_threads(name: str, cc: tuple[int, int]) -> None:
    kernel, shuffles, barriers = EXCHANGES[name]
    _, ptx, binary = compiled(kernel, cc)
    assert count(ptx, r"shfl\.sync\.bfly\.b32") == shuffles
    assert count(ptx, r"(bar|barrier)\.sync") == barriers
    assert (binary.resources["shared"] > 0) == (barriers > 0)


def test_shared_memory_belongs_to_the_kernel() -> None:
    ptx = compiled(softmax(4096, 4096))[1]
    assert ".visible .shared" not in ptx
    assert "softmax_shared_0" in ptx
    assert "softmax_shared_1" in ptx


def test_less_work_takes_fewer_registers() -> None:
    def registers(work: int | None) -> int:
        source = emit_cuda(layernorm(), work=work)
        return link(compile_ptx(source, (9, 0)), (9, 0)).resources["registers"]

    assert registers(8) < registers(None)


def test_indices_are_divided_by_multiplication() -> None:
    for _, ptx, _ in compile_all(bias(300, 772)):
        assert not re.search(r"^\s*(div|rem)\.[su]", ptx, re.MULTILINE)


def test_huge_arrays_have_64_bit_positions() -> None:
    kernel = gelu(3 << 30)
    source = emit_cuda(kernel)
    assert "narrow" not in source.text
    compile_all(kernel)


def test_the_text_shows_the_users_lines_and_buffers() -> None:
    text = emit_cuda(gelu()).text
    assert "# model.py:12" in text
    assert "load_vector(v0_, 4*g, b0, p)  # x0" in text


def test_cubins_are_the_same_bytes_in_every_process() -> None:
    program = (
        "import hashlib, sys\n"
        "from minijit.backends.cuda.compiler import compile_source\n"
        "from minijit.lowering.cuda import emit_cuda\n"
        "from tests.lowering.cuda_kernels import gelu, softmax\n"
        # What was compiled before must not show.
        "if sys.argv[1] == 'other': compile_source(emit_cuda(gelu()), (8, 0))\n"
        "code = compile_source(emit_cuda(softmax(4096, 4096)), (9, 0)).code\n"
        "print(hashlib.sha256(code).hexdigest())\n"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", program, mode],
            check=True,
            capture_output=True,
            text=True,
            cwd=Path(__file__).parents[2],
        ).stdout
        for mode in ("first", "other")
    }
    source = emit_cuda(softmax(4096, 4096))
    here = link(compile_ptx(source, (9, 0)), (9, 0)).code
    assert digests == {hashlib.sha256(here).hexdigest() + "\n"}


def test_refused_source_is_shown() -> None:
    source = emit_cuda(gelu())
    broken = KernelSource(source.kernel, "def gelu(b0, b1):\n    b0.no()\n", {}, "", source.launch)
    with pytest.raises(CudaCompileError, match=r"b0\.no\(\)"):
        compile_ptx(broken, (9, 0))
    with pytest.raises(CudaCompileError, match="no kernel"):
        link("", (9, 0))
