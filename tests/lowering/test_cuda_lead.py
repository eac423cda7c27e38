"""Long rows that begin inside of sectors: threads begin before them, where a sector does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from minijit.lowering.cuda import emit_cuda
from minijit.lowering.cuda_lead import Lead, find_lead
from minijit.lowering.kernel_ir import Kernel
from tests.lowering.cuda_kernels import softmax
from tests.lowering.kernel_builder import Builder
from tests.lowering.simt import compared

F16, F32, F64 = np.float16, np.float32, np.float64


def check(kernel: Kernel, tolerance: float = 1e-5, **options: Any) -> str:
    """Run a kernel against NumPy, and return its text."""
    return compared(kernel, tolerance=tolerance, **options)[0].text


def total(rows: int, cols: int, pitch: int, offset: int = 0, dtype: Any = F32) -> Kernel:
    """Sums of rows that lie ``pitch`` elements apart."""
    build = Builder((rows,), (cols,))
    build.store(build.reduce("sum", build.load([pitch, 1], dtype, offset=offset)), [1])
    return build.kernel()


@pytest.mark.parametrize(
    ("kernel", "step"),
    [
        (total(9, 1001, 1001), 1),
        (total(9, 1001, 1004), 4),
        (total(9, 1001, 1002), 2),
        (total(9, 1001, 1008, offset=3), 1),
        (total(9, 1001, 1001, dtype=F64), 1),
        (total(9, 1000, 1000, dtype=F16), 8),
    ],
    ids=["odd", "vectors", "pairs", "from the middle", "doubles", "halves"],
)
def test_leads_are_multiples_of_a_step(kernel: Kernel, step: int) -> None:
    lead = find_lead(kernel)
    assert lead is not None
    size = kernel.buffers[0].dtype.itemsize
    index = dict(lead.start.terms)
    starts = [lead.start.offset + index.get(0, 0) * row for row in range(9)]
    leads = [start % lead.sector for start in starts]
    assert (lead.sector, lead.step) == (32 // size, step)
    assert max(leads) <= lead.most
    assert all(each % step == 0 for each in leads)


@pytest.mark.parametrize(
    "kernel",
    [total(9, 1001, 1008), total(9, 1001, 1008, offset=8), total(9, 20, 21), softmax(40, 64, 0)],
    ids=["at sectors", "from a sector", "short", "columns"],
)
def test_other_rows_have_none(kernel: Kernel) -> None:
    assert find_lead(kernel) is None


def test_the_largest_array_decides() -> None:
    build = Builder((20,), (500,))
    x, y, weight = build.load([501, 1]), build.load([503, 1], F16), build.load([0, 1])
    z = build.map("add", build.map("mul", x, weight), build.convert(y, F32))
    build.store(build.reduce("sum", z), [1])
    kernel = build.kernel()
    lead = find_lead(kernel)
    assert isinstance(lead, Lead)
    assert dict(lead.start.terms) == {0: 501}
    check(kernel, 1e-4)


@pytest.mark.parametrize("cols", [1001, 1023, 1024 + 7, 2050, 4095])
def test_softmax(cols: int) -> None:
    text = check(softmax(3, cols))
    assert "lead = " in text


def test_vectors_begin_at_sectors() -> None:
    """Rows of 251 vectors, every second of which begins in the middle of a sector."""
    source = emit_cuda(softmax(3, 1004))
    assert "load_vector" in source.text
    check(softmax(3, 1004))
    check(softmax(3, 1000, dtype=F16), 2e-3)


def test_rows_in_passes() -> None:
    source = emit_cuda(softmax(2, 40_001))
    assert "in passes" in source.schedule
    assert "base = narrow(-lead)" in source.text
    check(softmax(2, 40_001), 1e-4)


def test_ragged_rows() -> None:
    size, block = 3001, 512
    build = Builder((-(-size // block), 3), (block,), ragged=size)
    build.store(build.reduce("max", build.load([block, size, 1], size=3 * size)), [3, 1])
    assert "lead = " in check(build.kernel())


def test_rows_from_the_middle_of_sectors() -> None:
    build = Builder((5,), (600,))
    x = build.load([640, 1], offset=7)
    build.store(build.map("sub", x, build.reduce("max", x)), [600, 1])
    check(build.kernel())


def test_without_alignment_there_is_nothing_to_begin_at() -> None:
    assert "lead" not in check(softmax(3, 1001), vectorize=False)
