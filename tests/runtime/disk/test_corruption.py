"""Whatever lies where an entry should be: it is not used, said once, moved aside, and healed."""

from __future__ import annotations

import json
import os
import random
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from minijit.runtime.disk import Store, container
from minijit.runtime.disk.container import encode
from tests.runtime.disk.samples import is_right, make_entry, make_key
from tests.runtime.disk.test_container import DATA, KEY, header_of, mutated, sealed
from tests.sampling import DEEP

OTHER = make_key(99)
HEADER_END = len(DATA) - 32 - sum(map(len, make_entry(KEY).sections.values()))
CODE_END = HEADER_END + 1000


def flipped(position: int) -> bytes:
    return DATA[:position] + bytes((DATA[position] ^ 4,)) + DATA[position + 1 :]


def with_schema(schema: int) -> bytes:
    return sealed(header_of(KEY, '"meta":{},"sections":[]}'), schema=schema)


def link_to_another_entry(path: Path) -> None:
    aside = path.with_name("aside")
    aside.write_bytes(DATA)
    path.symlink_to(aside)


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(10 * 2**30)


def folder_with_a_file(path: Path) -> None:
    path.mkdir()
    (path / "file").write_text("somebody's")


def writer(data: bytes) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        path.write_bytes(data)

    return write


KINDS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "empty": ("size", writer(b"")),
    "cut in the magic": ("size", writer(DATA[:5])),
    "cut after the lengths": ("size", writer(DATA[:16])),
    "cut in the header": ("header", writer(DATA[:100])),
    "cut after the header": ("header", writer(DATA[:HEADER_END])),
    "cut after a section": ("checksum", writer(DATA[:CODE_END])),
    "cut before the checksum": ("checksum", writer(DATA[:-32])),
    "cut in the checksum": ("checksum", writer(DATA[:-1])),
    "longer": ("checksum", writer(DATA + b"\0")),
    "bit in the magic": ("magic", writer(flipped(3))),
    "bit in the length": ("header", writer(flipped(14))),
    "bit in the header": ("checksum", writer(flipped(40))),
    "bit in a section": ("checksum", writer(flipped(HEADER_END + 50))),
    "bit in the checksum": ("checksum", writer(flipped(len(DATA) - 3))),
    "random bytes": ("magic", writer(random.Random(1).randbytes(5000))),
    "another entry": ("key", writer(encode(OTHER, make_entry(OTHER)))),
    "another target": ("key", writer(encode(make_key(1, target="sm_90"), make_entry(KEY)))),
    "older schema": ("schema", writer(with_schema(0))),
    "newer schema": ("schema", writer(with_schema(2))),
    "deep header": ("header", writer(sealed(header_of(KEY, '"meta":' + "[" * 10**6)))),
    "huge header": ("header", writer(sealed(b'"' * (container.MAX_HEADER_BYTES + 1)))),
    "long number": ("header", writer(sealed(header_of(KEY, '"meta":{"x":' + "9" * 10**5 + "}")))),
    "pickle": ("size", writer(b"cos\nsystem\n(S'touch /tmp/x'\ntR.")),
    "folder": ("kind", folder_with_a_file),
    "empty folder": ("kind", lambda path: path.mkdir()),
    "dangling link": ("kind", lambda path: path.symlink_to("nowhere")),
    "link to itself": ("kind", lambda path: path.symlink_to(path)),
    "link to an entry": ("kind", link_to_another_entry),
    "fifo": ("kind", lambda path: os.mkfifo(path, 0o600)),
    "ten gigabytes": ("size", sparse),
}


@pytest.mark.parametrize("kind", KINDS)
def test_kind(store: Store, kind: str) -> None:
    fault, make = KINDS[kind]
    path = Path(store._path(KEY))
    path.parent.mkdir(parents=True, mode=0o700)
    make(path)
    if not path.is_symlink() and path.is_file():
        path.chmod(0o600)
    if fault != "kind":
        assert [record.problem.split(":")[0] for record in store.verify()] == [fault]
    started = time.monotonic()
    with pytest.warns(UserWarning, match="not used") as caught:
        assert store.get(KEY) is None
    assert time.monotonic() - started < 5, "it hangs"
    assert len(caught) == 1
    assert str(path) in str(caught[0].message)
    assert store.stats()[f"corrupt_{fault}"] == store.stats()["misses"] == 1
    assert not os.path.lexists(path), "it is moved aside"
    with warnings.catch_warnings(action="error"):
        store.put(KEY, make_entry(KEY))
        found = store.get(KEY)
    assert found is not None
    assert is_right(KEY, found)
    assert store.verify() == ()


def test_an_unreadable_file(users_folder: Path) -> None:
    store = Store(users_folder / "cache")
    store.put(KEY, make_entry(KEY))
    Path(store._path(KEY)).chmod(0)
    with pytest.warns(UserWarning, match="cannot be opened"):
        assert store.get(KEY) is None
    assert store.stats()["corrupt_unreadable"] == 1
    store.put(KEY, make_entry(KEY))
    assert store.get(KEY) is not None


def test_many_faults_are_one_warning(store: Store) -> None:
    keys = [make_key(number) for number in range(20)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for key in keys:
            store.put(key, make_entry(key))
            Path(store._path(key)).write_bytes(b"x" * 100)
            assert store.get(key) is None
    assert len(caught) == 1
    assert store.usage() == (0, 0, 20)


def test_a_warning_that_is_an_error_is_raised_once_and_heals(store: Store) -> None:
    store.put(KEY, make_entry(KEY))
    Path(store._path(KEY)).write_bytes(b"")
    with warnings.catch_warnings(action="error"):
        with pytest.raises(UserWarning, match="not used"):
            store.get(KEY)
        assert store.get(KEY) is None
        store.put(KEY, make_entry(KEY))
        assert store.get(KEY) is not None


def test_entries_that_changed_places_are_not_run(store: Store) -> None:
    store.put(KEY, make_entry(KEY))
    store.put(OTHER, make_entry(OTHER))
    one, other = Path(store._path(KEY)), Path(store._path(OTHER))
    aside = one.with_suffix(".aside")
    one.rename(aside)
    other.rename(one)
    aside.rename(other)
    assert len(store.verify()) == 2
    with pytest.warns(UserWarning, match="another key"):
        assert (store.get(KEY), store.get(OTHER)) == (None, None)
    assert store.stats()["corrupt_key"] == 2


@pytest.mark.filterwarnings("ignore::minijit.graph.errors.CacheWarning")
def test_mutated_files(store: Store) -> None:
    dice = random.Random(5)
    path = Path(store._path(KEY))
    rounds = 20_000 if DEEP else 1_000
    rejected = 0
    for _ in range(rounds):
        store.put(KEY, make_entry(KEY))
        path.write_bytes(mutated(DATA, dice))
        found = store.get(KEY)
        rejected += found is None
        assert found is None or path.read_bytes()[16 : 16 + len(KEY.text)].startswith(b'{"key":')
    store.put(KEY, make_entry(KEY))
    healed = store.get(KEY)
    assert healed is not None
    assert is_right(KEY, healed)
    assert rejected == sum(n for name, n in store.stats().items() if name.startswith("corrupt"))
    assert rejected > rounds / 2


@pytest.mark.parametrize("payload", range(10))
def test_payloads_are_not_executed(store: Store, tmp_path: Path, payload: int) -> None:
    mark = tmp_path / "executed"
    command = f"touch {mark}"
    pickled = f"cposix\nsystem\n(S'{command}'\ntR.".encode()
    texts: list[bytes] = [
        pickled,
        b"\x80\x04" + pickled,
        f"import os; os.system({command!r})".encode(),
        f"#!/bin/sh\n{command}\n".encode(),
        b'{"__reduce__":["os.system","' + command.encode() + b'"]}',
        f"!!python/object/apply:os.system ['{command}']".encode(),
        sealed(pickled),
        sealed(header_of(KEY, json.dumps({"meta": {"py/reduce": command}})[1:])),
        sealed(header_of(KEY, '"meta":{},"sections":[["code",9]]}'), pickled),
        f"__import__('os').system('{command}')".encode() * 50,
    ]
    path = Path(store._path(KEY))
    path.parent.mkdir(parents=True)
    path.write_bytes(texts[payload])
    path.chmod(0o600)
    with pytest.warns(UserWarning, match="not used"):
        assert store.get(KEY) is None
    assert not mark.exists()
