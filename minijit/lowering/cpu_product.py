"""Products in CPU kernels: matrices are packed once, then all rows of a unit pass through them."""

from __future__ import annotations

import contextlib

from minijit.lowering.cpu_emitter import CpuEmitter
from minijit.lowering.kernel_ir import Place, Product, Value, walk
from minijit.lowering.symbols import Symbol

__all__ = ["ProductWriter"]

_PANEL_BYTES = 64
"""Bytes of a row of a panel: two vectors, of which a block of four rows fits into registers."""


class ProductWriter:
    """Writes the products of one kernel.

    Attributes:
        found: The products.
        rows: Most rows that are multiplied at a time.
    """

    def __init__(self, emitter: CpuEmitter) -> None:
        """Find the products."""
        self.emitter, self.kernel = emitter, emitter.kernel
        self.found = [node for node in walk(self.kernel.body) if isinstance(node, Product)]
        self.rows = 1

    def room(self, value: Value) -> int:
        """Return how many elements must follow those of an array of ``value``."""
        return max((_width(p) for p in self.found if p.out is value), default=0)

    def pack(self) -> None:
        """Write the packing of all matrices into panels of neighbouring columns."""
        line, block = self.emitter.writer.line, self.emitter.writer.block
        column = len(self.kernel.rows)
        for product in self.found:
            width, terms, columns = _width(product), product.terms, self.kernel.cols[0]
            panels = -(-columns // width)
            name = _panels(product)
            self.emitter.array(name, product.out.dtype, panels * terms * width)
            own = self._element(product.matrix)
            with contextlib.ExitStack() as stack:
                stack.enter_context(block(f"for panel in range({panels}):"))
                stack.enter_context(block(f"for i{product.dim} in range({terms}):"))
                last = f"min({width}*panel + {width}, {columns})"
                stack.enter_context(block(f"for i{column} in range({width}*panel, {last}):"))
                place = f"{width}*({terms}*panel + i{product.dim} - panel) + i{column}"
                line(f"{name}[{place}] = {own}", self.kernel.buffers[product.matrix.buffer].name)

    def write(
        self, product: Product, out: str, source: str | None, rows: str, row: int | None
    ) -> None:
        """Write one product.

        Args:
            product: Which.
            out: The array of its result: a row of all columns for each row.
            source: The array of its rows; None if they are read from an input.
            rows: Code of their number.
            row: The dimension of the rows, which go from ``low`` on; None if there is but one.
        """
        shape = (product.terms, self.kernel.cols[0], _width(product))
        if source is None:
            source = self._copied(product, row)
        symbol = Symbol("minijit.kernels.cpu.product", "row_product", shape)
        name = self.emitter.name("_".join(map(str, ("row_product", *shape))), symbol)
        line = f"{name}({out}, {source}, {_panels(product)}, {rows})"
        self.emitter.writer.line(line, product.line)

    def _copied(self, product: Product, row: int | None) -> str:
        """Write the copying of rows from an input to an array of their own."""
        assert isinstance(product.row, Place)
        block, terms = self.emitter.writer.block, product.terms
        name = self.emitter.array(f"row_{product.out.name}", product.out.dtype, self.rows * terms)
        place = f"i{product.dim}"
        with contextlib.ExitStack() as stack:
            if row is not None:
                stack.enter_context(block(f"for i{row} in range(low, high):"))
                place = f"(i{row} - low)*{terms} + {place}"
            stack.enter_context(block(f"for i{product.dim} in range({terms}):"))
            self.emitter.writer.line(f"{name}[{place}] = {self._element(product.row)}")
        return name

    def _element(self, place: Place) -> str:
        return self.emitter.load_code(place.buffer, self.emitter.index(place.index))


def _width(product: Product) -> int:
    return _PANEL_BYTES // product.out.dtype.itemsize


def _panels(product: Product) -> str:
    return f"panels_{product.out.name}"
