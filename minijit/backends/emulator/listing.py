"""The generated source at the end of a PTX text, as comments: faults quote it in any process."""

from __future__ import annotations

__all__ = ["quoted", "with_listing"]

_HEAD = "//= "
_LINE = "//| "


def with_listing(ptx: str, filename: str, source: str) -> str:
    """Return ``ptx`` with ``source``, which its ``.loc`` directives call ``filename``."""
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
