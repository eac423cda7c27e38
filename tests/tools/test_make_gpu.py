"""`make gpu` runs to its end on the emulated device, and says what to do where there is no GPU."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from minijit.tools.machine import find_driver
from minijit.tools.sweeps import GPU, TINY, spread, sweeps
from minijit.tools.workloads import WORKLOADS

ROOT = Path(__file__).resolve().parents[2]
# What make and pytest hand down to what they run would change what is run here.
FOREIGN = ("MAKE", "MFLAGS", "PYTEST", "MINIJIT", "CUDA", "DEVICE", "BUDGET", "OUT", "ARGS")

needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def make(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(FOREIGN)}
    return subprocess.run(
        ["make", "gpu", f"PY={sys.executable}", *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@needs_make
def test_it_runs_to_its_end_on_the_emulated_device(tmp_path: Path) -> None:
    few = "ARGS=-n 0 tests/gpu/test_gpu.py -k 'cuda-emulated and (scalar or empty)'"
    done = make("DEVICE=cuda-emulated", f"OUT={tmp_path / 'results'}", few)
    assert done.returncode == 0, done.stdout + done.stderr
    for said in (
        "cuda-emulated: ready",
        "passed",
        "cupy: needs a real GPU",
        "say nothing about a GPU",
        "compute-sanitizer needs a GPU: skipped",
    ):
        assert said in done.stdout
    data = json.loads((tmp_path / "results" / "bench.json").read_text())
    assert [row["name"] for row in data["rows"]] == [w.name for w in sweeps(TINY)]
    assert (data["device"], data["not_run"]) == ("cuda-emulated", [])
    assert data["copy_bytes_per_second"] is None
    for row in data["rows"]:
        assert not row["failed"]
        assert set(row["milliseconds"]) == set(row["first_milliseconds"]) == {"numpy", "minijit"}
    page = (tmp_path / "results" / "bench.md").read_text()
    assert "say nothing about a GPU.**" in page
    assert "- torch: needs a real GPU" in page
    drawn = ET.parse(tmp_path / "results" / "bench.svg").getroot()
    assert "say nothing about a GPU" in "".join(drawn.itertext())


@needs_make
@pytest.mark.skipif(not isinstance(find_driver(), str), reason="there is a driver")
def test_without_a_driver_it_names_the_other_devices() -> None:
    done = make()
    assert done.returncode != 0
    assert "no NVIDIA driver" in done.stdout
    assert "device='cpu'" in done.stdout
    assert "make gpu DEVICE=cuda-emulated" in done.stdout


@needs_make
def test_other_devices_are_refused() -> None:
    done = make("DEVICE=cpu")
    assert done.returncode != 0
    assert "DEVICE is cuda or cuda-emulated, not cpu" in done.stderr


@pytest.mark.parametrize("workloads", [(*WORKLOADS, *sweeps(GPU)), sweeps(TINY)])
def test_names_are_unique_and_every_kind_is_there(workloads: tuple[object, ...]) -> None:
    names = [workload.name for workload in workloads]  # type: ignore[attr-defined]
    assert len(set(names)) == len(names)
    kinds = {workload.kind for workload in workloads}  # type: ignore[attr-defined]
    assert kinds == {"elementwise", "row", "full", "column", "library", "small"}


def test_every_kind_comes_early() -> None:
    workloads = sweeps(GPU)
    ordered = spread(workloads)
    assert sorted(w.name for w in ordered) == sorted(w.name for w in workloads)
    early = ordered[: len(ordered) // 3 + 1]
    assert {w.kind for w in early} == {w.kind for w in workloads}
