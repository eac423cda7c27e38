"""`import minijit` is light: no compiler, no GPU library, no thread, no file, no process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HEAVY = ("numba", "llvmlite", "cupy", "cupy_backends", "cuda", "networkx", "scipy", "jax")
HEAVY += ("platformdirs",)  # of the disk cache, which the first compile opens

# NumPy first: it starts threads of its own (OpenBLAS), and every user of minijit has it.
PROBE = """
import json, os, sys, threading
import numpy

def tasks():
    return len(os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else 0

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC
CHANGES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.truncate")
STARTS = ("subprocess.Popen", "os.fork", "os.posix_spawn", "os.system", "socket.__new__")
touched, started, libraries = [], [], []

def watch(event, arguments):
    if event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITING:
        touched.append(str(arguments[0]))
    elif event in CHANGES:
        touched.append(f"{event} {arguments[0]}")
    elif event in STARTS:
        started.append(event)
    elif event == "ctypes.dlopen":
        libraries.append(str(arguments[0]))

before = tasks(), threading.active_count(), set(sys.modules)
sys.addaudithook(watch)
import minijit
after = tasks(), threading.active_count(), set(sys.modules)
maps = open("/proc/self/maps").read() if os.path.exists("/proc/self/maps") else ""
print(json.dumps({
    "modules": sorted(after[2] - before[2]),
    "threads": [after[0] - before[0], after[1] - before[1]],
    "touched": touched,
    "started": started,
    "libraries": libraries,
    "driver_mapped": "libcuda.so" in maps,
}))
"""


@pytest.fixture(scope="module")
def probe() -> dict[str, Any]:
    """What a fresh process saw while it imported minijit; `-B` keeps Python's own files out."""
    done = subprocess.run(
        [sys.executable, "-B", "-c", PROBE],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).resolve().parents[1],
    )
    assert done.returncode == 0, done.stderr
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen


def test_minijit_itself_was_imported(probe: dict[str, Any]) -> None:
    assert "minijit.api.jit" in probe["modules"]


@pytest.mark.parametrize("package", HEAVY)
def test_heavy_package_stays_out(probe: dict[str, Any], package: str) -> None:
    loaded = [m for m in probe["modules"] if m == package or m.startswith(package + ".")]
    assert not loaded


def test_device_code_stays_out(probe: dict[str, Any]) -> None:
    assert not [m for m in probe["modules"] if m.split(".")[0] == "kernels"]
    assert not [m for m in probe["modules"] if m.startswith("minijit.kernels.")]


def test_the_compiler_stays_out(probe: dict[str, Any]) -> None:
    assert not [m for m in probe["modules"] if m.startswith("minijit.lowering.")]


def test_no_thread_starts(probe: dict[str, Any]) -> None:
    assert probe["threads"] == [0, 0]


def test_no_file_is_written_or_made(probe: dict[str, Any]) -> None:
    assert probe["touched"] == []


def test_no_process_or_connection_starts(probe: dict[str, Any]) -> None:
    assert probe["started"] == []


def test_no_gpu_driver_is_opened(probe: dict[str, Any]) -> None:
    assert not [name for name in probe["libraries"] if "cuda" in name.lower()]
    assert not probe["driver_mapped"]


def test_the_operations_stay_out(probe: dict[str, Any]) -> None:
    assert not [m for m in probe["modules"] if m.startswith(("minijit.ops.", "minijit.numpy"))]
