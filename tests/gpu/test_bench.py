"""The benchmark of a GPU runs to its end, with the stand-in in the place of card and CuPy."""

from __future__ import annotations

import json
import types
import weakref
from pathlib import Path
from typing import Any

import pytest

import minijit
from minijit.tools import bench, doctor, timing
from minijit.tools.workloads import find
from tests.gpu.stand_in import stand_in, stand_in_cupy


def test_benchmark_runs_to_its_end(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    minijit.clear_caches()
    with stand_in() as device, stand_in_cupy(device):
        monkeypatch.setattr(bench, "_cuda_is_ready", lambda: True)
        monkeypatch.setattr(bench, "import_milliseconds", lambda: 0.0)
        monkeypatch.setattr(bench, "ROW_SWEEP", (find("softmax 4x8"),))
        monkeypatch.setattr(bench, "WORKLOADS", (find("scale and shift 8"),))
        monkeypatch.setattr(
            bench, "device_copy_bandwidth", lambda: timing.device_copy_bandwidth(megabytes=1)
        )
        with minijit.default_device("cuda"):
            status = bench.main(["--device", "cuda", "--seconds", "0", "--out", str(tmp_path)])
    minijit.clear_caches()
    assert status == 0
    assert "softmax 4x8" in capsys.readouterr().out
    data = json.loads((tmp_path / "bench.json").read_text())
    assert [row["name"] for row in data["rows"]] == ["scale and shift 8", "softmax 4x8"]
    for row in data["rows"]:
        assert min(row["milliseconds"][name] for name in ("cupy", "minijit")) > 0
        assert row["error"]["minijit"] < 1e-5
        assert row["failed"] == {"cupy.fuse": "NotImplementedError: no fusion here"}
    assert data["versions"]["cupy"] == "stand-in"
    assert set(data["small_call_microseconds"]) == {"cupy", "minijit"}
    page = (tmp_path / "bench.md").read_text()
    assert "| workload | cupy ms | cupy.fuse ms | minijit ms |" in page
    assert "- softmax 4x8, cupy.fuse: NotImplementedError: no fusion here" in page


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
    assert "no benchmark, CUDA is not ready" in capsys.readouterr().err


@pytest.mark.parametrize(("origin", "status"), [("numba_cuda", "ok"), ("numba", "broken")])
def test_doctor_sees_which_numba_cuda_is_imported(
    monkeypatch: pytest.MonkeyPatch, origin: str, status: str
) -> None:
    spec = types.SimpleNamespace(origin=f"site-packages/{origin}/cuda/__init__.py")
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: spec)
    found = {finding.name: finding for finding in doctor.cuda_findings("no NVIDIA driver")}
    assert found["numba-cuda"].status == status
    assert ("PYTHONPATH" in found["numba-cuda"].remedy) == (status == "broken")
