"""What an entry is stored under: two parts, what is compiled and what compiles it, as one text."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

__all__ = ["Key", "canonical"]

_encode = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
).encode


def canonical(data: object) -> bytes:
    """Return ``data`` as JSON of which equal data have equal bytes: sorted, compact, ASCII.

    Raises:
        TypeError: something in it is no JSON, or a mapping has keys of several types.
        ValueError: a float is not finite, or the data contain themselves.
    """
    return _encode(data).encode("ascii")


class Key:
    """The name of an entry, whole; equal where the two texts are equal.

    Attributes:
        program: What is compiled: source text, options. Strings, numbers, truth values, None,
            lists and mappings with string keys.
        environment: What compiles it, and for which machine: versions by name, and ``"target"``.
        text: Canonical JSON of both, which an entry holds and ``Store.get`` compares.
        name: Name of the entry's file without its suffix: a hash of each part, so that all
            environments of one program are found by the first.
    """

    __slots__ = ("environment", "name", "program", "text")

    program: Mapping[str, Any]
    environment: Mapping[str, Any]
    text: bytes
    name: str

    def __init__(self, program: Mapping[str, Any], environment: Mapping[str, Any]) -> None:
        """Write both parts as text; see ``canonical`` for what is refused."""
        what, where = canonical(program), canonical(environment)
        self.program = program
        self.environment = environment
        self.text = b'{"environment":%b,"program":%b}' % (where, what)
        self.name = f"{hashlib.sha256(what).hexdigest()}-{hashlib.sha256(where).hexdigest()[:16]}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Key) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"Key({self.name})"
