"""Forked children: on the CPU they hit and compile, on CUDA they are told at once."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

PRELUDE = """
import contextlib, itertools, os, signal, tempfile, threading
import numpy as np
import minijit
from minijit.backends import registry
from minijit.backends.emulator.backend import EmulatedBackend

def in_child(work):
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1]

@contextlib.contextmanager
def meanwhile(work, threads=1):
    # Threads that call work(1), work(2) ... for the length of the block.
    stop = threading.Event()

    def go_on():
        for n in itertools.takewhile(lambda _: not stop.is_set(), itertools.count(1)):
            work(n)

    started = [threading.Thread(target=go_on) for _ in range(threads)]
    for thread in started:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in started:
            thread.join()

def right(got, want):
    if not np.array_equal(got, want):
        raise AssertionError((got, want))

x = np.ones(64)
f = minijit.jit(lambda v, n: np.sqrt(v) * 3 + n, static_argnames="n")
right(f(x, n=1), x * 4)
"""


def printed(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PRELUDE + textwrap.dedent(program)],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).resolve().parents[2],
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_child_hits_and_compiles() -> None:
    program = """
        def work():
            with minijit.debug.count() as events:
                right(f(x, n=1), x * 4)
            assert events["trace"] == events["program"] == 0
            right(f(x, n=2), x * 5)
            right(minijit.jit(lambda v: v - 1)(x), x - 1)

        print([in_child(work) for _ in range(3)])
    """
    assert printed(program) == "[0, 0, 0]"


def test_a_child_is_not_stopped_by_locks_of_threads_that_it_lacks() -> None:
    program = """
        tracing, go_on = threading.Event(), threading.Event()

        @minijit.jit
        def slow(v):
            if threading.current_thread() is not threading.main_thread():
                tracing.set()
                go_on.wait(60)
            return v * 7

        thread = threading.Thread(target=slow, args=(x,))
        thread.start()
        tracing.wait(60)
        # The thread holds the lock of this very signature.
        codes = [in_child(lambda: right(slow(x), x * 7)) for _ in range(2)]
        go_on.set()
        thread.join()
        right(slow(x), x * 7)
        print(codes, slow.stats()["traces"])
    """
    assert printed(program) == "[0, 0] 1"


def test_a_child_compiles_while_its_parent_compiles_the_same_function() -> None:
    program = """
        with meanwhile(lambda n: f(x[: (n + 2) % 50 + 1], n=n + 2)):
            codes = [in_child(lambda: right(f(x, n=-k), x * 3 - k)) for k in range(1, 5)]
        print(codes)
    """
    assert printed(program) == "[0, 0, 0, 0]"


def test_a_child_of_a_process_that_used_cuda_is_told() -> None:
    program = """
        # The emulated device in the place of a GPU: what matters is who used it.
        stand_in = EmulatedBackend()
        stand_in.name = "cuda"
        registry._backends["cuda"] = stand_in
        g = minijit.jit(lambda v: v + 1)
        with minijit.default_device("cuda"):
            compiled = g.lower(x).compile()
            right(g(x), x + 1)
        file = os.path.join(tempfile.mkdtemp(), "program")
        compiled.export(file)
        loaded = minijit.load(file)
        right(loaded(x), x + 1)
        calls = {
            "jitted": lambda: g(x),
            "compiled": lambda: compiled(x),
            "new": lambda: minijit.jit(lambda v: v)(x),
            "loaded": lambda: loaded(x),
            "loaded by the child": lambda: minijit.load(file),
        }

        def work():
            refused = 0
            for call in calls.values():
                try:
                    with minijit.config.override(device="cuda"):
                        call()
                except minijit.ForkedCUDAError as error:
                    refused += "spawn" in str(error)
            assert refused == len(calls)
            assert "cuda" not in minijit.devices()
            right(g(x), x + 1)  # on the CPU
            right(f(x, n=1), x * 4)

        print(in_child(work))
        with minijit.default_device("cuda"):
            right(g(x), x + 1)
    """
    assert printed(program) == "0"


def test_a_child_may_be_forked_while_options_change() -> None:
    program = """
        def change(n):
            with minijit.config.override(cache_entries=64 + n % 2, num_threads=1 + n % 2):
                pass

        def work():
            minijit.config.update("num_threads", 1)
            right(f(x, n=1), x * 4)

        with meanwhile(change, threads=2):
            codes = [in_child(work) for _ in range(60)]
        print(set(codes))
    """
    assert printed(program) == "{0}"
