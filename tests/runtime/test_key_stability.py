"""Keys on the disk: equal in every process for equal programs, different for others."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minijit
from minijit.backends.base import Backend
from minijit.backends.cuda.backend import CudaBackend
from minijit.backends.registry import get_backend
from minijit.lowering.demand import Program
from minijit.runtime import plans
from minijit.runtime.binaries import key_of
from minijit.runtime.captured import Captured
from minijit.runtime.pipeline import lower, optimize, plan_partition
from minijit.runtime.placement import Placed
from minijit.runtime.plans import Wanted
from tests.sampling import DEEP
from tests.transforms.random_bodies import random_loop_program
from tests.transforms.random_programs import random_program

ROOT = Path(__file__).parents[2]
PROGRAMS, PROCESSES = (250, 20) if DEEP else (25, 3)


def plan_key(function: Callable[..., Any], args: Any, backend: Backend) -> str:
    """Name of the key of a program's plan."""
    jaxpr = minijit.make_jaxpr(function)(*args)
    inputs, consts = (Placed.on(get_backend("cpu"), values) for values in (args, jaxpr.consts))
    key = plans._key_of(Wanted(jaxpr, inputs.layouts, backend, Captured.of(jaxpr), consts))
    assert key is not None
    return key.name


def keys(function: Callable[..., Any], args: Any, backend: Backend) -> Iterator[str]:
    """Names of the keys of all kernels of a program; nothing is compiled."""
    inputs = Placed.on(get_backend("cpu"), args)
    jaxpr = optimize(minijit.make_jaxpr(function)(*args))
    layouts = dict(zip(jaxpr.invars, inputs.layouts, strict=True))
    layouts |= dict(
        zip(jaxpr.constvars, Placed.on(get_backend("cpu"), jaxpr.consts).layouts, strict=True)
    )
    for step in lower(Program(jaxpr), plan_partition(jaxpr, backend), layouts, backend):
        for lowered in step:
            key = key_of(backend, backend.emit(lowered.kernel))
            assert key is not None
            yield key.name


def main() -> None:
    """Write the keys of many programs, a line each."""
    for backend in (get_backend("cpu"), CudaBackend(cc=(9, 0))):
        for seed in range(PROGRAMS):
            for make in (random_program, random_loop_program):
                program = make(seed)
                names = [plan_key(*program, backend), *keys(*program, backend)]
                sys.stdout.write(" ".join(names) + "\n")


def test_other_processes_make_the_same_keys(tmp_path: Path) -> None:
    outputs = set()
    for number in range(PROCESSES):
        folder = tmp_path / f"folder {number}"
        folder.mkdir()
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PYTHONHASHSEED": str(number * 7919),
            "MINIJIT_CACHE": "0",
        }
        command = [
            sys.executable,
            "-c",
            "from tests.runtime.test_key_stability import main; main()",
        ]
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=True
        )
        outputs.add(done.stdout)
    assert len(outputs) == 1
    lines = outputs.pop().splitlines()
    assert len(lines) == 4 * PROGRAMS
    assert len({name for line in lines for name in line.split()}) > PROGRAMS


NEAR: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "constant": (lambda x: x * 2.5, lambda x: x * 2.25),
    "sign of zero": (lambda x: x + 0.0, lambda x: x + -0.0),
    "operation": (lambda x: x + 2, lambda x: x - 2),
    "order": (lambda x: 2 - x, lambda x: x - 2),
    "axis": (lambda x: x.sum(0), lambda x: x.sum(1)),
    "reduction": (lambda x: x.max(0), lambda x: x.min(0)),
    "dtype": (lambda x: (x * 2).astype(np.float64), lambda x: (x * 2).astype(np.float16)),
    "direction": (lambda x: x[::-1] * 2, lambda x: x * 2),
    "offset": (lambda x: x[1:] * 2, lambda x: x[:-1] * 2),
    "branch": (lambda x: np.where(x > 0, x, 1), lambda x: np.where(x >= 0, x, 1)),
}


@pytest.mark.parametrize("name", NEAR)
@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_programs_that_differ_a_little_have_other_keys(name: str, target: str) -> None:
    backend = get_backend("cpu") if target == "cpu" else CudaBackend(cc=(9, 0))
    x = np.ones((8, 8), np.float32)
    one, other = (list(keys(function, [x], backend)) for function in NEAR[name])
    assert one
    assert one != other
    plan, another = (plan_key(function, [x], backend) for function in NEAR[name])
    assert plan != another


def near(count: int) -> Iterator[tuple[Callable[[Any], Any], Any]]:
    """Programs that differ from each other in one constant, dtype or layout."""
    dtypes = (np.float16, np.float32, np.float64, np.int16, np.int32, np.int64)
    for number in range(count):
        constant = np.float32(1.0 + number * 2.0**-20)
        yield lambda x, c=constant: x * c, np.ones(40, np.float32)
    for dtype in dtypes:
        for x in (np.ones(40, dtype), np.ones((40, 3), dtype)[:, 0], np.ones(40, dtype)[::-1]):
            yield lambda x: x + x, x


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_no_two_of_many_near_programs_share_a_key(target: str) -> None:
    backend = get_backend("cpu") if target == "cpu" else CudaBackend(cc=(9, 0))
    programs = list(near(500))
    assert len(programs) > 500
    found = [" ".join(keys(function, [x], backend)) for function, x in programs]
    assert len(set(found)) == len(found)
    found = [plan_key(function, [x], backend) for function, x in programs]
    assert len(set(found)) == len(found)
