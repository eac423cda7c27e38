"""Events: every subscriber hears them, in its block, from every thread."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from minijit.graph.events import count, emit, subscribe


def test_subscribers_hear_name_and_data() -> None:
    heard: list[tuple[str, dict[str, Any]]] = []
    with subscribe(lambda event, data: heard.append((event, data))):
        emit("trace", function="f")
    emit("trace", function="g")
    assert heard == [("trace", {"function": "f"})]


def test_counting_nests() -> None:
    with count() as outer:
        emit("launch")
        with count() as inner:
            emit("launch")
            emit("compile")
    assert (outer["launch"], outer["compile"]) == (2, 1)
    assert (inner["launch"], inner["compile"], inner["never"]) == (1, 1, 0)


def test_blocks_end_in_any_order_and_after_errors() -> None:
    heard: list[str] = []
    first, second = (subscribe(lambda event, _, n=n: heard.append(event + n)) for n in "ab")
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    emit("x")
    second.__exit__(None, None, None)
    assert heard == ["xb"]
    with pytest.raises(KeyError), count() as events:
        raise KeyError
    emit("x")
    assert not events


def test_other_threads_are_heard() -> None:
    with count() as events:
        threads = [threading.Thread(target=emit, args=("launch",)) for _ in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert events["launch"] == 5
