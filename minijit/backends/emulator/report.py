"""What launches cost as a table to read."""

from __future__ import annotations

from collections.abc import Mapping

from minijit.backends.emulator.counters import Counters

__all__ = ["report"]

_HEADS = (
    "kernel", "instructions", "lanes used", "sectors", "per request", "per launch",
    "conflicts", "divergent", "barriers", "atomics",
)  # fmt: skip


def report(kernels: Mapping[str, Counters]) -> str:
    """Return a line for each kernel.

    ``lanes used`` is the share of a warp's threads that take part in an instruction; ``per
    request`` and ``per launch`` are sectors over the fewest that the requests of the warps, or the
    launch as a whole, could do with; ``conflicts`` are turns lost in each access to shared memory;
    ``divergent`` is the share of branches at which a warp splits.
    """
    rows = [_HEADS, *(_row(name, counters) for name, counters in kernels.items())]
    widths = [max(len(row[place]) for row in rows) for place in range(len(_HEADS))]
    lines = []
    for row in rows:
        first, *others = (
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        lines.append("  ".join([first, *others]).rstrip())
    return "\n".join(lines)


def _row(name: str, counters: Counters) -> tuple[str, ...]:
    return (
        name,
        f"{counters.thread_instructions:,}",
        _share(counters.thread_instructions, 32 * counters.warp_instructions),
        f"{counters.sectors:,}",
        _ratio(counters.sectors, counters.fewest_sectors),
        _ratio(counters.sectors, counters.distinct_sectors),
        _ratio(counters.bank_conflicts, counters.shared_requests),
        _share(counters.divergent_branches, counters.branches),
        f"{counters.barriers:,}",
        f"{counters.atomics:,}",
    )


def _ratio(part: int, whole: int) -> str:
    return f"{part / whole:.2f}" if whole else "-"


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else "-"
