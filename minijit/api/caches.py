"""Which functions share a cache, and dropping what all of them keep."""

from __future__ import annotations

import inspect
import os
import types
import weakref
from collections.abc import Callable, Hashable
from typing import Any

from minijit.backends.cpu.memory import clear_memory
from minijit.backends.registry import lost_devices
from minijit.graph.locks import process_lock
from minijit.runtime.launchers import clear_kernels
from minijit.runtime.memory_cache import FunctionCache

__all__ = ["clear_caches", "derived_function", "shared_cache"]

_ATTRIBUTE = "__minijit_caches__"
_all: weakref.WeakSet[FunctionCache] = weakref.WeakSet()
_lock = process_lock()


class _Caches:
    """The caches of one function, kept by the function itself.

    What is cached may refer to the function, through a variable that it reads for example: from
    elsewhere, even from a weak dictionary, that would keep both alive for ever.
    """

    __slots__ = ("by_options", "derived", "owner")

    def __init__(self, owner: object = None) -> None:
        # ``functools.wraps`` copies attributes: what it copied belongs to another function.
        self.owner = None if owner is None else weakref.ref(owner)
        self.by_options: dict[Hashable, FunctionCache] = {}
        self.derived: dict[Hashable, Callable[..., Any]] = {}

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
            code = getattr(inspect.unwrap(function), "__code__", None)
            by_options[options] = FunctionCache(code)
            _all.add(by_options[options])
        return by_options[options]


def derived_function(
    function: Any, key: Hashable, make: Callable[[], Callable[..., Any]]
) -> Callable[..., Any]:
    """Return what ``make`` makes of ``function``: what was made before with an equal ``key``.

    So a function that is transformed again at each call is traced and compiled once. It keeps what
    was made of it, and has to be one that does not change.
    """
    with _lock:
        derived = _caches_of(function).derived
        if key not in derived:
            derived[key] = make()
        return derived[key]


def _caches_of(function: Any) -> _Caches:
    found = vars(function).get(_ATTRIBUTE)
    if not isinstance(found, _Caches) or found.owner is None or found.owner() is not function:
        found = _Caches(function)
        setattr(function, _ATTRIBUTE, found)
    return found


def clear_caches() -> None:
    """Drop the compiled programs of all functions, loaded kernels, and memory that lies idle."""
    with _lock:
        caches = list(_all)
    for cache in caches:
        cache.clear()
    clear_kernels()
    clear_memory()


def _after_fork() -> None:
    for cache in _all:
        cache.after_fork()
        if lost_devices:
            cache.hits.clear()  # what goes the long way asks for its device


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
