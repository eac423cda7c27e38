"""`python -m minijit bench`: every workload checked, then timed beside NumPy (or CuPy) and JAX.

All figures of a run are taken in that run, in turn; ratios between runs mean nothing.
"""

from __future__ import annotations

import argparse
import math
import platform
import statistics
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from minijit.tools.comparison import Row, measure, small_call
from minijit.tools.doctor import all_ok, cuda_findings, report
from minijit.tools.machine import available_threads, find_driver
from minijit.tools.results import Results, as_json, as_markdown, versions
from minijit.tools.systems import systems
from minijit.tools.timing import device_cache, device_copy_bandwidth, host_copy_bandwidth
from minijit.tools.workloads import ROW_SWEEP, WORKLOADS

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
    """Run, print, and write JSON when asked; 1 when minijit failed a workload or has no device."""
    parser = argparse.ArgumentParser(prog="python -m minijit bench", description=__doc__)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--json", type=Path, help="also write everything to this file")
    parser.add_argument("--out", type=Path, help="write bench.json and bench.md into this folder")
    parser.add_argument("--only", default="", help="workloads whose name contains this")
    parser.add_argument("--seconds", type=float, default=0.5, help="for each workload and system")
    options = parser.parse_args(argv)
    on_gpu = options.device == "cuda"
    if on_gpu and not _cuda_is_ready():
        return 1
    compared = systems(options.device)
    names = [system.name for system in compared]
    found = {system.name: system.version for system in compared}
    bandwidth = device_copy_bandwidth() if on_gpu else host_copy_bandwidth()
    machine = _card() if on_gpu else f"{available_threads()} CPU threads"
    print(f"{_pairs(found, '{}')}  python {platform.python_version()}")
    print(f"{machine}, copy ceiling {bandwidth / 1e9:.1f} GB/s")
    print(f"import minijit, after NumPy: {import_milliseconds():.0f} ms")
    # The first compile of a process imports Numba: that is no property of a workload.
    small_call(compared, 0.0)
    print(_heading(names))
    rows = []
    for workload in (*WORKLOADS, *ROW_SWEEP) if on_gpu else WORKLOADS:
        if options.only in workload.name:
            cache = device_cache() if on_gpu else 0
            rows.append(measure(workload, compared, options.seconds, cache))
            print(_line(rows[-1], names, bandwidth), flush=True)
    microseconds = small_call(compared, options.seconds)
    print("\n".join(_summary(rows, names)))
    print(f"cached call, two arrays of 8: {_pairs(microseconds, '{:.2f} us')}")
    results = Results(
        {**versions(), **found}, options.device, machine, bandwidth, microseconds, tuple(rows)
    )
    if options.json:
        options.json.write_text(as_json(results))
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "bench.json").write_text(as_json(results))
        (options.out / "bench.md").write_text(as_markdown(results, names))
    return 1 if not rows or any("minijit" in row.failed for row in rows) else 0


def _card() -> str:
    driver = find_driver()
    if isinstance(driver, str) or not driver.gpus:
        return "no GPU"
    gpu = driver.gpus[0]
    return f"{gpu.name}, compute capability {'{}.{}'.format(*gpu.compute_capability)}"


def _cuda_is_ready() -> bool:
    findings = cuda_findings(find_driver())
    if not all_ok(findings):
        print(report("no benchmark, CUDA is not ready:", findings), file=sys.stderr)
    return all_ok(findings)


def _heading(names: Sequence[str]) -> str:
    columns = "".join(f"{name + ' ms':>14s}{'first ms':>10s}" for name in names)
    return f"{'workload':27s}{columns}{'times faster than':>20s}  ceiling"


def _line(row: Row, names: Sequence[str], bandwidth: float) -> str:
    line = f"{row.name:27s}"
    for name in names:
        if name in row.milliseconds:
            line += f"{row.milliseconds[name]:14.4f}{row.first_milliseconds[name]:10.1f}"
        else:
            line += f"{'-':>14s}{'-':>10s}"
    ratios = {name: row.ratio(name) for name in names if name != "minijit"}
    line += "   " + _pairs({k: v for k, v in ratios.items() if v is not None}, "{:.2f}x")
    share = row.share_of(bandwidth)
    if share is not None:
        line += f"  {share:.0%}"
    return line + "".join(f"\n    {name}: {why}" for name, why in row.failed.items())


def _summary(rows: Sequence[Row], names: Sequence[str]) -> list[str]:
    lines = []
    fused = [row for row in rows if row.kind in ("elementwise", "row", "full")]
    for other in names[:-1]:
        lines += _comparison(f"{other}/minijit, elementwise, row and full", fused, other)
        lines += _comparison(f"{other}/minijit, all", rows, other)
    timed = [row for row in rows if "minijit" in row.first_milliseconds]
    if timed:
        slowest, name = max((row.first_milliseconds["minijit"], row.name) for row in timed)
        lines.append(f"slowest first call of minijit: {slowest:.0f} ms ({name})")
    return lines


def _comparison(title: str, rows: Sequence[Row], other: str) -> list[str]:
    ratios = [(ratio, row.name) for row in rows if (ratio := row.ratio(other)) is not None]
    if not ratios:
        return []
    mean, (worst, name) = geometric_mean(ratio for ratio, _ in ratios), min(ratios)
    return [f"{title}: {mean:.2f}x over {len(ratios)}, worst {worst:.2f}x ({name})"]


def _pairs(values: Mapping[str, object], form: str) -> str:
    return "  ".join(f"{name} {form.format(value)}" for name, value in values.items())
