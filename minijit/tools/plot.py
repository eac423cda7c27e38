"""Draws what bench found as SVG: a row for each workload, a marker for each system, a log axis.

The file needs nothing else and follows the reader's light or dark theme. What a system did on
neighbouring rows of one kind is joined by a line; systems differ by colour and by shape.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

from minijit.tools.comparison import Row
from minijit.tools.results import Results

_PITCH, _GAP, _LETTER, _RIGHT, _WIDTH, _LEGEND_LINE = 17.0, 8.0, 7.4, 24.0, 960, 20.0
# Okabe and Ito's colours, which stay apart for every kind of sight; one is kept for minijit.
_OURS = "#d55e00"
_COLOURS = ("#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a8a8a")
_SHAPES = (
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0", "M-3.5 -3.5h7v7h-7z", "M0 -5l5 5l-5 5l-5 -5z",
    "M0 -4.5l5 8.5h-10z", "M0 4.5l5 -8.5h-10z", "M-4 -1.5h8v3h-8z",
)  # fmt: skip
_COPY = "a copy"
_DASHES = 'class="ceiling" stroke-dasharray="5 3" stroke-width="1.5"'
_STYLE = """
text { font: 12px system-ui, sans-serif; fill: #1f2328 } .title { font-size: 15px }
.page { fill: #ffffff } .grid { stroke: #d8dee4 } .ceiling { stroke: #57606a }
polyline { fill: none; stroke-linejoin: round; stroke-width: 1.5; opacity: .55 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .page { fill: #0d1117 }
.grid { stroke: #30363d } .ceiling { stroke: #9198a1 }
}
"""


@dataclass(frozen=True, slots=True)
class Axis:
    """A logarithmic axis.

    Attributes:
        low: Decimal logarithm of the value at `left`.
        high: That of the value at `right`.
        left: Where it begins on the page.
        right: Where it ends.
    """

    low: float
    high: float
    left: float
    right: float

    @classmethod
    def around(cls, values: Sequence[float], left: float, right: float) -> Axis:
        """Return one that begins a little below the least value and ends above the greatest."""
        low, high = math.log10(min(values)), math.log10(max(values))
        margin = max(0.04 * (high - low), 0.05)
        return cls(low - margin, high + margin, left, right)

    def place(self, value: float) -> float:
        """Return where a value is on the page."""
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return self.left + share * (self.right - self.left)

    def ticks(self) -> list[tuple[float, str]]:
        """Return values with labels: the finest of some divisions whose labels do not meet."""
        powers = range(math.floor(self.low), math.ceil(self.high) + 1)
        ticks: list[tuple[float, str]] = []
        for steps in ((1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,)):
            values = (step * 10.0**power for power in powers for step in steps)
            inside = (v for v in values if self.low <= math.log10(v) <= self.high)
            ticks = [(value, f"{value:.4g}") for value in inside]
            if all(self._apart(a, b) for a, b in itertools.pairwise(ticks)):
                break
        return ticks

    def _apart(self, first: tuple[float, str], second: tuple[float, str]) -> bool:
        room = self.place(second[0]) - self.place(first[0])
        return room > _LETTER * (len(first[1]) + len(second[1])) / 2 + 8


def as_svg(results: Results, names: Sequence[str]) -> str:
    """Return the plot of bytes a second by system, without the small calls, where they say nothing.

    Args:
        results: What to draw.
        names: The systems, in the order of the legend.
    """
    rows = [row for row in results.rows if any(row.rate(name) for name in names)]
    rates = [rate for row in rows for name in names if (rate := row.rate(name))]
    ceiling = results.copy_bytes_per_second
    left = 32 + _LETTER * max((len(row.name) for row in rows), default=8)
    values = [*rates, *([ceiling] if ceiling else [])] or [1e9]
    axis = Axis.around([value / 1e9 for value in values], left, _WIDTH - _RIGHT)
    places = list(_legend([*names, *([_COPY] if ceiling else [])]))
    top = places[-1][1] + 48
    heights = list(_heights(rows, top))
    bottom = (heights[-1] if heights else top) + _PITCH
    size = f'width="{_WIDTH}" height="{bottom + 12:.0f}"'
    box = f'viewBox="0 0 {_WIDTH} {bottom + 12:.0f}"'
    title = f"{results.machine}: GB/s, inputs and outputs counted once"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {box} role="img">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style>",
        '<rect class="page" width="100%" height="100%"/>',
        _text(20, 26, title, 'class="title"'),
        _text(20, 46, results.note or "Further right is faster.", 'class="note"'),
        *_entries(places, names),
        *_grid(axis, top, bottom, ceiling),
    ]
    for row, y in zip(rows, heights, strict=True):
        lines.append(_text(left - 12, y + 4, row.name, 'class="row" text-anchor="end"'))
    # The last drawn lies on top: that is minijit.
    for name in names:
        lines += _series(rows, heights, axis, names, name)
    return "\n".join([*lines, "</svg>"]) + "\n"


def _group(row: Row) -> str:
    """Rows of one function lie together; the last word of a name is the size."""
    return row.name.rpartition(" ")[0]


def _heights(rows: Sequence[Row], top: float) -> Iterator[float]:
    y = top - _PITCH / 2
    for place, row in enumerate(rows):
        new = place > 0 and _group(row) != _group(rows[place - 1])
        y += _PITCH + (_GAP if new else 0)
        yield y


def _legend(labels: Sequence[str]) -> Iterator[tuple[float, float, str]]:
    x, y = 26.0, 68.0
    for label in labels:
        width = 30 + _LETTER * len(label)
        if x + width > _WIDTH - _RIGHT:
            x, y = 26.0, y + _LEGEND_LINE
        yield x, y, label
        x += width


def _entries(places: Sequence[tuple[float, float, str]], names: Sequence[str]) -> Iterator[str]:
    for x, y, label in places:
        sample = f'<path d="M{x - 5:.1f} {y - 4:.1f}h10" {_DASHES}/>'
        yield _marker(x, y - 4, names, label) if label in names else sample
        yield _text(x + 10, y, label, 'class="legend"')


def _grid(axis: Axis, top: float, bottom: float, ceiling: float | None) -> Iterator[str]:
    for value, label in axis.ticks():
        x = axis.place(value)
        yield f'<path class="grid" d="M{x:.1f} {top - 8:.1f}V{bottom:.1f}"/>'
        yield _text(x, top - 14, label, 'class="tick" text-anchor="middle"')
    if ceiling:
        x = axis.place(ceiling / 1e9)
        yield f'<path d="M{x:.1f} {top - 8:.1f}V{bottom:.1f}" {_DASHES}/>'


def _series(
    rows: Sequence[Row], heights: Sequence[float], axis: Axis, names: Sequence[str], name: str
) -> Iterator[str]:
    yield f'<g class="series" data-name={quoteattr(name)}>'
    points = [
        (axis.place(rate / 1e9), y, row)
        for row, y in zip(rows, heights, strict=True)
        if (rate := row.rate(name))
    ]
    for _, group in itertools.groupby(points, key=lambda point: _group(point[2])):
        corners = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in group)
        if " " in corners:
            yield f'<polyline stroke="{_colour(names, name)}" points="{corners}"/>'
    for x, y, row in points:
        rate, time = (row.rate(name) or 0) / 1e9, row.milliseconds[name]
        yield _marker(x, y, names, name, f"{row.name}, {name}: {rate:.4g} GB/s, {time:.4g} ms")
    yield "</g>"


def _colour(names: Sequence[str], name: str) -> str:
    return _OURS if name == "minijit" else _COLOURS[list(names).index(name) % len(_COLOURS)]


def _marker(x: float, y: float, names: Sequence[str], name: str, hint: str = "") -> str:
    shape = _SHAPES[list(names).index(name) % len(_SHAPES)]
    inside = f"<title>{escape(hint)}</title>" if hint else ""
    place = f'class="marker" transform="translate({x:.1f} {y:.1f})"'
    return f'<path d="{shape}" fill="{_colour(names, name)}" {place}>{inside}</path>'


def _text(x: float, y: float, text: str, attributes: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {attributes}>{escape(text)}</text>'
