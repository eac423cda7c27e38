"""How arrays lie in memory."""

from __future__ import annotations

from minijit.graph.layout import contiguous_strides


def test_contiguous_strides() -> None:
    assert contiguous_strides((2, 3, 4)) == (12, 4, 1)
    assert contiguous_strides(()) == ()
