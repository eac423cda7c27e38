"""One hook for everything that is counted: traces, compiles, launches, pipeline steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["Subscriber", "count", "emit", "subscribe", "subscribers"]

Subscriber = Callable[[str, dict[str, Any]], None]

subscribers: list[Subscriber] = []
"""Who is told; asked first where telling an event would cost more than the event."""


def emit(event: str, **data: Any) -> None:
    """Tell every subscriber that ``event`` happened."""
    for subscriber in tuple(subscribers):
        subscriber(event, data)


@contextmanager
def subscribe(subscriber: Subscriber) -> Iterator[None]:
    """Call ``subscriber(event, data)`` for every event in the ``with`` block, from any thread."""
    subscribers.append(subscriber)
    try:
        yield
    finally:
        subscribers.remove(subscriber)


@contextmanager
def count() -> Iterator[Counter[str]]:
    """Count events by name inside the ``with`` block.

    Example::

        with count() as events:
            f(x)
        assert events["compile"] == 1
    """
    counter: Counter[str] = Counter()
    with subscribe(lambda event, _: counter.update((event,))):
        yield counter
