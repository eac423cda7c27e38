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
    """One run.

    Attributes:
        versions: Of everything that could make a difference.
        device: `cpu` or `cuda`.
        machine: The card, or the number of threads.
        copy_bytes_per_second: What a bare copy reads and writes.
        small_call_microseconds: One cached call on two arrays of eight, by system.
        rows: One for each workload.
    """

    versions: Mapping[str, str]
    device: str
    machine: str
    copy_bytes_per_second: float
    small_call_microseconds: Mapping[str, float]
    rows: tuple[Row, ...]


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
    """Return a page: the machine, a table with a row for each workload, and what failed."""
    rate = results.copy_bytes_per_second
    head = ["workload", *(f"{name} ms" for name in names), "first ms", "GB/s", "of a copy"]
    calls = ", ".join(f"{n} {us:.2f} us" for n, us in results.small_call_microseconds.items())
    lines = [
        f"# {results.machine}",
        "",
        f"A copy moves {rate / 1e9:.1f} GB/s. A cached call on two arrays of 8: {calls}.",
        "",
        _line(head),
        _line(["---", *["--:"] * (len(head) - 1)]),
        *(_line(_cells(row, names, rate)) for row in results.rows),
        "",
        "`first ms`, `GB/s` and `of a copy` are minijit's; bytes are inputs and outputs, once.",
        "",
        *(f"- {row.name}, {n}: {why}" for row in results.rows for n, why in row.failed.items()),
        "",
        ", ".join(f"{name} {version}" for name, version in results.versions.items()),
    ]
    return "\n".join(lines) + "\n"


def _cells(row: Row, names: Sequence[str], rate: float) -> list[str]:
    times = [f"{row.milliseconds[n]:.4f}" if n in row.milliseconds else "-" for n in names]
    share, first = row.share_of(rate), row.first_milliseconds.get("minijit")
    return [
        row.name,
        *times,
        "-" if first is None else f"{first:.0f}",
        "-" if share is None else f"{share * rate / 1e9:.0f}",
        "-" if share is None else f"{share:.0%}",
    ]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
