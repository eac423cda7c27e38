"""Which functions share a cache, and dropping what all of them keep."""

from __future__ import annotations

import os
import types
import weakref
from collections.abc import Hashable
from typing import Any

from minijit.backends.registry import lost_devices
from minijit.graph.locks import process_lock
from minijit.runtime.launchers import clear_kernels
from minijit.runtime.memory_cache import FunctionCache

__all__ = ["clear_caches", "shared_cache"]

_ATTRIBUTE = "__minijit_caches__"
_all: weakref.WeakSet[FunctionCache] = weakref.WeakSet()
_lock = process_lock()


class _Caches:
    """The caches of one function, kept by the function itself.

    What is cached may refer to the function, through a variable that it reads for example: from
    elsewhere, even from a weak dictionary, that would keep both alive for ever.
    """

    __slots__ = ("by_options", "owner")

    def __init__(self, owner: object = None) -> None:
        # ``functools.wraps`` copies attributes: what it copied belongs to another function.
        self.owner = None if owner is None else weakref.ref(owner)
        self.by_options: dict[Hashable, FunctionCache] = {}

    def __reduce__(self) -> Any:
        """Pickle nothing, where somebody pickles the function by value."""
        return (_Caches, ())


def shared_cache(function: Any, options: Hashable) -> FunctionCache:
    """Return the cache of ``function`` with these static arguments.

    Jitting one function again reuses its entries.
    """
    with _lock:
        # Callables of other types may equal each other and compute something else.
        shared = isinstance(function, types.FunctionType)
        by_options = _caches_of(function).by_options if shared else {}
        if options not in by_options:
            by_options[options] = FunctionCache(getattr(function, "__code__", None))
            _all.add(by_options[options])
        return by_options[options]


def _caches_of(function: types.FunctionType) -> _Caches:
    found = vars(function).get(_ATTRIBUTE)
    if not isinstance(found, _Caches) or found.owner is None or found.owner() is not function:
        found = _Caches(function)
        setattr(function, _ATTRIBUTE, found)
    return found


def clear_caches() -> None:
    """Drop the compiled programs of all functions, and all loaded kernels."""
    with _lock:
        caches = list(_all)
    for cache in caches:
        cache.clear()
    clear_kernels()


def _after_fork() -> None:
    for cache in _all:
        cache.after_fork()
        if lost_devices:
            cache.hits.clear()  # what goes the long way asks for its device


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
