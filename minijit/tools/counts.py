"""`python -m minijit counts`: what the kernels of every workload cost on an emulated GPU.

Nothing is timed: bytes, instructions and registers are counted, which are the same on any machine.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

import minijit
from minijit.debug import KernelReport, LaunchReport, kernel_report
from minijit.tools.sweeps import CPU
from minijit.tools.workloads import WORKLOADS, Workload

HEADINGS = (
    "workload", "kernel", "blocks", "threads", "bytes / fewest", "L2 / fewest", "L1 / fewest",
    "instructions / element", "registers", "shared", "conflicts", "spills",
)  # fmt: skip
_MOST_BYTES = 1 << 26
_INTRODUCTION = """\
# What kernels cost on CUDA

Counted by `python -m minijit counts` on an emulated GPU of compute capability {}.{}, minijit {}.
Bytes are those that memory, L2 and L1 are asked for, 32 a sector, over those of the different
sectors, by a model of caches that holds less than a GPU's; what a program reads at two places, as a
stencil does, warps ask the L1 for twice. Instructions are those of PTX, of all threads, over the
elements of the largest array; shared memory is in bytes for a block.
[See what a GPU would do](../how-to/see-what-a-gpu-would-do.md) says more.

"""


def main(argv: Sequence[str]) -> int:
    """Count, print a table, and write it as a page when asked; 1 when no workload was found."""
    parser = argparse.ArgumentParser(prog="python -m minijit counts", description=__doc__)
    parser.add_argument("--only", default="", help="workloads whose name contains this")
    parser.add_argument("--out", type=Path, help="write a page of Markdown")
    parser.add_argument(
        "--compute-capability", type=float, default=9.0, help="of the GPU, for example 8.0"
    )
    options = parser.parse_args(argv)
    capability = divmod(round(options.compute_capability * 10), 10)
    rows: list[tuple[str, ...]] = []
    print(_line(HEADINGS))
    for workload in counted(options.only):
        for row in cells(workload, report(workload, capability)):
            rows.append(row)
            print(_line(row), flush=True)
    if options.out and rows:
        table = (HEADINGS, tuple("---" if n < 2 else "--:" for n in range(len(HEADINGS))), *rows)
        text = _INTRODUCTION.format(*capability, minijit.__version__)
        options.out.write_text(text + "".join(f"{_line(row)}\n" for row in table))
    return 0 if rows else 1


def counted(only: str) -> Iterator[Workload]:
    """Iterate over the workloads that an interpreter has done with in seconds."""
    for workload in (*WORKLOADS, *CPU):
        small = sum(x.nbytes for x in workload.make_inputs()) <= _MOST_BYTES
        if only in workload.name and small:
            yield workload


def report(workload: Workload, capability: tuple[int, int] = (9, 0)) -> KernelReport:
    """Run a workload once on an emulated GPU."""
    return kernel_report(
        lambda *inputs: workload.function(np, *inputs),
        *workload.make_inputs(),
        compute_capability=capability,
    )


def cells(workload: Workload, counts: KernelReport) -> Iterable[tuple[str, ...]]:
    """Return a row of the table for each launch."""
    for launch in counts.kernels:
        yield (workload.name, launch.name, *_figures(launch))


def _figures(launch: LaunchReport) -> tuple[str, ...]:
    return (
        str(launch.grid),
        str(launch.block),
        f"{launch.excess:.2f}",
        f"{launch.l2_bytes / launch.fewest_bytes:.2f}",
        f"{launch.l1_bytes / launch.fewest_bytes:.2f}",
        f"{launch.instructions_per_element:.1f}",
        str(launch.registers),
        str(launch.shared),
        str(launch.bank_conflicts),
        str(launch.spill_stores + launch.spill_loads),
    )


def _line(row: Sequence[str]) -> str:
    return f"| {' | '.join(row)} |"
