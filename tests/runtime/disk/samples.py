"""Keys and entries for the tests: what a key stands for can be told from its entry."""

from __future__ import annotations

import hashlib
from typing import Any

from minijit.runtime.disk import Entry, Key

ENVIRONMENT = {"target": {"device": "cpu", "name": "znver4"}, "minijit": "1", "numba": "0.68.1"}


def make_key(number: int = 0, **environment: Any) -> Key:
    program = {"source": f"def kernel(x):\n    return x + {number}\n", "options": {"n": number}}
    return Key(program, ENVIRONMENT | environment)


def make_entry(key: Key, size: int = 1000, **meta: Any) -> Entry:
    seed = hashlib.sha256(key.text).digest()
    code = (seed * (size // len(seed) + 1))[:size]
    facts = {"name": "softmax", "symbol": key.name, "compile_seconds": 0.1, "resources": {"r": 32}}
    return Entry(facts | meta, {"code": code, "source": key.text})


def is_right(key: Key, entry: Entry) -> bool:
    """Whether an entry is whole, and that of its key."""
    return entry == make_entry(key, len(entry.sections.get("code", b"")))
