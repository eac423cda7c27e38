"""The format of an entry: bytes that say what they are, whose they are, and that they are whole.

========  ==========================================================================
bytes     what
========  ==========================================================================
8         ``MAGIC``
4         ``SCHEMA``, little-endian, as all numbers
4         length of the header
          header: canonical JSON ``{"key":...,"meta":...,"sections":[[name,length],...]}``
          the sections, one after another
32        SHA-256 of everything before
========  ==========================================================================

Nothing in it is ever executed or unpickled; a number is checked before it is used.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import struct
from collections.abc import Mapping
from typing import Any, Literal, NoReturn

from minijit.runtime.disk.key import Key, canonical

__all__ = [
    "MAX_ENTRY_BYTES",
    "MAX_HEADER_BYTES",
    "MAX_SECTIONS",
    "SCHEMA",
    "CorruptEntry",
    "Entry",
    "Fault",
    "decode",
    "decode_any",
    "encode",
]

MAGIC = b"\x93minijit"
"""A first byte that is no text, so that no text file passes for an entry."""
SCHEMA = 1
"""Goes up when this format changes; the folder of a store is named for it."""
MAX_HEADER_BYTES = 2**20
MAX_ENTRY_BYTES = 2**28
MAX_SECTIONS = 32

_PRELUDE = struct.Struct("<8sII")
_DIGEST_BYTES = 32
_MIN_BYTES = _PRELUDE.size + _DIGEST_BYTES

Fault = Literal[
    "kind", "owner", "unreadable", "size", "magic", "schema", "checksum", "header", "key"
]
"""The check that a file failed: it is no regular file; others own or may write it; reading failed;
it is too long or too short; it is no entry, or one of another schema; it was damaged; its header is
not what this module writes; it belongs to another key."""


class CorruptEntry(Exception):
    """A file that must not be used.

    Attributes:
        fault: The check that it failed.
    """

    def __init__(self, fault: Fault, detail: str) -> None:
        super().__init__(detail)
        self.fault: Fault = fault


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """What is stored for a key.

    Attributes:
        meta: Facts about the sections, JSON with string keys. The store itself reads two, where
            they are there: ``"name"``, shown to people, and ``"compile_seconds"``.
        sections: The binaries by name.
    """

    meta: Mapping[str, Any]
    sections: Mapping[str, bytes]


def encode(key: Key, entry: Entry) -> bytes:
    """Return the bytes of an entry.

    Raises:
        TypeError: ``entry.meta`` is no JSON.
        ValueError: a limit is passed, or a number is not finite.
    """
    table = [[name, len(data)] for name, data in entry.sections.items()]
    header = _before_meta(key) + canonical({"meta": entry.meta, "sections": table})[1:]
    total = _MIN_BYTES + len(header) + sum(map(len, entry.sections.values()))
    for what, found, most in (
        ("sections", len(table), MAX_SECTIONS),
        ("bytes of header", len(header), MAX_HEADER_BYTES),
        ("bytes", total, MAX_ENTRY_BYTES),
    ):
        if found > most:
            raise ValueError(f"an entry of {found} {what}, more than {most}")
    prelude = _PRELUDE.pack(MAGIC, SCHEMA, len(header))
    content = b"".join((prelude, header, *entry.sections.values()))
    return content + hashlib.sha256(content).digest()


def decode(data: bytes, key: Key) -> Entry:
    """Return the entry of ``key`` that ``data`` is, after every check.

    Raises:
        CorruptEntry: a check failed.
    """
    header = _header(data)
    expected = _before_meta(key)
    if not header.startswith(expected):
        raise CorruptEntry("key", "it belongs to another key")
    rest = b"{" + header[len(expected) :]
    fields = _parsed(rest)
    if set(fields) != {"meta", "sections"} or not isinstance(fields["meta"], dict):
        raise CorruptEntry("header", "its header has other fields than an entry's")
    if _canonical_again(fields) != rest:
        raise CorruptEntry("header", "its header is not in canonical form")
    body = memoryview(data)[_PRELUDE.size + len(header) : -_DIGEST_BYTES]
    return Entry(fields["meta"], _sections(fields["sections"], body))


def decode_any(data: bytes) -> tuple[Key, Entry]:
    """Return whatever entry ``data`` is, with the key that it says it has.

    Raises:
        CorruptEntry: a check failed.
    """
    key = _parsed(_header(data)).get("key")
    if not isinstance(key, dict) or set(key) != {"environment", "program"}:
        raise CorruptEntry("header", "its header has no key")
    if not all(isinstance(part, dict) for part in key.values()):
        raise CorruptEntry("header", "a part of its key is no mapping")
    try:
        found = Key(key["program"], key["environment"])
    except (ValueError, RecursionError):
        raise CorruptEntry("header", "its key cannot be written again") from None
    return found, decode(data, found)


def _before_meta(key: Key) -> bytes:
    return b'{"key":%b,' % key.text


def _header(data: bytes) -> bytes:
    """Return the header of bytes that are whole."""
    if len(data) < _MIN_BYTES:
        raise CorruptEntry("size", f"{len(data)} bytes are fewer than an entry has")
    magic, schema, length = _PRELUDE.unpack_from(data)
    if magic != MAGIC:
        raise CorruptEntry("magic", "it does not begin as an entry does")
    if schema != SCHEMA:
        raise CorruptEntry("schema", f"it has schema {schema}, not {SCHEMA}")
    if length > min(MAX_HEADER_BYTES, len(data) - _MIN_BYTES):
        raise CorruptEntry("header", f"a header of {length} bytes does not fit in it")
    content = memoryview(data)[:-_DIGEST_BYTES]
    if hashlib.sha256(content).digest() != data[-_DIGEST_BYTES:]:
        raise CorruptEntry("checksum", "its checksum does not match")
    return data[_PRELUDE.size : _PRELUDE.size + length]


def _parsed(text: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(text, parse_constant=_refuse_constant)
    # Unicode's and JSON's errors are ValueErrors, as is an integer of too many digits.
    except (ValueError, RecursionError) as error:
        raise CorruptEntry("header", f"its header cannot be read: {error}") from None
    if not isinstance(fields, dict):
        raise CorruptEntry("header", "its header is no mapping")
    return fields


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _canonical_again(fields: dict[str, Any]) -> bytes | None:
    try:
        return canonical(fields)
    except (ValueError, RecursionError):  # 1e999 is read as infinity
        return None


def _sections(table: object, body: memoryview) -> dict[str, bytes]:
    if not isinstance(table, list) or len(table) > MAX_SECTIONS:
        raise CorruptEntry("header", "its table of sections is none")
    sections: dict[str, bytes] = {}
    start = 0
    for row in table:
        match row:
            case [str(name), int(length)] if type(length) is int and length >= 0:
                if name in sections:
                    raise CorruptEntry("header", f"it has two sections {name!r}")
                sections[name] = bytes(body[start : start + length])
                start += length
            case _:
                raise CorruptEntry("header", "a row of its table of sections is none")
    if start != len(body):
        raise CorruptEntry("header", f"its sections are {start} bytes, not {len(body)}")
    return sections
