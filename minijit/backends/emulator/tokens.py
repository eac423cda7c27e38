"""Statements of a PTX text: comments and hints dropped, cut at semicolons and braces, numbered."""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["split_list", "statements"]

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_PRAGMA = re.compile(r'\.pragma\s+"[^"]*"\s*;')
# These take a line of their own and have no semicolon.
_LINE = re.compile(r"\.(version|target|address_size|file|loc)\b")
_SECTION = re.compile(r"\.section\b.*?\{.*?\}", re.DOTALL)
_HEADER = re.compile(r"(\.\w+\s+)*\.(entry|func)\b")
_LABEL = re.compile(r"[$%\w.]+")
_MARK = re.compile(r"::|[;{}:]")


def statements(text: str) -> Iterator[tuple[int, str]]:
    """Yield line numbers and statements; labels end in ``:``, ``{`` and ``}`` come alone."""
    for pattern in (_COMMENT, _PRAGMA, _SECTION):
        text = pattern.sub(_blank, text)
    held, start, depth = "", 0, 0
    for number, line in enumerate(text.split("\n"), 1):
        if not held and _LINE.match(line.strip()):
            yield number, " ".join(line.split()).rstrip(";")
            continue
        place = 0
        for found in [*_MARK.finditer(line), None]:
            piece = line[place : found.start() if found else None]
            start = start if held or not piece.strip() else number
            held += piece if held else piece.lstrip()
            if found is None:
                break
            place, mark = found.end(), found[0]
            if mark == "::" or depth:
                depth += (mark == "{") - (mark == "}")
                held += mark
            elif mark == ":" and _LABEL.fullmatch(held.strip()):
                yield start, held.strip() + ":"
                held = ""
            elif mark == ";":
                if held.strip():
                    yield start, " ".join(held.split())
                held = ""
            elif mark == "{" and held.strip() and not _HEADER.match(held):
                depth, held = 1, held + mark
            else:
                if held.strip():
                    yield start, " ".join(held.split())
                yield number, mark
                held = ""
        held = held + " " if held.strip() else ""


def _blank(found: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", found[0])


def split_list(text: str) -> list[str]:
    """Split at commas that are outside brackets."""
    parts, depth, start = [], 0, 0
    for place, letter in enumerate(text):
        if letter in "([{":
            depth += 1
        elif letter in ")]}":
            depth -= 1
        elif letter == "," and depth == 0:
            parts.append(text[start:place].strip())
            start = place + 1
    last = text[start:].strip()
    return [*parts, last] if last else parts
