"""Work that is done in another thread, so that the main one can be interrupted."""

from __future__ import annotations

import signal
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


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no interval timer")
def test_an_interrupt_ends_the_waiting_and_not_the_work() -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

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
    (worker,) = (each for each in threading.enumerate() if each.name == "minijit compiler")
    assert worker.is_alive(), "else Python would end without it"
    go_on.set()
    assert finished.wait(20)
