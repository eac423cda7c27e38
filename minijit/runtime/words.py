"""Values, types and signatures in the user's words, for messages; no class of ours is named."""

from __future__ import annotations

import reprlib
import weakref
from collections.abc import Hashable, Sequence
from types import FunctionType, ModuleType
from typing import Any

from minijit.graph.aval import ShapedArray
from minijit.graph.trace import abstractify, is_array
from minijit.graph.tree import TreeDef

__all__ = ["arguments_text", "key_text", "structure_text", "value_text"]

_MOST_ARGUMENTS = 8
_MOST_CHARACTERS = 80
_short = reprlib.Repr()
_short.maxstring = _short.maxother = _short.maxlong = 60


def value_text(value: Any) -> str:
    """Return ``value`` for a message: a number or a string as it is, an array as its type."""
    if is_array(value):
        try:
            return str(abstractify(value))
        except TypeError:
            return f"{value.dtype}{list(value.shape)}"
    wrapped = getattr(value, "__wrapped__", value)
    if isinstance(wrapped, FunctionType):
        return f"the function {wrapped.__name__}"
    if isinstance(value, ModuleType):
        return f"the module {value.__name__}"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    name = type(value).__name__
    article = "an" if name[:1] in "AEIOU" else "a"
    if getattr(type(value), "__repr__", None) is object.__repr__:
        return f"{article} {name}"
    if isinstance(value, (str, bytes, int, tuple, list, dict, set, frozenset)):
        return _short.repr(value)
    try:
        return _cut(repr(value))
    except Exception:  # the user's own __repr__ may do anything
        return f"{article} {name}"


def key_text(key: Any) -> str:
    """Return the static value that a key of :func:`minijit.runtime.signature.static_key` is of."""
    kind, *parts = key
    if parts and isinstance(parts[0], weakref.ref):
        value = parts[0]()
        return "an object that is gone" if value is None else value_text(value)
    if issubclass(kind, (tuple, frozenset)):
        items = parts[0] if issubclass(kind, frozenset) else parts
        inner = ", ".join(map(key_text, items))
        if issubclass(kind, frozenset):
            return f"frozenset({{{inner}}})"
        return f"({inner},)" if len(items) == 1 else f"({inner})"
    (value, *_) = parts
    if issubclass(kind, (float, complex)) or kind.__module__ == "numpy":
        return str(value)  # the key holds its text
    return value_text(value)


def structure_text(treedef: TreeDef) -> str:
    """Return a structure as Python writes it, with a star for each leaf."""
    return _cut(str(treedef).removeprefix("PyTreeSpec(").removesuffix(")"))


def arguments_text(
    names: Sequence[str],
    avals: Sequence[ShapedArray],
    statics: Sequence[tuple[str, Hashable]],
) -> str:
    """Return a signature's arguments: ``x: f32[8], n=3``."""
    parts = [f"{_cut(name)}: {aval}" for name, aval in zip(names, avals, strict=True)]
    if len(parts) > _MOST_ARGUMENTS:
        parts = [*parts[:_MOST_ARGUMENTS], f"... {len(parts) - _MOST_ARGUMENTS} more"]
    return ", ".join([*parts, *(f"{name}={key_text(key)}" for name, key in statics)])


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 3] + "..."
