"""Loading and launching on the CPU: threads, forks, scalars, lifetimes, a process without Numba."""

from __future__ import annotations

import dataclasses
import gc
import json
import linecache
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from minijit.backends.array import Array
from minijit.backends.base import Launcher, load_source
from minijit.backends.cpu.backend import CpuBackend
from minijit.backends.cpu.compiler import compile_source
from minijit.backends.cpu.loader import load_object
from minijit.backends.cpu.native import THREADS_SUPPORTED
from minijit.backends.cpu.pool import available_threads, set_threads
from minijit.lowering.cpu_launch import Scratch
from minijit.lowering.kernel_ir import Kernel
from minijit.lowering.source import KernelSource
from tests.lowering.kernel_builder import Builder

BACKEND = CpuBackend()
SIZE = 1 << 20


def doubled(size: int = SIZE) -> Kernel:
    build = Builder((size,))
    x = build.load([1])
    build.store(build.map("add", x, x), [1])
    return build.kernel("doubled")


def load(kernel: Kernel) -> tuple[KernelSource, Launcher]:
    source = BACKEND.emit(kernel)
    return source, load_source(BACKEND, source, BACKEND.compile(source))


def scaled(dtype: Any) -> Launcher:
    build = Builder((4,))
    build.store(build.map("mul", build.load([1], dtype), build.read(dtype)), [1])
    return load(build.kernel())[1]


@pytest.mark.parametrize(
    ("dtype", "number", "error"),
    [
        (np.float32, "text", TypeError),
        (np.float64, 10**400, OverflowError),
        (np.int32, 2**70, OverflowError),
        (np.int64, 1.5, TypeError),
        (np.uint64, "text", TypeError),
    ],
)
def test_what_is_no_such_scalar_raises(dtype: Any, number: Any, error: type[Exception]) -> None:
    launch = scaled(dtype)
    x, y = np.ones(4, dtype), np.zeros(4, dtype)
    with pytest.raises(error):
        launch((x, y, number))
    assert not y.any()
    launch((x, y, -1 if dtype != np.uint64 else 1))
    assert y.tolist() == [dtype(-1 if dtype != np.uint64 else 1)] * 4


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
@pytest.mark.parametrize("sign", ["", "u"])
def test_integers_that_do_not_fit_raise(sign: str, dtype: str) -> None:
    name = sign + dtype
    launch, limits = scaled(np.dtype(name)), np.iinfo(name)
    x, y = np.ones(4, name), np.zeros(4, name)
    for number in (limits.min - 1, limits.max + 1, 2**70, -(2**70)):
        with pytest.raises(OverflowError) as caught:
            launch((x, y, number))
        assert str(caught.value) == f"Python integer {number} out of bounds for {name}"
        assert not y.any()
    for number in (limits.min, limits.max):
        launch((x, y, number))
        assert y.tolist() == [number] * 4


def test_messages_quote_the_source_which_does_not_outlive_the_compile() -> None:
    source = BACKEND.emit(doubled(8))
    compile_source(source)
    for wrong in ("v0 + v0[1]", "v0 + v0[2]"):  # two sources of one name
        text = source.text.replace("v0 + v0", wrong)
        with pytest.raises(Exception, match=re.escape(wrong)):
            compile_source(dataclasses.replace(source, text=text))
    assert not [name for name in linecache.cache if name.startswith("<minijit doubled")]


def test_two_first_compiles_leave_numba_as_it_is() -> None:
    code = """
import sys, threading
import numba.core.compiler
from minijit.backends.cpu.compiler import compile_source
from tests.backends.test_cpu_launch import BACKEND, doubled
sys.setswitchinterval(1e-6)
sources = [BACKEND.emit(doubled(size)) for size in (8, 16, 24)]
threads = [threading.Thread(target=compile_source, args=(source,)) for source in sources]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
from numba.np import arraymath, linalg
assert linalg.ensure_blas.__name__ == arraymath.ensure_blas.__name__ == "ensure_blas"
assert "scipy.linalg" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


@pytest.mark.parametrize(
    "dtype", [np.float16, np.float32, np.float64, np.int8, np.uint32, np.uint64]
)
def test_scalars_in_every_form(dtype: Any) -> None:
    launch = scaled(dtype)
    x, y = np.arange(4, dtype=dtype), np.zeros(4, dtype)
    for three in (3, True + 2, np.int8(3), dtype(3), np.array(3, dtype)):
        y[:] = 0
        launch((x, y, three))
        assert y.tolist() == (x * dtype(3)).tolist()


def test_the_launcher_keeps_its_code() -> None:
    launch = load(doubled())[1]
    gc.collect()
    x, y = np.arange(SIZE, dtype=np.float32), np.zeros(SIZE, np.float32)
    launch((x, y))
    assert (y == 2 * x).all()


def test_no_memory_for_scratch() -> None:
    source, _ = load(doubled())
    binary = compile_source(source)
    huge = dataclasses.replace(
        source.launch, scratch=(Scratch("huge", np.dtype(np.float64), 1 << 58),)
    )
    for work in (1, 10**9):
        greedy = dataclasses.replace(source, launch=dataclasses.replace(huge, work=work))
        launch = load_source(BACKEND, greedy, binary)
        with pytest.raises(MemoryError):
            launch((np.ones(SIZE, np.float32), np.ones(SIZE, np.float32)))


def test_concurrent_launches_from_many_threads() -> None:
    _, launch = load(doubled())
    set_threads(3)
    wrong: list[int] = []

    def work(number: int) -> None:
        x = np.full(SIZE, number, np.float32)
        for _ in range(20):
            y = np.zeros(SIZE, np.float32)
            launch((x, y))
            if not (y == 2 * number).all():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    set_threads(available_threads())
    assert not wrong


def test_threads_can_change_between_launches() -> None:
    _, launch = load(doubled())
    x, y = np.arange(SIZE, dtype=np.float32), np.zeros(SIZE, np.float32)
    for threads in (1, 4, 2, 1, 3):
        set_threads(threads)
        y[:] = 0
        launch((x, y))
        assert (y == 2 * x).all()
    set_threads(available_threads())


def test_threads_work_whether_awake_or_asleep() -> None:
    _, launch = load(doubled())
    x, y = np.arange(SIZE, dtype=np.float32), np.zeros(SIZE, np.float32)
    set_threads(3)
    for pause in (0, 0, 0.02, 0, 0.02):
        time.sleep(pause)
        y[:] = 0
        launch((x, y))
        assert (y == 2 * x).all()
    set_threads(available_threads())


@pytest.mark.skipif(not THREADS_SUPPORTED, reason="kernels run on one thread on this system")
def test_threads_without_work_fall_asleep() -> None:
    code = """
import os, time
import numpy as np
from minijit.backends.cpu.pool import set_threads
from tests.backends.test_cpu_launch import doubled, load
_, launch = load(doubled())
set_threads(4)
x = np.ones(1 << 20, np.float32)
before = set(os.listdir("/proc/self/task"))
launch((x, x.copy()))
workers = set(os.listdir("/proc/self/task")) - before
assert len(workers) == 3

def state(worker):
    with open(f"/proc/self/task/{worker}/stat") as file:
        return file.read().rpartition(")")[2].split()[0]

while any(state(worker) != "S" for worker in workers):  # for ever if one kept looking for work
    time.sleep(0.01)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


_FORK = """
import os, sys
import numpy as np
from minijit.backends.cpu.pool import set_threads
from tests.backends.test_cpu_launch import SIZE, doubled, load
_, launch = load(doubled())
set_threads(3)
tasks = lambda: set(os.listdir("/proc/self/task")) if sys.platform == "linux" else set()
before = tasks()
x, y = np.arange(SIZE, dtype=np.float32), np.zeros(SIZE, np.float32)
launch((x, y))
started = len(tasks() - before)
child = os.fork()
y[:] = 0
alone = tasks()
for _ in range(10):
    launch((x, y))
assert (y == 2 * x).all()
if child == 0:
    # Threads stay behind at a fork; the child's launches start as many of their own.
    more = len(tasks() - alone)
    os._exit(0 if more == started and (len(alone) == 1 or not started) else 1)
assert tasks() <= alone
_, status = os.waitpid(child, 0)
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_parallel_launches_on_both_sides_of_a_fork() -> None:
    subprocess.run([sys.executable, "-W", "ignore", "-c", _FORK], check=True, timeout=120)


_LOAD = """
import json
import sys
import numpy as np
from minijit.backends.cpu.launch import make_launcher
from minijit.backends.cpu.loader import load_object
from minijit.backends.cpu.native import launch_path
size, interface, path = int(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3]
code = load_object(open(path, "rb").read(), "doubled")
launch = make_launcher(interface, code, launch_path())
x, y = np.arange(size, dtype=np.float32), np.zeros(size, np.float32)
launch((x, y))
assert (y == 2 * x).all()
assert not [m for m in sys.modules if m.startswith(("numba", "minijit.lowering."))]
"""


def test_another_process_runs_the_code_without_numba(tmp_path: Path) -> None:
    source = BACKEND.emit(doubled())
    binary = BACKEND.compile(source)
    (tmp_path / "code").write_bytes(binary.code)
    interface = json.dumps(BACKEND.interface(source, binary))
    arguments = [str(SIZE), interface, str(tmp_path / "code")]
    subprocess.run([sys.executable, "-c", _LOAD, *arguments], check=True, timeout=120)


def test_object_code_is_the_same_in_every_process() -> None:
    source = BACKEND.emit(doubled())
    assert compile_source(source).code == compile_source(source).code


def test_bytes_that_are_no_object_code() -> None:
    with pytest.raises(RuntimeError):
        load_object(b"not an object file", "doubled")


def test_calls_of_unknown_functions_are_refused() -> None:
    from numba import types

    unknown = types.ExternalFunction("no_such_function", types.float32(types.float32))
    source = BACKEND.emit(doubled(8))
    text = source.text.replace("v0 + v0", "unknown(v0)")
    assert text != source.text
    broken = dataclasses.replace(source, text=text, names={**source.names, "unknown": unknown})
    with pytest.raises(RuntimeError, match="no_such_function"):
        compile_source(broken)


def test_results_are_arrays_with_block_until_ready() -> None:
    empty = BACKEND.allocator((2, 3), np.dtype(np.float32))()
    assert isinstance(empty, Array)
    assert empty.shape == (2, 3)
    assert empty.flags.c_contiguous
    assert empty.block_until_ready() is empty
    plain = np.arange(3)
    wrapped = BACKEND.result(plain)
    assert isinstance(wrapped, Array)
    assert np.shares_memory(plain, wrapped)
    assert BACKEND.result(wrapped) is wrapped


def test_arrays_of_the_cpu_are_taken_as_they_are() -> None:
    plain = np.arange(6.0).reshape(2, 3).T
    assert BACKEND.asarray(plain) is plain
    assert BACKEND.is_array(plain)
    assert not BACKEND.is_array([1.0])


@pytest.mark.skipif(not THREADS_SUPPORTED, reason="kernels run on one thread on this system")
def test_threads_start_with_the_first_parallel_launch() -> None:
    # Threads by number: one that compiled may still be going away.
    code = """
import os
import numpy as np
from minijit.backends.cpu.pool import set_threads
from tests.backends.test_cpu_launch import doubled, load
tasks = lambda: set(os.listdir("/proc/self/task"))
_, small = load(doubled(16))
_, large = load(doubled())
set_threads(3)
x = np.ones(1 << 20, np.float32)
before = tasks()
small((x, x.copy()))
assert tasks() <= before
large((x, x.copy()))
assert len(tasks() - before) == 2
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


@pytest.mark.skipif(not THREADS_SUPPORTED, reason="kernels run on one thread on this system")
def test_the_number_of_threads_changes_at_once() -> None:
    code = """
import os
import numpy as np
from minijit.graph.config import config
from tests.backends.test_cpu_launch import doubled, load
tasks = lambda: set(os.listdir("/proc/self/task"))
config.update("num_threads", 1)
_, launch = load(doubled())
x = np.ones(1 << 20, np.float32)
alone = tasks()
launch((x, x.copy()))
assert tasks() <= alone
config.update("num_threads", 3)
launch((x, x.copy()))
assert len(tasks() - alone) == 2
with config.override(num_threads=5):
    launch((x, x.copy()))
    assert len(tasks() - alone) == 4
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
