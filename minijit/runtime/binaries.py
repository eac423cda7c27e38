"""Where the machine code of a kernel comes from: the disk, or the compiler."""

from __future__ import annotations

import time
from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any

from minijit import runtime
from minijit.backends.base import Backend, Binary, Support
from minijit.graph.events import emit
from minijit.runtime.disk import Entry, Key, Store, default_store
from minijit.runtime.explain import report_environment

if TYPE_CHECKING:
    from minijit.lowering.source import KernelSource

__all__ = ["binary_of", "compile_anew", "differing", "key_of", "stored_binary"]


def key_of(backend: Backend, source: KernelSource | Support) -> Key | None:
    """Return the key under which the machine code of ``source`` is kept, in any process.

    None when a user's scalar function reads an object that has no text form: nothing could tell
    that object from another one, so such a kernel is compiled in every process.
    """
    if isinstance(source, Support):
        return Key({"support": source.text}, backend.environment())
    describe = runtime.describe
    try:
        program = describe.describe_source(source) | {"parameters": backend.parameters(source)}
        return Key(program, backend.environment())
    except describe.Indescribable as error:
        emit("not_kept", kernel=source.kernel.name, why=str(error))
        return None


def binary_of(backend: Backend, source: KernelSource | Support) -> Binary:
    """Return the machine code of ``source``: from the disk if it is there, else compiled and kept.

    Of several processes that want it at a time, one compiles.
    """
    store = default_store()
    key = key_of(backend, source) if store is not None else None
    if store is None or key is None:
        return compile_anew(backend, source)
    entry = store.get(key)
    if entry is not None:
        return _stored(entry, source)
    if not isinstance(source, Support):
        _tell_of_others(store, key, source)
    with store.single_flight(key) as flight:
        if flight.entry is not None:
            return _stored(flight.entry, source)
        started = time.perf_counter()
        binary = compile_anew(backend, source)
        facts = {
            "name": _name(source),
            "entry": binary.entry,
            "resources": dict(binary.resources),
            "compile_seconds": time.perf_counter() - started,
        }
        if isinstance(source, Support) or _as_described(source, key):
            store.put(key, Entry(facts, {"code": binary.code}))
        else:
            why = "a scalar function reads other values than when it was compiled first"
            emit("not_kept", kernel=source.kernel.name, why=why)
        return binary


def compile_anew(backend: Backend, source: KernelSource | Support) -> Binary:
    """Return the machine code of ``source``, compiled now."""
    if isinstance(source, Support):
        return source.compile()
    started = time.perf_counter()
    binary = backend.compile(source)
    emit("compile", kernel=source.kernel.name, seconds=time.perf_counter() - started)
    return binary


def _tell_of_others(store: Store, key: Key, source: KernelSource) -> None:
    """Say what has changed where the kernel is there for other compilers or another machine."""
    others = store.other_environments(key)
    if others:
        emit("environment", kernel=source.kernel.name, before=others, now=key.environment)
        changes = (differing(other, key.environment) for other in others)
        report_environment(min(changes, key=len))


_compiled_as: dict[Hashable, Any] = {}
"""What kernels call, as it was described when it was compiled first; as long as compilers keep it,
which is for ever."""


def _as_described(source: KernelSource, key: Key) -> bool:
    """Whether what the source calls has been compiled in this process as the key describes it.

    Compilers take the values that a function reads when they see it first, and keep to them.
    """
    described = key.program["names"]
    return all(
        _compiled_as.setdefault(value, described[name]) == described[name]
        for name, value in source.names.items()
    )


def differing(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return what two environments differ in, each with both values."""
    pairs = {name: (before.get(name), now.get(name)) for name in sorted({*before, *now})}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def stored_binary(store: Store, key: Key, kernel: str) -> Binary | None:
    """Return the machine code of a kernel whose key is known, if it is on the disk."""
    entry = store.get(key)
    if entry is None:
        return None
    emit("disk_hit", kernel=kernel)
    return _unpacked(entry)


def _stored(entry: Entry, source: KernelSource | Support) -> Binary:
    if not isinstance(source, Support):
        emit("disk_hit", kernel=source.kernel.name)
    return _unpacked(entry)


def _unpacked(entry: Entry) -> Binary:
    facts = entry.meta
    return Binary(bytes(entry.sections["code"]), facts["entry"], facts["resources"])


def _name(source: KernelSource | Support) -> str:
    return source.name if isinstance(source, Support) else source.kernel.name
