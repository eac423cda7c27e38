"""The benchmark of a GPU runs to its end, on the emulated device in the place of card and CuPy."""

from __future__ import annotations

import json
import types
import weakref
from pathlib import Path
from typing import Any

import pytest

import minijit
from minijit.tools import bench, doctor, timing
from minijit.tools.systems import systems
from minijit.tools.target import Target
from minijit.tools.workloads import find, row_sweep
from tests.gpu.stand_in import emulated_cuda


def cuda_target() -> Target:
    """What a GPU is, at sizes for the emulator."""
    workloads = (find("scale and shift 8"), find("softmax 4x8"), *row_sweep(1000, (125,)))
    bandwidth = timing.device_copy_bandwidth(megabytes=1)
    return Target("cuda", "a card", "", bandwidth, 100, systems("cuda"), workloads)


def test_benchmark_runs_to_its_end(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    minijit.clear_caches()
    with emulated_cuda():
        monkeypatch.setattr(bench, "_is_ready", lambda device: True)
        monkeypatch.setattr(bench, "import_milliseconds", lambda: 0.0)
        monkeypatch.setattr(bench, "target", lambda device: cuda_target())
        with minijit.default_device("cuda"):
            status = bench.main(["--device", "cuda", "--seconds", "0", "--out", str(tmp_path)])
    minijit.clear_caches()
    assert status == 0
    shown = capsys.readouterr().out
    assert "softmax 4x8" in shown
    assert "cupy/minijit, all: " in shown
    data = json.loads((tmp_path / "bench.json").read_text())
    names = ["scale and shift 8", "softmax 4x8", "softmax 8x125", "layernorm 8x125"]
    assert [row["name"] for row in data["rows"]] == [*names, "rmsnorm 8x125"]
    for row in data["rows"]:
        assert min(row["milliseconds"][name] for name in ("cupy", "minijit")) > 0
        assert row["error"]["minijit"] < 1e-5
        assert row["failed"] == {"cupy.fuse": "NotImplementedError: no fusion here"}
    assert data["versions"]["cupy"] == "stand-in"
    assert set(data["call_microseconds"]) == {"cupy", "minijit"}
    assert set(data["wait_microseconds"]) == {"cupy", "minijit"}
    # They are installed here for the CPU, or not at all.
    assert {"jax", "torch"} == set(data["absent"])
    page = (tmp_path / "bench.md").read_text()
    assert "| workload | cupy ms | cupy.fuse ms | minijit ms |" in page
    assert "- softmax 4x8, cupy.fuse: NotImplementedError: no fusion here" in page
    assert 'data-name="cupy"' in (tmp_path / "bench.svg").read_text()


def test_inputs_take_turns_and_results_are_kept() -> None:
    seen: list[int] = []
    made: list[weakref.ref[Any]] = []

    class Result:
        pass

    def function(number: int) -> Result:
        seen.append(number)
        result = Result()
        made.append(weakref.ref(result))
        return result

    rotated = timing.repeated(function, [1], id, [2], [3])
    rotated(4)
    rotated()
    assert seen == [1, 2, 3, 1, 2]
    assert [ref() is not None for ref in made] == [False, False, False, True, True]
    timing.repeated(function, [1], id)(2)
    assert [ref() for ref in made[5:]] == [None, None]


@pytest.mark.parametrize(
    ("cache", "size", "copies"), [(0, 100, 1), (100, 100, 4), (100, 399, 2), (10**9, 32, 64)]
)
def test_copies_are_larger_than_the_cache(cache: int, size: int, copies: int) -> None:
    assert timing.copies_beyond(cache, size) == copies


def test_without_a_driver_nothing_is_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench, "find_driver", lambda: "no NVIDIA driver")
    assert bench.main(["--device", "cuda"]) == 1
    told = capsys.readouterr().err
    assert "no benchmark, cuda is not ready" in told
    assert "device='cpu'" in told
    assert "device='cuda-emulated'" in told


@pytest.mark.parametrize(("origin", "status"), [("numba_cuda", "ok"), ("numba", "broken")])
def test_doctor_sees_which_numba_cuda_is_imported(
    monkeypatch: pytest.MonkeyPatch, origin: str, status: str
) -> None:
    spec = types.SimpleNamespace(origin=f"site-packages/{origin}/cuda/__init__.py")
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: spec)
    found = {finding.name: finding for finding in doctor.cuda_findings("no NVIDIA driver")}
    assert found["numba-cuda"].status == status
    assert ("PYTHONPATH" in found["numba-cuda"].remedy) == (status == "broken")
