"""A key is one text: the same for the same data in every process, another for any other data."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from minijit.runtime.disk import Key, Store
from minijit.runtime.disk.key import canonical
from tests.runtime.disk.samples import is_right, make_entry, make_key

HOSTILE = (
    "",
    "\0",
    "../../etc/passwd",
    'quote " backslash \\ brace } {',
    '","program":{}},"meta":{',
    "line\nfeed\r\u2028\u2029",
    "\ud800 alone",
    "\U0001f600 é ｅ",
    "'; import os; os.system('true') #",
    "x" * 100_000,
)


def test_order_is_no_difference() -> None:
    assert Key({"a": 1, "b": [1, 2]}, {}) == Key({"b": (1, 2), "a": 1}, {})


NEAR_MISSES: tuple[tuple[Any, Any], ...] = (
    (1, 1.0),
    (1, True),
    (0.0, -0.0),
    (1, "1"),
    (None, "null"),
    (0.1, 0.1 + 2**-56),
    ([1, 2], [2, 1]),
    ([], {}),
    ("a", "a "),
    ("é", "e\u0301"),
)


@pytest.mark.parametrize(("one", "other"), NEAR_MISSES)
def test_any_other_value_is_another_key(one: Any, other: Any) -> None:
    keys = [Key({"x": one}, {}), Key({"x": other}, {}), Key({}, {"x": one}), Key({}, {"x": other})]
    assert len(set(keys)) == len({key.name for key in keys}) == 4


def test_both_parts_are_in_the_name() -> None:
    one, other = make_key(1, numba="0.68"), make_key(1, numba="0.69")
    assert one.name.split("-")[0] == other.name.split("-")[0]
    assert one.name != other.name


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), b"bytes", object(), {1: 2, "a": 3}])
def test_what_is_no_json_is_refused(bad: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        Key({"x": bad}, {})


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_is_data(store: Store, text: str) -> None:
    key = Key({text: text}, {text: [text]})
    store.put(key, make_entry(key, name=text))
    found = store.get(key)
    assert found is not None
    assert found.meta["name"] == text
    (record,) = store
    assert record.key == key
    assert not record.problem


def test_hostile_texts_are_different_keys(store: Store) -> None:
    keys = [Key({"source": text}, {}) for text in HOSTILE]
    for key in keys:
        store.put(key, make_entry(key))
    entries = [store.get(key) for key in keys]
    assert all(entry and is_right(key, entry) for key, entry in zip(keys, entries, strict=True))


def test_the_key_is_the_same_in_every_process(tmp_path: Path) -> None:
    script = (
        "from minijit.runtime.disk import Key\n"
        "names = {f'option {n}': n / 7 for n in range(50)}\n"
        "environment = dict.fromkeys(set(names), 'é')\n"  # in the order of this process's hashes
        "print(Key(names, environment).name)"
    )
    repository = Path(__file__).resolve().parents[3]
    names = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(repository)},
            cwd=place,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed, place in (("1", tmp_path), ("2", repository), ("random", "/"))
    }
    assert len(names) == 1


def test_canonical_text_is_ascii_without_blanks() -> None:
    assert canonical({"b": "é\n", "a": [1, 2.5, None, True]}) == (
        b'{"a":[1,2.5,null,true],"b":"\\u00e9\\n"}'
    )
