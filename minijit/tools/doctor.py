"""`python -m minijit doctor`: what is installed and works, and the line that mends what does not.

All findings are collected first, as data, and printed after; no probe stops another.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Literal

from minijit.tools.machine import Driver, available_threads, find_driver

Status = Literal["ok", "missing", "broken"]

_REQUIRED = ("numpy", "numba", "llvmlite", "optree", "networkx", "platformdirs")
_VECTOR_FEATURES = ("sse4.2", "avx", "avx2", "fma", "f16c", "avx512f", "avx512bf16", "neon", "sve")
_REINSTALL = "pip install --force-reinstall minijit"
WITHOUT_GPU = (
    "without a GPU, compute with device='cpu', or run the CUDA kernels with device='cuda-emulated' "
    "(make gpu DEVICE=cuda-emulated checks them)"
)
"""What to do on a machine that has no GPU."""
_INSTALL_DRIVER = "install NVIDIA's driver from https://www.nvidia.com/drivers (pip cannot)"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        name: What it is.
        status: `ok`, `missing` (not there) or `broken` (there, and does not work).
        detail: A version, a path, or the error.
        remedy: The command that mends it; empty when nothing has to be done.
    """

    name: str
    status: Status
    detail: str
    remedy: str = ""


def cpu_findings() -> tuple[Finding, ...]:
    """Look at everything the CPU path needs."""
    return (
        _python(),
        *(_package(name, name, "pip install minijit") for name in _REQUIRED),
        _processor(),
        _kernel(),
    )


def driver_finding(driver: Driver | str) -> Finding:
    """Judge what `find_driver` returned."""
    if isinstance(driver, str):
        return Finding("driver", "missing", driver, _INSTALL_DRIVER)
    if not driver.gpus:
        return Finding("driver", "missing", f"CUDA {driver.cuda}, no GPU visible", _gpu_remedy())
    if driver.version < 12000:
        return Finding("driver", "broken", f"CUDA {driver.cuda} is older than 12", _INSTALL_DRIVER)
    gpus = ", ".join(
        f"{gpu.name} (compute capability {gpu.compute_capability[0]}.{gpu.compute_capability[1]})"
        for gpu in driver.gpus
    )
    return Finding("driver", "ok", f"CUDA {driver.cuda}, {gpus}")


def cuda_findings(driver: Driver | str) -> tuple[Finding, ...]:
    """Look at everything the CUDA path needs; `driver` is what `find_driver` returned."""
    old = isinstance(driver, Driver) and driver.version < 13000
    major = 12 if old else 13
    remedy = f'pip install "minijit[cuda{major}]"'
    return (
        driver_finding(driver),
        _package("cupy", _cupy_distribution(major), remedy),
        *_compiler(remedy),
        _library("cuBLAS", "cublas", remedy),
    )


def emulated_findings() -> tuple[Finding, ...]:
    """Look at everything the emulated CUDA device needs: what compiles, no driver and no CuPy."""
    return _compiler('pip install "minijit[cuda13]"')


def _compiler(remedy: str) -> tuple[Finding, ...]:
    return (
        _numba_cuda(remedy),
        _package("cuda-core", "cuda-core", remedy),
        _library("NVVM", "nvvm", remedy),
        _library("nvJitLink", "nvJitLink", remedy),
    )


def report(title: str, findings: Sequence[Finding]) -> str:
    """Return the findings as text, a line each, the remedy on a line of its own."""
    lines = [title]
    for finding in findings:
        lines.append(f"  {finding.status:8s}{finding.name:14s}{finding.detail}")
        if finding.remedy:
            lines.append(f"{'':10s}-> {finding.remedy}")
    return "\n".join(lines)


def all_ok(findings: Sequence[Finding]) -> bool:
    """Whether nothing is missing or broken."""
    return all(finding.status == "ok" for finding in findings)


def main(argv: Sequence[str]) -> int:
    """Print the report; 0 when the device asked for (the CPU unless told) works."""
    parser = argparse.ArgumentParser(prog="python -m minijit doctor", description=__doc__)
    parser.add_argument(
        "--device",
        choices=("cpu", "driver", "cuda", "cuda-emulated"),
        default="cpu",
        help="what must work for exit status 0: the CPU path; also a GPU driver; also CUDA whole; "
        "or the CPU path and the compiler for CUDA",
    )
    wanted = parser.parse_args(argv).device
    driver = find_driver()
    cpu, cuda = cpu_findings(), cuda_findings(driver)
    print(report("CPU", cpu))
    print(report("CUDA (optional)" if wanted == "cpu" else "CUDA", cuda))
    needed = {
        "cpu": cpu,
        "driver": (*cpu, driver_finding(driver)),
        "cuda": (*cpu, *cuda),
        "cuda-emulated": (*cpu, *emulated_findings()),
    }[wanted]
    failed = [finding.name for finding in needed if finding.status != "ok"]
    print(f"{wanted}: {'not ready: ' + ', '.join(failed) if failed else 'ready'}")
    if "driver" in failed:
        print(WITHOUT_GPU)
    return 1 if failed else 0


def _python() -> Finding:
    return Finding("python", "ok", f"{platform.python_version()} ({sys.executable})")


def _package(name: str, distribution: str, remedy: str) -> Finding:
    """Look up a version without importing, which can take a second or fail for other reasons."""
    try:
        return Finding(name, "ok", f"{metadata.version(distribution)} ({distribution})")
    except metadata.PackageNotFoundError:
        return Finding(name, "missing", "not installed", remedy)


def _numba_cuda(remedy: str) -> Finding:
    """Its wheel replaces `numba.cuda` by a .pth file, which only a real site-packages runs."""
    found = _package("numba-cuda", "numba-cuda", remedy)
    if found.status != "ok":
        return found
    try:
        spec = importlib.util.find_spec("numba.cuda")
    except ImportError as error:
        return Finding("numba-cuda", "broken", _first_line(error), remedy)
    if spec is None or "numba_cuda" not in (spec.origin or ""):
        detail = f"{found.detail}, but numba.cuda is Numba's own: its .pth file was not read"
        return Finding("numba-cuda", "broken", detail, f"{remedy}, not by PYTHONPATH")
    return found


def _cupy_distribution(major: int) -> str:
    """CuPy's wheels are named for their CUDA version; the one for this driver is preferred."""
    names = (f"cupy-cuda{major}x", "cupy-cuda13x", "cupy-cuda12x", "cupy")
    installed = {found.name.lower() for found in metadata.distributions() if found.name}
    return next((name for name in names if name in installed), names[0])


def _library(name: str, library: str, remedy: str) -> Finding:
    try:
        pathfinder = importlib.import_module("cuda.pathfinder")
        path = pathfinder.load_nvidia_dynamic_lib(library).abs_path
    # The loader's own message lists every folder it looked in; its class says enough.
    except Exception as error:
        return Finding(name, "missing", f"cannot be loaded ({type(error).__name__})", remedy)
    return Finding(name, "ok", str(path))


def _processor() -> Finding:
    try:
        binding = importlib.import_module("llvmlite.binding")
        model, features = binding.get_host_cpu_name(), binding.get_host_cpu_features()
    except Exception as error:
        return Finding("processor", "broken", _first_line(error), _REINSTALL)
    found = " ".join(name for name in _VECTOR_FEATURES if features.get(name))
    return Finding(
        "processor", "ok", f"{model}, {available_threads()} threads, {found or 'no vector unit'}"
    )


def _kernel() -> Finding:
    """Trace, compile and run the smallest program, through the public door."""
    try:
        numpy = importlib.import_module("numpy")
        minijit = importlib.import_module("minijit")
        x = numpy.arange(8, dtype=numpy.float32)
        started = time.perf_counter()
        got = minijit.jit(lambda v: v * 2 + 1)(x)
        seconds = time.perf_counter() - started
        right = numpy.array_equal(got, x * 2 + 1)
    except Exception as error:
        return Finding("CPU kernel", "broken", _first_line(error), _REINSTALL)
    if not right:
        return Finding("CPU kernel", "broken", f"wrong result {got}", _REINSTALL)
    return Finding("CPU kernel", "ok", f"compiled and run in {seconds * 1e3:.0f} ms")


def _gpu_remedy() -> str:
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
    return "unset CUDA_VISIBLE_DEVICES" if hidden is not None else "nvidia-smi"


def _first_line(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0] if text else ''}"[:200]
