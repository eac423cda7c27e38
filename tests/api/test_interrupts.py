"""Ctrl-C at any moment: no lock stays held, nothing is half made, and the next call is right."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import faulthandler, random, signal, sys, threading, time
import numpy as np
import minijit
from minijit.graph.mode import mode

seed, kind, points = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
rng, armed = random.Random(seed), False
x = np.linspace(0, 1, 8)

def interrupt(*_):
    if armed:
        raise KeyboardInterrupt

signal.signal(signal.SIGALRM, interrupt)
scale = 2.0

def make(n):
    if kind == "kernel":
        return minijit.jit(lambda v: np.sqrt(v) * scale + n), lambda v: np.sqrt(v) * 2 + n
    return minijit.jit(lambda v: (v * 1)[:n] @ v[:n]), lambda v: v[:n] @ v[:n]

def until_interrupted(f, seconds):
    global armed
    armed = True
    signal.setitimer(signal.ITIMER_REAL, seconds)
    while True:
        f(x)
        if kind != "hit":
            return

def in_thread(f):
    results = []
    thread = threading.Thread(target=lambda: results.append(f(x)), daemon=True)
    thread.start()
    thread.join(60)
    if thread.is_alive():
        faulthandler.dump_traceback()
    return results

f, want = make(3)
f(x)
f, want = make(4)
started = time.perf_counter()
f(x)
cold = time.perf_counter() - started
interrupted = 0
for point in range(points):
    if kind != "hit":
        f, want = make(5 + point % 4)
    try:
        until_interrupted(f, rng.uniform(1e-5, 1.2 * cold if kind != "hit" else 2e-3))
        armed = False
    except KeyboardInterrupt:  # the timer goes off once
        interrupted += 1
    armed = False
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert mode.trace is None and not mode.busy
    (result,) = in_thread(f)
    np.testing.assert_allclose(result, want(x), rtol=1e-12)
    np.testing.assert_allclose(f(x), want(x), rtol=1e-12)
    assert f._cache_size() == 1 and f.stats()["plans"] == 1
print(interrupted)
"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no interval timer")
@pytest.mark.parametrize(("kind", "points"), [("kernel", 40), ("library", 100), ("hit", 60)])
def test_the_next_call_is_right(kind: str, points: int) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, "1", kind, str(points)],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).resolve().parents[2],
        timeout=500,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= points // 3
