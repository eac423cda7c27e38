"""Compiling ahead of the first calls, several programs at a time."""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from minijit.api.bound import Bound
from minijit.api.jit import Jitted
from minijit.graph.config import config

if TYPE_CHECKING:
    from minijit.api.stages import Compiled, Lowered

__all__ = ["warmup"]


def warmup(
    function: Any, signatures: Iterable[Any], *, processes: int | None = None
) -> list[Compiled]:
    """Compile ``function`` for several signatures, in parallel processes where the system forks.

    Each is traced here, in order; the processes compile, and hand the machine code over through the
    disk cache, whatever its least size of an entry is, or through a temporary folder where that is
    not written. Calls find everything compiled.

    Args:
        function: A jitted function.
        signatures: For each the arguments: a tuple of those by position, or a dict of those by
            name. Arrays, or :class:`minijit.ShapeDtypeStruct` in their place.
        processes: How many compile at a time; default: one for each available core.

    Raises:
        TypeError: ``function`` is not jitted, or a signature is no tuple and no dict.
        Whatever tracing and compiling raise.
    """
    if not isinstance(function, Jitted | Bound):
        raise TypeError(f"warmup takes a jitted function, not {function!r}: decorate it with jit")
    lowered = [_lowered(function, signature) for signature in signatures]
    with _store():
        _compile_elsewhere(lowered, processes or _cores())
        return [program.compile() for program in lowered]


def _lowered(function: Any, signature: Any) -> Lowered:
    if isinstance(signature, dict):
        return function.lower(**signature)  # type: ignore[no-any-return]
    if isinstance(signature, tuple):
        return function.lower(*signature)  # type: ignore[no-any-return]
    raise TypeError(
        f"a signature is a tuple of arguments or a dict of them, not {type(signature).__name__}: "
        "write (x,) for one argument x"
    )


@contextmanager
def _store() -> Iterator[None]:
    """Make sure that there is a folder in which processes leave what they compiled."""
    if config.compilation_cache == "rw":
        # What is warmed up is wanted, however small it is.
        with config.override(
            persistent_cache_min_entry_size_bytes=0, persistent_cache_min_compile_time_secs=0.0
        ):
            yield
        return
    with (
        tempfile.TemporaryDirectory(prefix="minijit-") as folder,
        config.override(compilation_cache="rw", compilation_cache_dir=folder),
    ):
        yield


def _compile_elsewhere(lowered: Sequence[Lowered], processes: int) -> None:
    """Compile in forked processes; what they fail at is compiled, and raised, in this one."""
    count = min(processes, len(lowered))
    if count < 2 or not hasattr(os, "fork") or sys.platform == "darwin":
        return  # on macOS the system's own libraries do not survive a fork
    first, *rest = lowered
    # Imports the compiler once for all of them.
    first.compile()
    children = [_fork(rest[number::count]) for number in range(min(count, len(rest)))]
    for child in children:
        os.waitpid(child, 0)


def _fork(share: Sequence[Lowered]) -> int:
    with warnings.catch_warnings():
        # Python warns of threads that hold locks, which minijit's own wait for a fork.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child:
        return child
    try:
        for program in share:
            program.compile()
    except BaseException:
        os._exit(1)
    os._exit(0)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
