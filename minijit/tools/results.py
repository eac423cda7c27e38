"""What a run of bench found, as JSON for programs and as a Markdown table for people."""

from __future__ import annotations

import dataclasses
import json
import platform
from collections.abc import Mapping, Sequence
from importlib import metadata

from minijit.tools.comparison import Row
from minijit.tools.machine import available_threads, find_driver

_PACKAGES = ("numpy", "numba", "numba-cuda", "cuda-core", "llvmlite", "nvidia-nvjitlink")


@dataclasses.dataclass(frozen=True, slots=True)
class Results:
    """One run, or what there is of it so far.

    Attributes:
        versions: Of everything that could make a difference.
        device: `cpu`, `cuda` or `cuda-emulated`.
        machine: The card, or the number of threads.
        note: What a reader has to know before looking at a figure; empty for real devices.
        copy_bytes_per_second: What a bare copy reads and writes; None where that means nothing.
        call_microseconds: One of many cached calls on two arrays of eight in a row, by system.
        wait_microseconds: The same call when each result is waited for.
        rows: One for each workload.
        absent: Systems that cannot run here, with the reason.
        not_run: Workloads for which there was no time, or none yet.
    """

    versions: Mapping[str, str]
    device: str
    machine: str
    note: str
    copy_bytes_per_second: float | None
    call_microseconds: Mapping[str, float]
    wait_microseconds: Mapping[str, float]
    rows: tuple[Row, ...]
    absent: Mapping[str, str]
    not_run: tuple[str, ...]


def versions() -> dict[str, str]:
    """Return the versions of Python, of the packages that compile, and of the driver."""
    found = {"python": platform.python_version(), "platform": platform.platform()}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    driver = find_driver()
    if not isinstance(driver, str):
        found["driver"] = f"CUDA {driver.cuda}"
    return found


def as_json(results: Results) -> str:
    """Return everything as JSON."""
    data = {**dataclasses.asdict(results), "cpu_threads": available_threads()}
    return json.dumps(data, indent=1) + "\n"


def as_markdown(results: Results, names: Sequence[str]) -> str:
    """Return a page: the machine, tables with a row for each workload, and what failed."""
    rate = results.copy_bytes_per_second
    rows = results.rows
    lines = [f"# {results.machine}", ""]
    if results.note:
        lines += [f"**{results.note}**", ""]
    if rate is not None:
        lines += [f"A copy moves {rate / 1e9:.1f} GB/s.", ""]
    lines += [
        f"Microseconds of a cached call on two arrays of 8: {_calls(results.call_microseconds)}.",
        "",
        f"When each is waited for: {_calls(results.wait_microseconds)}.",
        "",
        "## Time of a call",
        "",
        *_table([f"{name} ms" for name in names], {row.name: _times(row, names) for row in rows}),
        "",
        "## Bytes a second",
        "",
        "Inputs and outputs count once; the last column is what minijit reaches of a copy.",
        "",
        *_table(
            [*(f"{name} GB/s" for name in names), "of a copy"],
            {row.name: _rates(row, names, rate) for row in rows if row.kind != "small"},
        ),
        "",
        *_scaling(rows),
        "## First call",
        "",
        "Milliseconds with everything that is traced, compiled and loaded.",
        "",
        *_table([f"{name} ms" for name in names], {row.name: _first(row, names) for row in rows}),
        "",
        "## What did not run",
        "",
        *(f"- {name}: {why}" for name, why in results.absent.items()),
        *(f"- {row.name}, {n}: {why}" for row in rows for n, why in row.failed.items()),
        *(f"- {row.name}, {n}: not tried, {why}" for row in rows for n, why in row.skipped.items()),
        *(f"- {name}: no time was left" for name in results.not_run),
        "",
        ", ".join(f"{name} {version}" for name, version in results.versions.items()),
    ]
    return "\n".join(lines) + "\n"


def _calls(microseconds: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {time:.2f}" for name, time in microseconds.items())


def _times(row: Row, names: Sequence[str]) -> list[str]:
    return [f"{row.milliseconds[n]:.4f}" if n in row.milliseconds else "-" for n in names]


def _first(row: Row, names: Sequence[str]) -> list[str]:
    first = row.first_milliseconds
    return [f"{first[n]:.0f}" if n in first else "-" for n in names]


def _rates(row: Row, names: Sequence[str], copy: float | None) -> list[str]:
    ours = row.rate("minijit")
    share = "-" if ours is None or copy is None else f"{ours / copy:.0%}"
    rates = (row.rate(name) for name in names)
    return [*("-" if rate is None else f"{rate / 1e9:.4g}" for rate in rates), share]


def _scaling(rows: Sequence[Row]) -> list[str]:
    factors = {row.name: [f"{row.scaling:.2f}"] for row in rows if row.scaling is not None}
    if not factors:
        return []
    text = "How many times faster minijit is on all threads than on one."
    return ["## Threads", "", text, "", *_table(["times faster"], factors), ""]


def _table(heads: Sequence[str], rows: Mapping[str, Sequence[str]]) -> list[str]:
    lines = [("workload", *heads), ("---", *["--:"] * len(heads))]
    lines += [(name, *cells) for name, cells in rows.items()]
    return [f"| {' | '.join(cells)} |" for cells in lines]
