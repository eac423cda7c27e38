"""The innermost loops of a CPU map whose space is cut into boxes."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence

from minijit.lowering.boxes import Box
from minijit.lowering.cpu_emitter import CpuEmitter
from minijit.lowering.cpu_launch import ALIGNMENT
from minijit.lowering.cpu_streams import streamed, vector_loop
from minijit.lowering.cpu_tile import Tile
from minijit.lowering.kernel_ir import Store, Value

__all__ = ["write_boxes"]


def write_boxes(
    emitter: CpuEmitter, tile: Tile, boxes: Sequence[Box], done: Collection[Value], span: str
) -> None:
    """Write a loop for each box, inside of the loops over all dimensions but the innermost.

    Args:
        emitter: Writes the kernel.
        tile: How its rows are walked.
        boxes: The parts of its space.
        done: What has been computed outside.
        span: What ``range`` takes to run through the innermost dimension.
    """
    writer = _BoxWriter(emitter, tile, done, span)
    writer.write(sorted(boxes, key=writer.spans), 0)


class _BoxWriter:
    """Asks for the outer dimensions, one after the other, then runs through the innermost."""

    def __init__(self, emitter: CpuEmitter, tile: Tile, done: Collection[Value], span: str) -> None:
        self.emitter = emitter
        self.tile = tile
        self.done = done
        self.span = span

    def spans(self, box: Box) -> list[tuple[int, int]]:
        """Return where a box is, in the order of the loops."""
        return [box.spans.get(dim, (0, 0)) for dim in self.tile.order]

    def write(self, boxes: Sequence[Box], depth: int) -> None:
        """Write boxes that are in one place along the first ``depth`` dimensions."""
        order, writer = self.tile.order, self.emitter.writer
        if depth == len(order) - 1:
            for box in boxes:
                self._loop(box)
            return
        dim = order[depth]
        if dim not in boxes[0].spans:
            self.write(boxes, depth + 1)
            return
        word = "if"
        for after, group in itertools.groupby(boxes, key=lambda box: box.spans[dim][1]):
            last = after == self.tile.extents[depth]
            with writer.block("else:" if last else f"{word} i{dim} < {after}:"):
                self.write(list(group), depth + 1)
            word = "elif"

    def _loop(self, box: Box) -> None:
        """Write what is computed along the innermost dimension of a box."""
        emitter, inner = self.emitter, self.tile.order[-1]
        first, after = box.spans.get(inner, (0, self.tile.extents[-1]))
        statements = [s for s in box.statements if isinstance(s, Store) or s.out not in self.done]
        # Where a part begins inside of a line, the line is shared with the part before it.
        whole = first % ALIGNMENT == 0
        length = self.tile.blocks[-1]
        stores = streamed(emitter.kernel, statements, inner, length) if whole else ()
        with vector_loop(emitter, inner, self._range(first, after), stores):
            emitter.statements(statements)

    def _range(self, first: int, after: int) -> str:
        """Return the part of the loop's range that lies in a box."""
        if "," not in self.span:
            return f"{first}, {after}" if first else str(after)
        start, _, stop = self.span.partition(", ")
        if first:
            start = f"max({start}, {first})"
        if after < self.tile.extents[-1]:
            stop = f"min({stop}, {after})"
        return f"{start}, {stop}"
