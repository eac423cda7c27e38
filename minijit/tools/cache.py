"""`python -m minijit cache`: what the disk cache holds, whether it is whole, and cleaning it.

`MINIJIT_CACHE_DIR` names another folder than the one that is used by default.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from minijit.runtime.disk import Record, Store, default_store

_LONGEST = 32
_UNITS = (("d", 86400), ("h", 3600), ("min", 60))


def main(argv: Sequence[str]) -> int:
    """Run one action; 1 when it cannot be done, or `verify` found a file that fails a check."""
    parser = argparse.ArgumentParser(prog="python -m minijit cache", description=__doc__)
    parser.add_argument(
        "action",
        nargs="?",
        choices=ACTIONS,
        default="info",
        help="info: folder, mode, sizes; list: every entry; verify: read and check every file; "
        "prune: delete what is beyond the bounds, and stale files; clear: delete everything",
    )
    action = parser.parse_args(argv).action
    store = default_store()
    if store is None:
        print("no disk cache: it is switched off (MINIJIT_CACHE), or there is no home folder")
        return 0 if action == "info" else 1
    if action in ("prune", "clear") and store.access != "rw":
        print(f"{store.folder} is not ours to change (mode {store.access})")
        return 1
    return ACTIONS[action](store)


def _info(store: Store) -> int:
    entries, size, quarantined = store.usage()
    bound = store.policy.max_bytes
    print(f"folder      {store.folder}")
    print(f"mode        {'refused' if store.access == 'none' else store.access}")
    print(f"entries     {entries} of at most {store.policy.max_entries}")
    print(f"bytes       {size}" + (f" of at most {bound}" if bound >= 0 else ""))
    print(f"quarantine  {quarantined}")
    return 0


def _list(store: Store) -> int:
    rows = [("entry", "target", "bytes", "used", "compiled in", "versions")]
    records = sorted(store, key=lambda record: record.used, reverse=True)
    rows += [_row(record) for record in records]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip())
    return 0


def _row(record: Record) -> tuple[str, str, str, str, str, str]:
    age = _age(time.time() - record.used)
    if record.key is None:
        return (_short(record.path[-_LONGEST:]), "-", str(record.size), age, "-", record.problem)
    seconds = record.meta.get("compile_seconds")
    environment = dict(record.key.environment)
    target = environment.pop("target", "-")
    versions = (f"{name} {_short(value, 16)}" for name, value in sorted(environment.items()))
    return (
        _short(record.meta.get("name", "-")),
        _short(target),
        str(record.size),
        age,
        f"{seconds:.3f} s" if isinstance(seconds, float) else "-",
        " ".join(versions),
    )


def _verify(store: Store) -> int:
    checked = list(store)
    bad = [record for record in checked if record.problem]
    for record in bad:
        print(f"{record.path}: {record.problem}")
    print(f"{len(checked) - len(bad)} entries are whole, {len(bad)} files are not")
    if bad:
        print("what is not is never used, and replaced when it is needed")
    return 1 if bad else 0


def _prune(store: Store) -> int:
    pruned = store.prune()
    print(f"deleted {pruned.evicted} entries and {pruned.stale} stale files")
    print(f"{pruned.entries} entries of {pruned.size} bytes are left")
    return 0


def _clear(store: Store) -> int:
    print(f"deleted {store.clear()} entries")
    return 0


ACTIONS: Mapping[str, Callable[[Store], int]] = {
    "info": _info,
    "list": _list,
    "verify": _verify,
    "prune": _prune,
    "clear": _clear,
}


def _short(value: Any, longest: int = _LONGEST) -> str:
    """Return a value in one line; what is stored may hold anything, control characters too."""
    if isinstance(value, Mapping):
        value = " ".join(map(str, value.values()))
    text = "".join(sign if sign.isprintable() else "?" for sign in str(value))
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _age(seconds: float) -> str:
    for unit, length in _UNITS:
        if seconds >= length:
            return f"{seconds / length:.0f} {unit} ago"
    return "just now"
