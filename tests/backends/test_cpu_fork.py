"""Forks while another thread compiles: the child compiles on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import os, signal, threading
import numpy as np
import minijit

x = np.ones(64)
stop = threading.Event()

def compile_on():
    for n in range(10_000):
        if stop.is_set():
            return
        minijit.jit(lambda v, n=n: v * n + n, static_argnames="n")(x[: n % 50 + 1])

thread = threading.Thread(target=compile_on)
minijit.jit(lambda v: v - 1)(x)
thread.start()
codes = []
for n in range(4):
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        fresh = minijit.jit(lambda v: np.sqrt(v) * 3 + n)
        os._exit(0 if (fresh(x) == 3 + n).all() else 1)
    codes.append(os.waitpid(child, 0)[1])
stop.set()
thread.join()
print(codes)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_forked_during_a_compile_can_compile() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).resolve().parents[2],
        timeout=300,
    )
    assert done.stdout.strip() == "[0, 0, 0, 0]", done.stderr
