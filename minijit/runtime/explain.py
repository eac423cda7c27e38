"""Telling the user what was compiled, and why a call was not in the cache."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from minijit.graph.config import config
from minijit.graph.events import emit
from minijit.runtime.signature import Signature, differences

__all__ = ["report_compile", "report_miss"]

_log = logging.getLogger("minijit")


def report_miss(
    function: str, signature: Signature, known: Sequence[Signature], names: Sequence[str]
) -> None:
    """Announce a miss.

    With ``config.explain_cache_misses`` log what changed against the nearest entry.
    """
    if not known:
        changes = ["the first call"]
    else:
        # Of equally near entries the one used last.
        changes = min((differences(signature, old, names) for old in reversed(known)), key=len)
        # Only what has no part in the signature makes an equal one miss.
        changes = changes or ["a captured array was resized or reshaped in place"]
    emit("miss", function=function, changes=changes)
    if config.explain_cache_misses:
        _log.warning("%s is traced anew: %s", function, "; ".join(changes))


@contextmanager
def report_compile(function: str, signature: Signature) -> Iterator[None]:
    """Announce a compile; with ``config.log_compiles`` log it with its types and seconds."""
    started = time.perf_counter()
    yield
    seconds = time.perf_counter() - started
    emit("program", function=function, seconds=seconds)
    if config.log_compiles:
        types = ", ".join(map(str, signature.avals))
        _log.warning("compiled %s(%s) for %s in %.3f s", function, types, signature.device, seconds)
