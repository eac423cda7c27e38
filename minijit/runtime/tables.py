"""Tables as text and as HTML, for what users print or show in a notebook."""

from __future__ import annotations

import html
from collections.abc import Sequence

__all__ = ["html_list", "html_table", "text_table"]


def text_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return aligned columns: numbers to the right, everything else to the left."""
    cells = [list(map(_text, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(header, *cells, strict=True)]
    right = [
        bool(rows) and all(isinstance(row[place], (int, float)) for row in rows)
        for place in range(len(header))
    ]
    lines = [
        "  ".join(
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in (list(header), *cells)
    ]
    return "\n".join(lines)


def html_table(title: str, header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table with every text escaped."""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in header)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(_text(cell))}</td>" for cell in row) + "</tr>"
        for row in rows
    )
    caption = f"<caption>{html.escape(title)}</caption>"
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def html_list(items: Sequence[str]) -> str:
    """Return a list with every text escaped."""
    return "<ul>" + "".join(f"<li>{html.escape(item)}</li>" for item in items) + "</ul>"


def _text(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
