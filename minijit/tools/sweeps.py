"""What bench runs on a GPU: every kind of kernel over sizes that fill one, or tiny ones."""

from __future__ import annotations

from dataclasses import dataclass

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


def spread(workloads: tuple[Workload, ...], step: int = 3) -> tuple[Workload, ...]:
    """Return every third, then what is between: where time runs out, every kind has been seen."""
    return tuple(workload for start in range(step) for workload in workloads[start::step])
