"""What is different between two signatures, in words, and what to do about it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from types import FunctionType
from typing import Any, Literal

from minijit.graph.aval import ShapedArray
from minijit.runtime.signature import Signature
from minijit.runtime.words import key_text, structure_text, value_text

__all__ = ["ADVICE", "Cause", "Change", "differences", "distance", "layout_changes"]

Cause = Literal[
    "shape",
    "rank",
    "dtype",
    "weak type",
    "layout",
    "structure",
    "arguments",
    "static value",
    "function",
    "option",
    "device",
    "evicted",
    "version",
    "read",
    "resized",
]

ADVICE: dict[Cause, str] = {
    "shape": "pad to a few sizes and pass the true length as an argument",
    "rank": "give it the same number of axes at every call",
    "dtype": "convert once, where the data come from: x.astype(dtype)",
    "weak type": "pass a Python number at every call, or an array scalar at every call",
    "layout": "the trace is shared; for one program as well pass arrays in one memory order: "
    "numpy.ascontiguousarray(x)",
    "structure": "keep the same keys, lengths and kinds of containers from call to call",
    "arguments": "give the same arguments at every call: a default either always or never",
    "static value": "each value is compiled by itself: leave the argument dynamic, unless a shape, "
    "a number of steps or a branch needs its value",
    "function": "jit once, outside the loop or the function that makes it, and pass what differs "
    "as an argument",
    "option": "set options once, before the first call",
    "device": "keep the data and the computation on one device",
    "evicted": "raise config.cache_entries or config.cache_bytes, or use fewer signatures",
    "version": "nothing: programs are compiled once for each version and machine",
    "read": "pass it as an argument",
    "resized": "pass it as an argument, or leave its shape alone",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """One difference between a signature and an older one.

    Attributes:
        cause: What kind of difference.
        what: Where: an argument's path, the name of a global ...
        before: The old value, empty where there is none to show.
        after: The new one.
        advice: What the user can do.
    """

    cause: Cause
    what: str
    before: str
    after: str
    advice: str

    @classmethod
    def of(cls, cause: Cause, what: str, before: str = "", after: str = "") -> Change:
        """Return a change with the advice of its kind."""
        return cls(cause, what, before, after, ADVICE[cause])

    def __str__(self) -> str:
        """Return ``x: f32[8] -> f32[3]``."""
        return f"{self.what}: {self.before} -> {self.after}" if self.after else self.what


def differences(new: Signature, old: Signature, names: Sequence[str]) -> list[Change]:
    """Return how ``new`` differs from ``old``.

    Args:
        new: The signature that missed.
        old: One that is in the cache.
        names: What the user calls the leaves of ``new``.
    """
    return [
        *_arguments(new, old, names),
        *_statics(new, old),
        *_options(new, old),
        *_device(new, old),
        *_reads(new, old),
    ]


def distance(new: Signature, old: Signature) -> int:
    """Return in how many ways two signatures differ, for finding the nearest one."""
    if (new.names, new.treedef) != (old.names, old.treedef):
        arguments = _OTHER_STRUCTURE
    else:
        arguments = sum(
            (was.shape != now.shape) + (was.dtype != now.dtype) + (was.weak_type != now.weak_type)
            for was, now in zip(old.avals, new.avals, strict=True)
        )
    parts = (_statics, _options, _device, _reads)
    return arguments + sum(sum(1 for _ in part(new, old)) for part in parts)


_OTHER_STRUCTURE = 3
"""Types cannot be compared then, and may all differ."""


def layout_changes(
    names: Sequence[str], new: Sequence[Any], old: Sequence[Any]
) -> Iterator[Change]:
    """Return which arguments lie in memory in another way; strides count elements."""
    for name, after, before in zip(names, new, old, strict=True):
        if after != before:
            texts = [
                "a number" if layout.by_value else f"strides {layout.strides}"
                for layout in (before, after)
            ]
            yield Change.of("layout", name, *texts)


def _arguments(new: Signature, old: Signature, names: Sequence[str]) -> Iterator[Change]:
    if new.names != old.names:
        given = (", ".join(each) or "none" for each in (old.names, new.names))
        yield Change.of("arguments", "the arguments given", *given)
    elif new.treedef != old.treedef:
        pairs = zip(new.names, old.treedef.children(), new.treedef.children(), strict=True)
        for name, before, after in pairs:
            if before != after:
                texts = structure_text(before), structure_text(after)
                yield Change.of("structure", f"the structure of {name}", *texts)
    else:
        for name, was, now in zip(names, old.avals, new.avals, strict=True):
            if was != now:
                yield Change.of(_cause(was, now), name, str(was), str(now))


def _cause(before: ShapedArray, after: ShapedArray) -> Cause:
    if len(before.shape) != len(after.shape):
        return "rank"
    if before.shape != after.shape:
        return "shape"
    return "dtype" if before.dtype != after.dtype else "weak type"


def _statics(new: Signature, old: Signature) -> Iterator[Change]:
    before, after = dict(old.statics), dict(new.statics)
    for name in sorted({*before, *after}):
        if before.get(name) != after.get(name):
            texts = [
                key_text(side[name]) if name in side else "not given" for side in (before, after)
            ]
            yield Change.of("static value", f"static {name}", *_told_apart(*texts))


def _options(new: Signature, old: Signature) -> Iterator[Change]:
    before = dict(old.options)
    for name, value in new.options:
        if name in before and before[name] != value:
            yield Change.of("option", f"the option {name}", repr(before[name]), repr(value))


def _device(new: Signature, old: Signature) -> Iterator[Change]:
    if new.backend is not old.backend:
        yield Change.of("device", "the device", *_told_apart(old.device, new.device))


def _reads(new: Signature, old: Signature) -> Iterator[Change]:
    before = {(read.place, read.name): read for read in old.reads}
    for read in new.reads:
        was = before.get((read.place, read.name))
        if was is not None and was.key != read.key:
            texts = _told_apart(value_text(was.value), value_text(read.value))
            if any(isinstance(_function(value), FunctionType) for value in (was.value, read.value)):
                yield Change("read", read.title, *texts, "define it once, before the first call")
            else:
                yield Change.of("read", read.title, *texts)


def _function(value: Any) -> Any:
    return getattr(value, "__wrapped__", value)


def _told_apart(before: str, after: str) -> tuple[str, str]:
    """Return both texts; what reads the same is another one all the same."""
    if before != after:
        return before, after
    for article in ("a ", "an ", "the "):
        after = after.removeprefix(article)
    return before, f"another {after}"
