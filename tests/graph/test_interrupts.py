"""Work that is done in another thread, so that the main one can be interrupted."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from contextvars import ContextVar

import pytest

from minijit.graph.interrupts import uninterrupted

VALUE: ContextVar[int] = ContextVar("VALUE", default=0)


def test_results_and_errors_come_back() -> None:
    assert uninterrupted(lambda: 3) == 3
    with pytest.raises(ZeroDivisionError):
        uninterrupted(lambda: 1 // 0)


def test_the_work_sees_the_context_of_its_caller() -> None:
    token = VALUE.set(7)
    try:
        assert uninterrupted(VALUE.get) == 7
    finally:
        VALUE.reset(token)


def test_other_threads_do_it_themselves() -> None:
    seen: list[threading.Thread] = []
    thread = threading.Thread(target=lambda: seen.append(uninterrupted(threading.current_thread)))
    thread.start()
    thread.join()
    assert seen == [thread]
    assert uninterrupted(threading.current_thread) is not threading.current_thread()


TIMER = pytest.mark.skipif(
    not hasattr(signal, "setitimer"), reason="this system has no interval timer"
)


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


@TIMER
def test_an_interrupt_ends_the_waiting_and_not_the_work() -> None:
    go_on, finished = threading.Event(), threading.Event()

    def work() -> None:
        assert go_on.wait(20)
        finished.set()

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(KeyboardInterrupt):
            uninterrupted(work)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert not finished.is_set()
    go_on.set()
    assert finished.wait(20)


@TIMER
def test_an_interrupt_at_any_moment_is_an_interrupt() -> None:
    """Not an error of whatever the main thread waits with."""
    rng, armed = random.Random(0), False

    def handler(*_: object) -> None:
        if armed:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, handler)
    interrupted = 0
    try:
        while interrupted < 1000:
            try:
                armed = True
                signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-5, 1.5e-4))
                assert uninterrupted(lambda: 3) == 3
                armed = False
            except KeyboardInterrupt:
                interrupted += 1
            armed = False
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


_EXIT = """
import signal, sys, time
from minijit.graph.interrupts import uninterrupted

def interrupt(*_):
    raise KeyboardInterrupt

def work():
    time.sleep(0.5)
    print("done", flush=True)

signal.signal(signal.SIGALRM, interrupt)
signal.setitimer(signal.ITIMER_REAL, 0.1)
try:
    uninterrupted(work)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    if "fork" in sys.argv:
        import os
        child = os.fork()
        if child:
            os.waitpid(child, 0)
"""


@TIMER
def test_a_process_ends_after_the_work() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", _EXIT], capture_output=True, text=True, check=True, timeout=60
    )
    assert ran.stdout.split() == ["interrupted", "done"]


@TIMER
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_waits_for_no_work_of_its_parent() -> None:
    program = [sys.executable, "-W", "ignore", "-c", _EXIT, "fork"]
    ran = subprocess.run(program, capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout.split() == ["interrupted", "done"]
