"""The format: what is written is read; bytes that were changed in any way are not an entry."""

from __future__ import annotations

import hashlib
import json
import random
import struct
from typing import Any

import pytest

from minijit.runtime.disk import Entry, Key, container
from minijit.runtime.disk.container import CorruptEntry, decode, decode_any, encode
from tests.runtime.disk.samples import is_right, make_entry, make_key

KEY = make_key(1)
DATA = encode(KEY, make_entry(KEY))
PRELUDE = struct.calcsize("<8sII")


def sealed(header: bytes, body: bytes = b"", *, schema: int = container.SCHEMA) -> bytes:
    """A file with that header, and a checksum that is right."""
    content = struct.pack("<8sII", container.MAGIC, schema, len(header)) + header + body
    return content + hashlib.sha256(content).digest()


def header_of(key: Key, rest: str) -> bytes:
    return b'{"key":' + key.text + b"," + rest.encode()


def fault_of(data: bytes, key: Key = KEY) -> str:
    with pytest.raises(CorruptEntry) as caught:
        decode(data, key)
    with pytest.raises(CorruptEntry):
        decode_any(data)
    return caught.value.fault


@pytest.mark.parametrize(
    "sections", [{}, {"code": b""}, {"a": b"1", "b": b"", "c": bytes(range(256)) * 40}]
)
def test_round_trip(sections: dict[str, bytes]) -> None:
    entry = Entry({"name": "é\n", "resources": {"registers": 32}, "x": [None, 1.5]}, sections)
    data = encode(KEY, entry)
    assert decode(data, KEY) == entry
    assert list(decode(data, KEY).sections) == list(sections)
    assert decode_any(data) == (KEY, entry)
    assert encode(*decode_any(data)) == data


def test_every_truncation_is_found() -> None:
    for length in range(len(DATA)):
        fault_of(DATA[:length])


def test_every_flipped_bit_is_found() -> None:
    faults = set()
    for position in range(len(DATA)):
        bit = 1 << position % 8
        changed = DATA[:position] + bytes((DATA[position] ^ bit,)) + DATA[position + 1 :]
        faults.add(fault_of(changed))
    assert faults == {"magic", "schema", "header", "checksum"}


def test_an_entry_is_only_that_of_its_key() -> None:
    for other in (make_key(2), make_key(1, numba="0.68.2"), Key({}, {})):
        with pytest.raises(CorruptEntry, match="another key"):
            decode(DATA, other)


@pytest.mark.parametrize(
    ("rest", "body"),
    [
        ("", b""),
        ('"meta":{},"sections":[]', b""),
        ('"meta":{},"sections":[]}', b"x"),
        ('"meta":{},"sections":[["a",2]]}', b"x"),
        ('"meta":{},"sections":[["a",-1],["b",2]]}', b"x"),
        ('"meta":{},"sections":[["a",true]]}', b"x"),
        ('"meta":{},"sections":[["a",1.0]]}', b"x"),
        ('"meta":{},"sections":[["a",1],["a",0]]}', b"x"),
        ('"meta":{},"sections":[[1,1]]}', b"x"),
        ('"meta":{},"sections":[["a"]]}', b""),
        ('"meta":{},"sections":{}}', b""),
        ('"meta":{},"sections":[["a",99999999999999999999]]}', b"x"),
        ('"meta":[],"sections":[]}', b""),
        ('"meta":{"a":1e999},"sections":[]}', b""),
        ('"meta":{"a":NaN},"sections":[]}', b""),
        ('"meta":{"a":1,"a":2},"sections":[]}', b""),
        ('"meta": {},"sections":[]}', b""),
        ('"meta":{},"sections":[],"x":1}', b""),
        ('"sections":[],"meta":{}}', b""),
        ('"meta":{"a":"\\ud800"},"sections":[]}x', b""),
        ('"meta":' + "[" * 500_000, b""),
        ('"meta":{"a":' + "[" * 900 + "]" * 900 + "," + '"sections":[]}', b""),
        ('"meta":{"a":' + "9" * 10_000 + '},"sections":[]}', b""),
        (f'"meta":{{}},"sections":{json.dumps([[str(n), 0] for n in range(33)])}}}', b""),
    ],
)
def test_a_header_that_was_not_written_here_is_refused(rest: str, body: bytes) -> None:
    assert fault_of(sealed(header_of(KEY, rest), body)) == "header"


@pytest.mark.parametrize("header", [b"", b"[]", b"\xff\xfe", b'{"key":{}}', b"[" * 2**20, b"0" * 9])
def test_a_header_without_a_key_is_refused(header: bytes) -> None:
    assert fault_of(sealed(header)) == "key"


@pytest.mark.parametrize("schema", [0, 2, 2**32 - 1])
def test_other_schemas_are_refused(schema: int) -> None:
    header = header_of(KEY, '"meta":{},"sections":[]}')
    assert fault_of(sealed(header, schema=schema)) == "schema"
    assert decode(sealed(header), KEY) == Entry({}, {})


def test_a_header_beyond_the_limit_is_refused_unread() -> None:
    assert fault_of(sealed(b" " * (container.MAX_HEADER_BYTES + 1))) == "header"


@pytest.mark.parametrize(
    "entry",
    [
        Entry({}, {str(n): b"" for n in range(container.MAX_SECTIONS + 1)}),
        Entry({"text": "x" * container.MAX_HEADER_BYTES}, {}),
        Entry({"x": float("nan")}, {}),
    ],
)
def test_what_could_not_be_read_is_not_written(entry: Entry) -> None:
    with pytest.raises(ValueError, match=r"more than|JSON"):
        encode(KEY, entry)


def test_an_entry_beyond_the_limit_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container, "MAX_ENTRY_BYTES", len(DATA) - 1)
    with pytest.raises(ValueError, match="bytes, more than"):
        encode(KEY, make_entry(KEY))


def mutated(data: bytes, dice: random.Random) -> bytes:
    """Change bytes as faults and attackers do; half of the time with a checksum that is right."""
    changed = bytearray(data)
    for _ in range(dice.choice((1, 1, 2, 8))):
        start = dice.randrange(len(changed) + 1)
        end = min(len(changed), start + dice.choice((0, 1, 1, 4, 50)))
        choices: tuple[bytes, ...] = (
            dice.randbytes(end - start),
            b"",
            dice.choice((b'"', b"[", b"{}", b"null", b"1e999", b"\xff", b"\0" * 8)),
            bytes(changed[start:end]) * 2,
        )
        changed[start:end] = dice.choice(choices)
    if dice.random() < 0.5:
        content = bytes(changed[:-32])
        return content + hashlib.sha256(content).digest()
    return bytes(changed)


def test_mutated_entries_are_refused_or_right() -> None:
    dice = random.Random(20_000)
    outcomes: dict[str, int] = {}
    for _ in range(20_000):
        data = mutated(DATA, dice)
        try:
            found: Any = decode(data, KEY)
        except CorruptEntry as error:
            outcome = error.fault
        else:
            # What is inside the sections is the attacker's, once the checksum is; the key is not.
            outcome = "right" if is_right(KEY, found) else "sealed"
            assert data[-32:] == hashlib.sha256(data[:-32]).digest()
            assert decode_any(data)[0] == KEY
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
    assert {"checksum", "header", "key", "magic", "schema", "sealed"} <= set(outcomes)


def test_mutations_without_a_new_checksum_never_pass() -> None:
    dice = random.Random(7)
    for _ in range(2_000):
        data = mutated(DATA, dice)
        if data != DATA and data[-32:] == DATA[-32:]:
            fault_of(data)
