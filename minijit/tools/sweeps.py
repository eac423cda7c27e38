"""What bench runs beside the common workloads: every kind of kernel, over sizes of a device."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from minijit.tools import workloads as w
from minijit.tools.workloads import Workload, normal, positive


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large the workloads are.

    Attributes:
        elements: Of long arrays.
        lengths: Of rows: powers of two, and some that vector accesses do not divide.
        columns: Shapes whose columns are reduced.
        dense: Rows, inner length and columns of matrix products.
    """

    elements: int
    lengths: tuple[int, ...]
    columns: tuple[tuple[int, int], ...]
    dense: tuple[tuple[int, int, int], ...]


GPU = Sizes(
    1 << 24,
    (128, 256, 512, 1001, 1024, 2048, 4096, 8192, 10007, 16384, 32768, 65536),
    ((131072, 128), (16384, 1024), (1023, 16385)),
    ((4096, 1024, 4096), (1024, 4096, 1024), (256, 512, 1000)),
)
TINY = Sizes(4096, (128, 1001, 2048), ((512, 16), (33, 65)), ((16, 32, 64),))


def sweeps(sizes: Sizes) -> tuple[Workload, ...]:
    """Return chains, rows, reductions, a matrix product with epilogue, and small calls."""
    n = sizes.elements
    size = f"{n >> 20}M" if n >= 1 << 20 else str(n)
    return (
        Workload(f"scale and shift {size}", "elementwise", w.scale_and_shift, normal((n,))),
        Workload(f"saxpy chain {size}", "elementwise", w.saxpy_chain, normal((), (n,), (n,))),
        Workload(f"gelu {size}", "elementwise", w.gelu, normal((n,))),
        Workload(f"gelu {size}-1", "elementwise", w.gelu, normal((n - 1,))),
        *w.row_sweep(n, sizes.lengths),
        Workload(f"sum {size}", "full", w.total, positive((n,))),
        Workload(f"sum of squares {size}", "full", w.sum_of_squares, normal((n,))),
        Workload(f"max {size}-1", "full", w.largest, normal((n - 1,))),
        *(
            Workload(
                f"column {name} {shape[0]}x{shape[1]}",
                "column",
                function,
                positive(shape),
                # Some systems add up a long column one by one.
                tolerance=1e-4,
            )
            for name, function in (
                ("sum", w.column_sum), ("max", w.column_max), ("mean/var", w.column_statistics),
            )
            for shape in sizes.columns
        ),
        *(
            Workload(
                f"dense gelu {rows}x{inner}x{columns}",
                "library",
                w.dense_gelu,
                normal((rows, inner), (inner, columns), (columns,)),
            )
            for rows, inner, columns in sizes.dense
        ),
        Workload("gelu 1000", "small", w.gelu, normal((1000,))),
        Workload("softmax 48x100", "small", w.softmax, normal((48, 100))),
        Workload("layernorm 8x1024", "small", w.layernorm, normal((8, 1024), (1024,), (1024,))),
    )  # fmt: skip


_WHOLE = 1e-9
_HALF = 2e-3

CPU = (
    Workload("saxpy chain 30M", "elementwise", w.saxpy_chain, normal((), *[(30_000_000,)] * 2)),
    Workload("swiglu 4M", "elementwise", w.swiglu, normal((1 << 22,), (1 << 22,))),
    Workload("swiglu f16 4M", "elementwise", w.swiglu,
             normal((1 << 22,), (1 << 22,), dtype=np.float16), _HALF),
    Workload("gelu f64 1M", "elementwise", w.gelu, normal((1 << 20,), dtype=np.float64)),
    Workload("integers 4M", "elementwise", w.integer_chain,
             w.whole((1 << 22,), (1 << 22,)), _WHOLE),
    Workload("polar 1M", "elementwise", w.polar, normal((1 << 20,), (1 << 20,))),
    Workload("power law 1M", "elementwise", w.power_law, positive((1 << 20,))),
    Workload("differences 4M", "elementwise", w.differences, normal((1 << 22,))),
    Workload("add transpose 2048x2048", "elementwise", w.add_transpose, normal((2048, 2048))),
    Workload("rotary 8x1024x128", "elementwise", w.rotary,
             normal((8, 1024, 128), (1024, 128), (1024, 128))),
    Workload("softmax 65536x32", "row", w.softmax, normal((65536, 32))),
    Workload("softmax f64 2048x512", "row", w.softmax, normal((2048, 512), dtype=np.float64)),
    Workload("layernorm 16384x100", "row", w.layernorm, normal((16384, 100), (100,), (100,))),
    Workload("layernorm f16 4096x768", "row", w.layernorm,
             normal((4096, 768), (768,), (768,), dtype=np.float16), 4 * _HALF),
    Workload("embedding 65536 of 30000x128", "row", w.embedding,
             w.taken((30_000, 128), 65_536, (128,))),
    Workload("label loss 16384x1000", "row", w.label_loss,
             w.taken((16_384, 1000), 16_384, axis=1)),
    Workload("argmax 4096x1024", "row", w.where_largest, normal((4096, 1024)), _WHOLE),
    Workload("logistic loss 30M", "full", w.logistic_loss, normal(*[(30_000_000,)] * 2)),
    Workload("max 30M", "full", w.largest, normal((30_000_000,))),
    Workload("standardise 100000x16", "column", w.standardise, normal((100_000, 16)), 1e-4),
    Workload("column sum int32 4096x1024", "column", w.column_sum, w.whole((4096, 1024)), _WHOLE),
    Workload("middle axis 64x128x512", "column", w.middle_statistics, normal((64, 128, 512))),
    Workload("gelu 1000", "small", w.gelu, normal((1000,))),
    Workload("layernorm 8x1024", "small", w.layernorm, normal((8, 1024), (1024,), (1024,))),
)  # fmt: skip
"""Other shapes, sizes and dtypes than those of ``WORKLOADS``."""


def spread(workloads: tuple[Workload, ...], step: int = 3) -> tuple[Workload, ...]:
    """Return every third, then what is between: where time runs out, every kind has been seen."""
    return tuple(workload for start in range(step) for workload in workloads[start::step])
