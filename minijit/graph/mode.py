"""What this thread is doing: recording a trace, or running with jit disabled."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from minijit.graph.source_info import SourceLine
    from minijit.graph.trace import Trace

__all__ = ["Mode", "disable_jit", "mode"]


class Mode(threading.local):
    """State of one thread.

    Attributes:
        trace: The trace that records, if any.
        line: The user's line that what is recorded now comes from, where it is not on the stack.
        disabled: How many ``disable_jit`` blocks are open.
        busy: Whether a call of a jitted function does anything else than run a compiled program;
            one attribute, since every call asks.
    """

    trace: Trace | None = None
    line: SourceLine | None = None
    disabled: int = 0
    busy: bool = False

    def add_disabled(self, change: int) -> None:
        """Open or close a block in which jit is disabled."""
        self.disabled += change
        self.busy = self.trace is not None or self.disabled > 0


mode = Mode()


@contextmanager
def disable_jit(disable: bool = True) -> Iterator[None]:
    """Inside the ``with`` block jitted functions run as plain Python on concrete arrays."""
    if not disable:
        yield
        return
    mode.add_disabled(1)
    try:
        yield
    finally:
        mode.add_disabled(-1)
