"""The signature of a call: the list of named parts that decides which compiled program it runs."""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Hashable
from typing import Any

import numpy as np

from minijit.backends.base import Backend
from minijit.graph.aval import ShapedArray
from minijit.graph.identity import Same
from minijit.graph.source_info import here
from minijit.graph.trace import abstractify
from minijit.graph.tracer import Tracer
from minijit.graph.tree import TreeDef

__all__ = [
    "Read",
    "Signature",
    "abstract_leaf",
    "plain_key",
    "static_key",
    "weak_static_key",
]


@dataclasses.dataclass(frozen=True, slots=True)
class Read:
    """A name that a function reads from its surroundings, and what it stood for.

    Attributes:
        place: Where the name is bound: the globals of a module, or the cell of a variable.
        name: The name.
        key: The value, compared by ``==`` if it is a number, a string or the like, else by
            identity.
        title: What to call it in messages.
        value: The value itself.
    """

    place: Same
    name: str
    key: Hashable
    title: str = dataclasses.field(compare=False)
    value: Any = dataclasses.field(compare=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Signature:
    """What a traced program depends on; compared part by part to explain a miss.

    Attributes:
        names: The dynamic parameters.
        treedef: Structure of their values.
        avals: Type of each leaf.
        statics: ``(name, key)`` of each static argument.
        options: The options that change code, by name.
        backend: The device; two of one name are two devices.
        reads: What the function and its callees read of their surroundings.
    """

    names: tuple[str, ...]
    treedef: TreeDef
    avals: tuple[ShapedArray, ...]
    statics: tuple[tuple[str, Hashable], ...]
    options: tuple[tuple[str, object], ...]
    backend: Backend
    reads: tuple[Read, ...] = ()

    def __hash__(self) -> int:
        """Hash without the structure's own (slow) hash of nested containers."""
        leaves = self.treedef.num_leaves
        return hash((self.avals, self.statics, self.options, self.backend, self.reads, leaves))

    @property
    def device(self) -> str:
        """Name of the backend."""
        return self.backend.name


def abstract_leaf(value: Any, path: str) -> ShapedArray:
    """Return the type of one leaf; an abstract array stands for itself.

    Raises:
        TypeError: the leaf, called ``path``, is no array.
    """
    if isinstance(value, ShapedArray):
        return value
    try:
        return abstractify(value)
    except (TypeError, OverflowError) as error:
        raise type(error)(f"argument {path}: {error}") from None


def static_key(name: str, value: Any) -> Hashable:
    """Return a key that tells ``1``, ``True`` and ``1.0`` apart, also inside tuples.

    Raises:
        TypeError: ``value`` cannot be hashed, with the argument's name.
    """
    try:
        key = _typed(value)
        hash(key)
    except TypeError:
        advice = (
            "pass a tuple instead"
            if isinstance(value, (list, set, dict))
            else "pass something hashable"
        )
        if isinstance(value, Tracer):
            advice = "it is traced already: make it static there, or hold its value in a lambda"
        if isinstance(value, np.ndarray):
            advice = "an array's values cannot decide a compile: leave it dynamic"
        raise TypeError(
            f"static argument {name!r}{here()} is not hashable: {type(value).__name__}; {advice}"
        ) from None
    return key


def weak_static_key(name: str, value: Any) -> Hashable:
    """Return such a key that does not keep ``value`` alive, if that can be.

    As long as both live, it equals the key of an equal value of the same type.

    Raises:
        TypeError: ``value`` cannot be hashed, with the argument's name.
    """
    try:
        kind: Any = type(value)
        key = (kind, weakref.ref(value), *_fields(value))
        hash(key)
    except TypeError:
        return static_key(name, value)
    return key


def plain_key(value: Any) -> Hashable | None:
    """Return a key by value of a number, a string or a tuple of such; None for anything else."""
    if isinstance(value, tuple):
        plain = type(value) is tuple and all(plain_key(item) is not None for item in value)
    else:
        plain = type(value) in _PLAIN or isinstance(value, np.generic)
    return _typed(value) if plain else None


_PLAIN = frozenset({bool, int, float, complex, str, bytes, type(None)})


def _typed(value: Any) -> Hashable:
    if isinstance(value, tuple):
        return (type(value), *map(_typed, value))
    if isinstance(value, frozenset):
        return (frozenset, frozenset(map(_typed, value)))
    if isinstance(value, (float, complex, np.generic)):
        return (type(value), repr(value))  # 0.0 == -0.0, and NaN equals nothing
    return (type(value), value, *_fields(value))


def _fields(value: Any) -> tuple[Hashable, ...]:
    """Return the keys of a dataclass's fields, which its ``==`` compares without their types."""
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return ()
    compared = (field.name for field in dataclasses.fields(value) if field.compare)
    return tuple(_typed(getattr(value, name)) for name in compared)
