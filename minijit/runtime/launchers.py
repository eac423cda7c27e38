"""Loaded kernels of this process, each once for as long as a plan uses it."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Hashable
from typing import Any

from minijit.backends.base import Binary, Launcher
from minijit.graph.events import emit
from minijit.graph.locks import process_lock

__all__ = ["clear_kernels", "launcher_of", "loaded_binary"]

# What the caches of programs drop is gone.
_launchers: weakref.WeakValueDictionary[Hashable, Any] = weakref.WeakValueDictionary()
_binaries: weakref.WeakValueDictionary[Hashable, Binary] = weakref.WeakValueDictionary()
_loaded: weakref.WeakKeyDictionary[Launcher, Binary] = weakref.WeakKeyDictionary()
_lock = process_lock()


def launcher_of(
    code: Hashable,
    launch: Hashable,
    build: Callable[[], Binary],
    load: Callable[[Binary], Launcher],
) -> Launcher:
    """Return a loaded kernel, the one that is there if there is one.

    Args:
        code: What is equal for equal machine code on the same device.
        launch: What is equal where it also runs on spaces of the same size.
        build: Returns the machine code.
        load: Loads it.
    """
    key = (code, launch)
    launcher: Launcher | None = _launchers.get(key)
    if launcher is None:
        binary = _binaries.get(code) or build()
        started = time.perf_counter()
        launcher = load(binary)
        emit("load", seconds=time.perf_counter() - started)
        with _lock:
            launcher = _launchers.setdefault(key, launcher)
            _binaries[code] = _loaded[launcher] = binary
    return launcher


def loaded_binary(launcher: Launcher) -> Binary:
    """Return the machine code of a kernel of a plan."""
    return _loaded[launcher]


def clear_kernels() -> None:
    """Forget all loaded kernels."""
    with _lock:
        _launchers.clear()
        _binaries.clear()
