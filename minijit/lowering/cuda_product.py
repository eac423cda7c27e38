"""Products in CUDA kernels: the threads of a row lend each other their values in shared memory."""

from __future__ import annotations

import contextlib

import numpy as np

from minijit.lowering.cuda_emitter import CudaEmitter
from minijit.lowering.cuda_geometry import WARP, Geometry
from minijit.lowering.kernel_ir import Branch, Kernel, Loop, Place, Product, Value, walk

__all__ = ["ProductWriter", "has_products", "rows_part"]

_SHARED_BYTES = 40 << 10
"""Of 48 KiB that need no permission, to leave reductions theirs."""


def has_products(kernel: Kernel) -> bool:
    """Whether a kernel multiplies rows with matrices."""
    return any(isinstance(node, Product) for node in walk(kernel.body))


def rows_part(kernel: Kernel) -> bool:
    """Whether rows may take different steps, so that threads of one must not wait for another."""
    return any(
        isinstance(node, Branch) or (isinstance(node, Loop) and node.length is None)
        for node in walk(kernel.body)
    )


class ProductWriter:
    """Writes the products of one kernel.

    A product has two arrays for the rows of a block, which it takes in turn: so the one barrier
    between writing and reading is enough. Matrices lie in shared memory as far as it goes.
    """

    def __init__(self, emitter: CudaEmitter, geometry: Geometry) -> None:
        """Find the products, and decide which matrices lie in shared memory."""
        self.emitter, self.geometry, self.kernel = emitter, geometry, emitter.kernel
        self.found = [node for node in walk(self.kernel.body) if isinstance(node, Product)]
        left = _SHARED_BYTES - sum(2 * geometry.rows * self._row(p) * _bytes(p) for p in self.found)
        self._near: set[Value] = set()
        for product in self.found:
            size = product.terms * self._column_stride * _bytes(product)
            if size <= left:
                self._near.add(product.out)
                left -= size

    @property
    def _columns(self) -> int:
        return self.kernel.cols[0]

    @property
    def _column_stride(self) -> int:
        """Elements from a row of a matrix in shared memory to the next: odd, for the banks."""
        return self._columns | 1

    def _row(self, product: Product) -> int:
        """Return the elements from one row's factors to those of the next.

        Where a warp has several rows, they take the banks side by side.
        """
        group = self.geometry.group
        return product.terms + ((group - product.terms) % WARP if group < WARP else 0)

    def start(self) -> None:
        """Write what comes before the first step."""
        if not self.found:
            return
        emitter, shape = self.emitter, self.geometry
        line, cuda = emitter.writer.line, emitter.helper("cuda")
        if shape.rows > 1:
            line(f"slot = {emitter.call('quotient', 'thread', shape.group)}")
        for product in self.found:
            name, kind = product.out.name, emitter.type(product.out.dtype)
            size = 2 * shape.rows * self._row(product)
            line(f"factors_{name} = {cuda}.shared.array({size}, {kind})")
            line(f"turn_{name} = {emitter.call('narrow', 0)}")
            emitter.local(f"sums_{name}", shape.steps, product.out.dtype)
            if product.out in self._near:
                size = product.terms * self._column_stride
                line(f"matrix_{name} = {cuda}.shared.array({size}, {kind})")
                self._copy(product)

    def _copy(self, product: Product) -> None:
        """Write the copying of a matrix by all threads, in the order in which it lies in memory."""
        emitter = self.emitter
        column, term = len(self.kernel.rows), product.dim
        inner, outer = column, term
        if abs(product.matrix.index.stride(term)) == 1:
            inner, outer = term, column
        emitter.dims[column], emitter.dims[term] = f"i{column}", f"i{term}"
        extents = {column: self._columns, term: product.terms}
        line = emitter.writer.line
        line("place = thread")
        with emitter.writer.block(f"while place < {product.terms * self._columns}:"):
            line(f"i{outer} = {emitter.call('quotient', 'place', extents[inner])}")
            line(f"i{inner} = {emitter.call('remainder', 'place', extents[inner])}")
            target = f"matrix_{product.out.name}[{self._column_stride}*i{term} + i{column}]"
            self._load(product.matrix, target)
            line(f"place = {emitter.call('advance', 'place', self.geometry.threads)}")

    def _load(self, place: Place, target: str) -> None:
        code = self.emitter.load_code(place.buffer, self.emitter.index(place.index))
        self.emitter.writer.line(f"{target} = {code}", self.kernel.buffers[place.buffer].name)

    def write(self, product: Product, row: str | None) -> None:
        """Write one product; its sums lie in ``sums_NAME[k]`` for each column of a thread.

        Args:
            product: Which.
            row: Code of a thread's ``k``-th value of the row; None if an input has it.
        """
        emitter, shape, name = self.emitter, self.geometry, product.out.name
        line, block = emitter.writer.line, emitter.writer.block
        base = f"{shape.rows}*turn_{name} + slot" if shape.rows > 1 else f"turn_{name}"
        line(f"first = {emitter.integer(f'({base})*{self._row(product)}')}")
        count = -(-product.terms // shape.group)
        with block(f"for k in range({count}):"), contextlib.ExitStack() as stack:
            line(f"j = {emitter.integer(f'part + {shape.group}*k')}")
            if count * shape.group != product.terms:
                stack.enter_context(block(f"if j < {product.terms}:"))
            target = f"factors_{name}[first + j]"
            if row is None:
                assert isinstance(product.row, Place)
                emitter.dims[product.dim] = "j"
                self._load(product.row, target)
            else:
                line(f"{target} = {row}")
        line(f"{emitter.helper('cuda')}.syncthreads()")
        self._sum(product)
        line(f"turn_{name} = {emitter.integer(f'1 - turn_{name}')}")

    def _sum(self, product: Product) -> None:
        """Write the sums over all terms, which no thread waits for another in."""
        emitter, shape, name = self.emitter, self.geometry, product.out.name
        line, block = emitter.writer.line, emitter.writer.block
        with block(f"for k in range({shape.steps}):"):
            line(f"sums_{name}[k] = {emitter.zero(product.out.dtype)}")
        line(f"term = {emitter.call('narrow', 0)}")
        with block(f"while term < {product.terms}:"):
            # Unsigned positions are not tested for being counted from the end.
            unsigned = emitter.type(np.dtype(np.uint32))
            line(f"factor = factors_{name}[{unsigned}(first + term)]")
            with block(f"for k in range({shape.steps}):"):
                line(f"j = {emitter.integer(f'part + {shape.group}*k')}")
                if shape.span != self._columns:
                    # Threads without a column take part with the last one's.
                    line(f"j = {emitter.integer(f'min(j, {self._columns - 1})')}")
                code = f"matrix_{name}[{unsigned}({self._column_stride}*term + j)]"
                if product.out not in self._near:
                    emitter.dims[product.dim], emitter.dims[len(self.kernel.rows)] = "term", "j"
                    code = emitter.load_code(
                        product.matrix.buffer, emitter.index(product.matrix.index)
                    )
                fma = f"{emitter.helper('cuda')}.fma(factor, {code}, sums_{name}[k])"
                line(f"sums_{name}[k] = {fma}", product.line)
            line(f"term = {emitter.call('advance', 'term', 1)}")


def _bytes(product: Product) -> int:
    return product.out.dtype.itemsize
