"""The plot is well-formed SVG whose axis, markers and labels are where the figures say."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from xml.etree import ElementTree as ET

import pytest

from minijit.tools.comparison import Row
from minijit.tools.plot import Axis, as_svg
from minijit.tools.results import Results
from minijit.tools.sweeps import GPU, sweeps
from minijit.tools.workloads import WORKLOADS

SVG = "{http://www.w3.org/2000/svg}"
NAMES = ("cupy", "cupy.fuse", "jax", "torch", "minijit")
LETTER = 7.0  # of 12 px text, on the wide side


def row(name: str, kind: str = "row", **gigabytes: float) -> Row:
    """A workload that moves 1 GB, at so many GB/s."""
    times = {system: 1e3 / rate for system, rate in gigabytes.items()}
    return Row(name, kind, 10**9, times, {}, {}, {}, {})


def results(*rows: Row, ceiling: float | None = 4.2e12, note: str = "") -> Results:
    return Results({}, "cuda", "a <card> & more", note, ceiling, {}, {}, rows, {}, ())


def everything() -> Results:
    """Every workload of a GPU, a system faster than the one before."""
    rows = [
        row(w.name, w.kind, **{name: 150.0 * 2**place for place, name in enumerate(NAMES)})
        for w in (*WORKLOADS, *sweeps(GPU))
    ]
    return results(*rows)


def parsed(drawn: Results, names: tuple[str, ...] = NAMES) -> ET.Element:
    return ET.fromstring(as_svg(drawn, names))


def texts(root: ET.Element, kind: str) -> list[ET.Element]:
    return [text for text in root.iter(f"{SVG}text") if text.get("class") == kind]


def number(element: ET.Element, name: str) -> float:
    return float(element.get(name) or "nan")


def box(text: ET.Element) -> tuple[float, float, float, float]:
    """Left, right, top and bottom of a label."""
    width = LETTER * len(text.text or "")
    share = {"middle": 0.5, "end": 1.0}.get(text.get("text-anchor") or "", 0.0)
    left, y = number(text, "x") - share * width, number(text, "y")
    return left, left + width, y - 10, y + 3


def places(root: ET.Element, system: str) -> list[tuple[float, float]]:
    (series,) = (g for g in root.iter(f"{SVG}g") if g.get("data-name") == system)
    found = []
    for marker in series.iter(f"{SVG}path"):
        at = re.fullmatch(r"translate\((\S+) (\S+)\)", marker.get("transform") or "")
        assert at is not None
        found.append((float(at[1]), float(at[2])))
    return found


def test_there_is_one_series_a_system_with_a_marker_a_row() -> None:
    drawn = everything()
    root = parsed(drawn)
    assert [g.get("data-name") for g in root.iter(f"{SVG}g")] == list(NAMES)
    rows = [r for r in drawn.rows if r.kind != "small"]
    assert [text.text for text in texts(root, "row")] == [r.name for r in rows]
    heights = [number(text, "y") - 4 for text in texts(root, "row")]
    for name in NAMES:
        assert [y for _, y in places(root, name)] == pytest.approx(heights, abs=0.2)
    assert [text.text for text in texts(root, "legend")] == [*NAMES, "a copy"]


def test_colours_and_shapes_differ() -> None:
    root = parsed(everything())
    looks = set()
    for series in root.iter(f"{SVG}g"):
        marker = series.find(f"{SVG}path")
        assert marker is not None
        looks.add((marker.get("fill"), marker.get("d")))
    assert len({fill for fill, _ in looks}) == len({shape for _, shape in looks}) == len(NAMES)


def test_axis_is_logarithmic_and_holds_all_markers() -> None:
    root = parsed(results(row("a 1", cupy=1.0, minijit=10.0), row("a 2", cupy=100.0)))
    ((ten, _),) = places(root, "minijit")
    (one, _), (hundred, _) = places(root, "cupy")
    assert ten - one == pytest.approx(hundred - ten, abs=0.2)
    width, height = number(root, "width"), number(root, "height")
    for name in ("cupy", "minijit"):
        assert all(0 < x < width and 0 < y < height for x, y in places(root, name))
    ticks = {float(text.text or "nan"): number(text, "x") for text in texts(root, "tick")}
    assert ticks[10] == pytest.approx(ten, abs=0.2)


@pytest.mark.parametrize("drawn", [everything(), results(row("long" * 12 + " 7", jax=3.0))])
def test_labels_do_not_overlap_and_stay_inside(drawn: Results) -> None:
    root = parsed(drawn)
    labels = [box(t) for kind in ("row", "tick", "legend", "note") for t in texts(root, kind)]
    for a, b in itertools.combinations(labels, 2):
        assert a[1] <= b[0] or b[1] <= a[0] or a[3] <= b[2] or b[3] <= a[2]
    for left, right, top, bottom in labels:
        assert left >= 0
        assert right <= number(root, "width")
        assert top >= 0
        assert bottom <= number(root, "height")


def test_many_systems_take_several_lines_of_legend() -> None:
    names = tuple(f"a system of some length {n}" for n in range(9))
    root = parsed(results(row("a 1", **dict.fromkeys(names, 5.0))), names)
    labels = [box(text) for text in texts(root, "legend")]
    assert len({top for *_, top, _ in labels}) > 1
    assert max(right for _, right, _, _ in labels) <= number(root, "width")
    assert min(y for _, y in places(root, names[0])) > max(bottom for *_, bottom in labels)


@pytest.mark.parametrize("span", [(1.0, 1.0), (900.0, 1100.0), (0.3, 80.0), (1e-6, 1e6)])
def test_every_span_has_ticks(span: tuple[float, float]) -> None:
    axis = Axis.around(span, 100, 900)
    assert len(axis.ticks()) >= 1
    assert 100 < axis.place(span[0]) <= axis.place(span[1]) < 900
    for value, label in axis.ticks():
        assert math.isclose(float(label), value, rel_tol=1e-3)


def test_light_and_dark_readers_are_served() -> None:
    assert "@media (prefers-color-scheme: dark)" in as_svg(everything(), NAMES)


def test_a_note_is_shown_and_a_copy_only_where_it_is_known() -> None:
    root = parsed(results(row("a 1", minijit=3.0), ceiling=None, note="means <nothing>"))
    assert [text.text for text in texts(root, "note")] == ["means <nothing>"]
    assert "a copy" not in [text.text for text in texts(root, "legend")]


def test_lines_join_only_the_rows_of_one_function() -> None:
    rows = (row("a 1", jax=1.0), row("a 2", jax=2.0), row("b 1", jax=3.0), row("b 2"))
    lines = list(parsed(results(*rows)).iter(f"{SVG}polyline"))
    assert len(lines) == 1
    assert len((lines[0].get("points") or "").split()) == 2


def test_nothing_to_draw_is_drawn() -> None:
    empty = dataclasses.replace(results(), copy_bytes_per_second=None)
    assert not texts(parsed(empty), "row")
