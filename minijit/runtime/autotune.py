"""Autotuning: a kernel's schedule by measurement, where ``config.autotune`` asks for it.

A backend offers a few schedules; each is compiled, run on arrays of ones, and timed in turn with
the others. Which was fastest is kept on the disk, under the kernel, its extents and the target.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from minijit.backends.base import Backend, Launcher
from minijit.graph.events import emit
from minijit.lowering.kernel_ir import Kernel, Loop, Role, walk
from minijit.lowering.source import KernelSource
from minijit.runtime.binaries import key_of
from minijit.runtime.disk import Entry, Key, default_store

__all__ = ["fastest"]

_ROUNDS = 5
_ROUND_SECONDS = 0.004
"""How long a schedule runs at least before another one has its turn."""
_GAIN = 0.97
"""Another schedule than the first must take less than this share of its time: less is noise."""
_PATIENCE_SECONDS = 2.0
"""After each such time a line tells how far it is."""


def fastest(
    backend: Backend, source: KernelSource, load: Callable[[KernelSource], Launcher]
) -> tuple[KernelSource, Launcher]:
    """Return ``source`` or another schedule of its kernel that is faster on this machine, loaded.

    Sums of floats may differ in their last bits from those of the schedule that is used otherwise.

    Args:
        backend: The target.
        source: The kernel on the schedule that is chosen without measuring.
        load: Returns the loaded kernel of a source.
    """
    candidates = backend.candidates(source)
    if len(candidates) == 1 or _may_not_end(source.kernel):
        return source, load(source)
    store = default_store()
    key = _key(backend, source) if store is not None else None
    entry = store.get(key) if store is not None and key is not None else None
    if entry is not None and entry.meta["choice"] < len(candidates):
        source = candidates[entry.meta["choice"]]
        return source, load(source)
    started = time.perf_counter()
    progress = _Progress(source.kernel.name)
    launchers: list[Launcher] = []
    for candidate in candidates:
        launchers.append(load(candidate))
        progress.tell(f"{len(launchers)} of {len(candidates)} schedules compiled")
    seconds = _measure(backend, source.kernel, launchers, progress)
    best = min(range(len(seconds)), key=seconds.__getitem__)
    choice = best if seconds[best] < _GAIN * seconds[0] else 0
    spent = time.perf_counter() - started
    name = source.kernel.name
    emit("autotuned", kernel=name, choice=choice, times=tuple(seconds))
    if store is not None and key is not None:
        facts = {"name": name, "choice": choice, "compile_seconds": spent}
        store.put(key, Entry(facts, {}))
    return candidates[choice], launchers[choice]


def _may_not_end(kernel: Kernel) -> bool:
    """Whether a loop runs until its values, which are made up here, say that it is over."""
    return any(isinstance(node, Loop) and node.length is None for node in walk(kernel.body))


def _key(backend: Backend, source: KernelSource) -> Key | None:
    """Return the key of a choice: that of the machine code, and the size of what it runs on."""
    kernel = source.kernel
    code = key_of(backend, source)
    if code is None:
        return None
    sizes = [buffer.size for buffer in kernel.buffers]
    tuned = {"extents": list(kernel.extents), "rows": len(kernel.rows), "buffers": sizes}
    return Key({"autotune": tuned, "kernel": dict(code.program)}, code.environment)


def _measure(
    backend: Backend, kernel: Kernel, launchers: Sequence[Launcher], progress: _Progress
) -> list[float]:
    """Return the least seconds of a launch of each."""
    operands: list[Any] = []
    for buffer in kernel.buffers:
        operands.append(backend.allocator((buffer.size,), buffer.dtype)())
        if buffer.role is Role.INPUT:
            operands[-1].fill(1)
    operands += [argument.dtype.type(1) for argument in kernel.arguments]
    runs = [partial(launcher, tuple(operands)) for launcher in launchers]
    counts = [math.ceil(_ROUND_SECONDS / max(_seconds(backend, run, 1), 1e-6)) for run in runs]
    least = [math.inf] * len(runs)
    for number in range(_ROUNDS):
        for place, (run, count) in enumerate(zip(runs, counts, strict=True)):
            least[place] = min(least[place], _seconds(backend, run, count))
        progress.tell(f"measured {number + 1} of {_ROUNDS} times")
    return least


def _seconds(backend: Backend, run: Callable[[], None], count: int) -> float:
    """Return the seconds of a call, of some that are waited for together."""
    backend.synchronize()
    started = time.perf_counter()
    for _ in range(count):
        run()
    backend.synchronize()
    return (time.perf_counter() - started) / count


class _Progress:
    """Logs how far the work on a kernel is, when that takes long."""

    def __init__(self, kernel: str) -> None:
        self.kernel = kernel
        self.started = self.told = time.perf_counter()

    def tell(self, done: str) -> None:
        """Log what is done, if nothing has been said for a while."""
        now = time.perf_counter()
        if now - self.told > _PATIENCE_SECONDS:
            self.told = now
            seconds = now - self.started
            log = logging.getLogger("minijit").warning
            log("autotune %s: %s, %.1f s so far", self.kernel, done, seconds)
