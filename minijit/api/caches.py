"""Which functions share a cache, and dropping what all of them keep."""

from __future__ import annotations

import types
import weakref
from collections.abc import Hashable
from typing import Any

from minijit import runtime
from minijit.graph.locks import process_lock
from minijit.runtime.memory_cache import FunctionCache

__all__ = ["clear_caches", "shared_cache"]

_caches: weakref.WeakKeyDictionary[Any, dict[Hashable, FunctionCache]] = weakref.WeakKeyDictionary()
_all: weakref.WeakSet[FunctionCache] = weakref.WeakSet()
_lock = process_lock()


def shared_cache(function: Any, options: Hashable) -> FunctionCache:
    """Return the cache of ``function`` with these static arguments.

    Jitting one function again reuses its entries.
    """
    with _lock:
        # Callables of other types may equal each other and compute something else.
        shared = isinstance(function, types.FunctionType)
        by_options = _caches.setdefault(function, {}) if shared else {}
        cache = by_options.setdefault(options, FunctionCache())
        _all.add(cache)
        return cache


def clear_caches() -> None:
    """Drop the compiled programs of all functions, and all loaded kernels."""
    with _lock:
        caches = list(_all)
    for cache in caches:
        cache.clear()
    runtime.pipeline.clear_kernels()
