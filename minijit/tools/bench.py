"""`python -m minijit bench`: every workload checked, then timed beside NumPy or CuPy, and peers.

All figures of a run are taken in that run, in turn; ratios between runs mean nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import faulthandler
import math
import platform
import statistics
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import minijit
from minijit.tools.budget import Budget
from minijit.tools.comparison import Row, measure, small_call
from minijit.tools.doctor import WITHOUT_GPU, all_ok, cuda_findings, emulated_findings, report
from minijit.tools.machine import find_driver
from minijit.tools.plot import as_svg
from minijit.tools.results import Results, as_json, as_markdown, versions
from minijit.tools.systems import DEVICES, Device
from minijit.tools.target import Target, target

_IMPORT_PROBE = """
import time, numpy
start = time.perf_counter()
import minijit
print(time.perf_counter() - start)
"""


def import_milliseconds(repeats: int = 5) -> float:
    """Return the median time of `import minijit` in a fresh process that has imported NumPy."""
    command = [sys.executable, "-c", _IMPORT_PROBE]
    times = [
        float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        for _ in range(repeats)
    ]
    return statistics.median(times) * 1e3


def geometric_mean(values: Iterable[float]) -> float:
    """Return the geometric mean; NaN when there is nothing to average."""
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan


def main(argv: Sequence[str]) -> int:
    """Run, print, and write files when asked; 1 when minijit failed a workload or has no device."""
    parser = argparse.ArgumentParser(prog="python -m minijit bench", description=__doc__)
    parser.add_argument("--device", choices=DEVICES, default="cpu")
    parser.add_argument("--json", type=Path, help="also write everything to this file")
    parser.add_argument("--out", type=Path, help="write bench.json, .md and .svg into this folder")
    parser.add_argument("--only", default="", help="workloads whose name contains this")
    parser.add_argument(
        "--seconds", type=float, default=0.5, help="at most, for each workload and system"
    )
    parser.add_argument(
        "--budget", type=float, default=math.inf, help="seconds for all workloads together"
    )
    options = parser.parse_args(argv)
    if not _is_ready(options.device):
        return 1
    emulated = options.device == "cuda-emulated"
    # Elsewhere the arrays decide, as they do for most users.
    placed = minijit.default_device(options.device) if emulated else contextlib.nullcontext()
    with _ended_after(options.budget), placed:
        return _run(target(options.device), options)


def _run(measured: Target, options: argparse.Namespace) -> int:
    compared = measured.compared.systems
    names = [system.name for system in compared]
    found = {system.name: system.version for system in compared}
    print(f"{_pairs(found, '{}')}  python {platform.python_version()}")
    ceiling = measured.bandwidth
    print(measured.machine + (f", copy ceiling {ceiling / 1e9:.1f} GB/s" if ceiling else ""))
    print("".join(f"{name}: {why}\n" for name, why in measured.compared.absent.items()), end="")
    if measured.note:
        print(measured.note)
    print(f"import minijit, after NumPy: {import_milliseconds():.0f} ms")
    wanted = [workload for workload in measured.in_turn() if options.only in workload.name]
    budget = Budget(options.budget, len(wanted), options.seconds)
    # The first compile of a process imports Numba: that is no property of a workload.
    small_call(compared, 0.0)
    results = Results(
        versions={**versions(), **found},
        device=measured.device,
        machine=measured.machine,
        note=measured.note,
        copy_bytes_per_second=ceiling,
        call_microseconds=small_call(compared, min(options.seconds, 0.5)),
        wait_microseconds=small_call(compared, min(options.seconds, 0.5), each=True),
        rows=(),
        absent=measured.compared.absent,
        not_run=tuple(workload.name for workload in wanted),
    )
    print(_heading(names))
    rows: dict[str, Row] = {}
    for workload in wanted:
        if not budget.start():
            break
        row = measure(workload, compared, budget, measured.cache, measured.device == "cpu")
        print(_line(row, names, measured), flush=True)
        rows[row.name] = row
        results = dataclasses.replace(
            results,
            rows=tuple(rows[w.name] for w in measured.workloads if w.name in rows),
            not_run=tuple(w.name for w in wanted if w.name not in rows),
        )
        # After each: what comes next may end the process.
        _write(results, names, options)
    print("\n".join(_summary(results.rows, [] if measured.note else names[:-1], ceiling)))
    for label, times in (
        ("cached call, two arrays of 8", results.call_microseconds),
        ("the same, each waited for", results.wait_microseconds),
    ):
        print(f"{label}: {_pairs(times, '{:.2f} us')}")
    print("".join(f"no time was left for {name}\n" for name in results.not_run), end="")
    if measured.note:
        print(measured.note)
    return 1 if not rows or any("minijit" in row.failed for row in rows.values()) else 0


def _write(results: Results, names: Sequence[str], options: argparse.Namespace) -> None:
    if options.json:
        options.json.write_text(as_json(results))
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "bench.json").write_text(as_json(results))
        (options.out / "bench.md").write_text(as_markdown(results, names))
        (options.out / "bench.svg").write_text(as_svg(results, names))


@contextlib.contextmanager
def _ended_after(budget: float) -> Iterator[None]:
    """End a process that hangs where no exception reaches it, and show where that is."""
    if math.isinf(budget):
        yield
        return
    faulthandler.dump_traceback_later(1.5 * budget + 60, exit=True)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


def _is_ready(device: Device) -> bool:
    if device == "cpu":
        return True
    findings = emulated_findings() if device == "cuda-emulated" else cuda_findings(find_driver())
    if not all_ok(findings):
        print(report(f"no benchmark, {device} is not ready:", findings), file=sys.stderr)
        print(WITHOUT_GPU if device == "cuda" else "cpu needs none of it", file=sys.stderr)
    return all_ok(findings)


def _heading(names: Sequence[str]) -> str:
    columns = "".join(f"{name + ' ms':>14s}{'first ms':>10s}" for name in names)
    return f"{'workload':27s}{columns}{'times faster than':>20s}  ceiling"


def _line(row: Row, names: Sequence[str], measured: Target) -> str:
    line = f"{row.name:27s}"
    for name in names:
        if name in row.milliseconds:
            line += f"{row.milliseconds[name]:14.4f}{row.first_milliseconds[name]:10.1f}"
        else:
            line += f"{'-':>14s}{'-':>10s}"
    if not measured.note:
        ratios = {name: row.ratio(name) for name in names if name != "minijit"}
        line += "   " + _pairs({k: v for k, v in ratios.items() if v is not None}, "{:.2f}x")
    rate = row.rate("minijit")
    if rate is not None and measured.bandwidth is not None:
        line += f"  {rate / measured.bandwidth:.0%}"
    why_not = {**row.failed, **{name: f"not tried, {why}" for name, why in row.skipped.items()}}
    return line + "".join(f"\n    {name}: {why}" for name, why in why_not.items())


def _summary(rows: Sequence[Row], others: Sequence[str], ceiling: float | None) -> list[str]:
    lines: list[str] = []
    fused = [row for row in rows if row.kind in ("elementwise", "row", "full")]
    for other in others:
        lines += _comparison(f"{other}/minijit, elementwise, row and full", fused, other)
        lines += _comparison(f"{other}/minijit, all", rows, other)
    scaled = {row.name: row.scaling for row in rows if row.scaling is not None}
    lines += _ratios("minijit, one thread/all", scaled)
    computing = {row.name for row in rows if ceiling and (row.rate("minijit") or 0) < ceiling / 2}
    computed = {name: factor for name, factor in scaled.items() if name in computing}
    lines += _ratios("the same, below half the speed of a copy", computed)
    timed = [row for row in rows if "minijit" in row.first_milliseconds]
    if timed:
        slowest, name = max((row.first_milliseconds["minijit"], row.name) for row in timed)
        lines.append(f"slowest first call of minijit: {slowest:.0f} ms ({name})")
    return lines


def _comparison(title: str, rows: Sequence[Row], other: str) -> list[str]:
    ratios = {row.name: ratio for row in rows if (ratio := row.ratio(other)) is not None}
    return _ratios(title, ratios)


def _ratios(title: str, ratios: Mapping[str, float]) -> list[str]:
    if not ratios:
        return []
    mean, worst = geometric_mean(ratios.values()), min(ratios, key=ratios.__getitem__)
    return [f"{title}: {mean:.2f}x over {len(ratios)}, worst {ratios[worst]:.2f}x ({worst})"]


def _pairs(values: Mapping[str, object], form: str) -> str:
    return "  ".join(f"{name} {form.format(value)}" for name, value in values.items())
