"""The generated source at the end of a PTX text, as comments: faults quote it in any process."""

from __future__ import annotations

import re

__all__ = ["quoted", "with_listing"]

_HEAD = "//= "
_LINE = "//| "


_FILE = re.compile(r'^\s*\.file\s+\d+\s+"([^"]*)"', re.MULTILINE)


def with_listing(ptx: str, source: str) -> str:
    """Return ``ptx`` with ``source``, to whose lines its ``.loc`` directives lead."""
    found = _FILE.search(ptx)
    filename = found[1] if found else ""
    lines = [f"{_HEAD}{filename}", *(f"{_LINE}{line}" for line in source.splitlines())]
    return "\n".join([ptx.rstrip("\n"), *lines]) + "\n"


def quoted(ptx: str, filename: str, line: int) -> str | None:
    """Return the text of that line of a listed file without its indentation, or None."""
    lines = ptx.splitlines()
    if f"{_HEAD}{filename}" not in lines:
        return None
    place = lines.index(f"{_HEAD}{filename}") + line
    if line < 1 or place >= len(lines) or not lines[place].startswith(_LINE):
        return None
    return lines[place].removeprefix(_LINE).strip()
