"""Rows times a matrix, in registers: some rows and two vectors of columns at a time.

The loop around the registers is that of BLIS (F. G. Van Zee, R. A. van de Geijn, "BLIS: A framework
for rapidly instantiating BLAS functionality", 2015): the matrix is packed once into panels as wide
as a block of registers, so that the innermost loop reads memory in order.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.core.errors import TypingError
from numba.extending import intrinsic

__all__ = ["row_product"]

_VECTORS = 2
_BLOCK = 4
"""Rows of a block: with two vectors each they are as many sums as hide the latency of an fma."""

_WORD = ir.IntType(64)
_LANE = ir.IntType(32)
_FMA = ("contract",)


def row_product(inner: int, columns: int, width: int) -> Any:
    """Return ``(out, source, panels, rows) -> None``: ``out = source @ matrix``.

    ``source`` is ``(rows, inner)`` and ``out`` is ``(rows, columns)``, both in C order and aligned
    as their elements are. ``panels`` is ``(ceil(columns / width), inner, width)``: the columns of
    the matrix, the last panel filled up with anything; ``width`` is even. ``out`` has room for one
    more panel, which is overwritten. All are float32 or all float64. A row's result depends on the
    row and on ``rows`` alone.
    """

    @intrinsic
    def multiply(typing_context, out, source, panels, rows):
        pointers = (out, source, panels)
        if len(set(pointers)) != 1 or not isinstance(getattr(out, "dtype", None), types.Float):
            raise TypingError(f"a product takes three pointers to equal floats, not {pointers}")

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            element = context.get_data_type(out.dtype)
            shape = (inner, columns, width)
            function = _function(builder.module, element, out.dtype.bitwidth // 8, *shape)
            count = context.cast(builder, arguments[3], rows, types.int64)
            builder.call(function, [*arguments[:3], count])
            return context.get_dummy_value()

        return types.void(out, source, panels, rows), generate

    return multiply


def _function(
    module: Any, element: Any, itemsize: int, inner: int, columns: int, width: int
) -> Any:
    """Return the function of a module that multiplies any number of rows."""
    name = f"row_product_{itemsize}_{inner}_{columns}"
    if name in module.globals:
        return module.globals[name]
    pointer = element.as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [pointer, pointer, pointer, _WORD])
    function = ir.Function(module, kind, name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    for argument in function.args[:3]:
        argument.add_attribute("noalias")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    maker = _Blocks(builder, function.args, element, itemsize, inner, columns, width // _VECTORS)
    # A panel stays in the near cache while all rows pass. What the last one writes beyond its row
    # is overwritten by what comes after it.
    last = (-(-columns // width) - 1) * width

    def panel(back: Any, _: Sequence[Any]) -> tuple[()]:
        maker.panel(builder.sub(ir.Constant(_WORD, last), back))
        return ()

    start, stop = ir.Constant(_WORD, 0), ir.Constant(_WORD, last + width)
    _loop(builder, start, stop, width, (), panel)
    builder.ret_void()
    return function


class _Blocks:
    """Writes blocks of the result."""

    def __init__(
        self,
        builder: Any,
        arguments: Sequence[Any],
        element: Any,
        itemsize: int,
        inner: int,
        columns: int,
        lanes: int,
    ) -> None:
        self.builder = builder
        self.out, self.source, self.panels, self.rows = arguments
        self.inner, self.columns, self.itemsize = inner, columns, itemsize
        self.lanes = lanes
        self.vector = ir.VectorType(element, self.lanes)

    def panel(self, column: Any) -> None:
        """Write all rows of the panel that begins at ``column``."""
        first, height = ir.Constant(_WORD, 0), _BLOCK
        while height:
            last = self.builder.and_(self.rows, ir.Constant(_WORD, -height))
            write = functools.partial(self._rows, height, column)
            _loop(self.builder, first, last, height, (), write)
            first, height = last, height // 2

    def _rows(self, height: int, column: Any, first: Any, _: Sequence[Any]) -> tuple[()]:
        self.block(height, first, column)
        return ()

    def block(self, height: int, first: Any, column: Any) -> None:
        """Write ``height`` rows of the panel that begins at ``column``."""
        builder, word = self.builder, functools.partial(ir.Constant, _WORD)
        # Few rows take several terms at once, so that there are as many sums all the same.
        terms = _BLOCK // height
        place = builder.mul(column, word(self.inner))
        rows = [
            builder.mul(builder.add(first, word(row)), word(self.inner)) for row in range(height)
        ]

        def add(position: Any, sums: Sequence[Any], count: int) -> list[Any]:
            found = list(sums)
            for term in range(count):
                at = builder.add(position, word(term))
                start = builder.add(place, builder.mul(at, word(self.lanes * _VECTORS)))
                matrix = [
                    self._load(self.panels, builder.add(start, word(self.lanes * n)))
                    for n in range(_VECTORS)
                ]
                for row in range(height):
                    factor = self._spread(builder.load(self._at(self.source, rows[row], at)))
                    for n in range(_VECTORS):
                        slot = (term * height + row) * _VECTORS + n
                        product = builder.fmul(factor, matrix[n], flags=_FMA)
                        found[slot] = builder.fadd(found[slot], product, flags=_FMA)
            return found

        zero = ir.Constant(self.vector, None)
        whole = self.inner - self.inner % terms
        sums: Sequence[Any] = [zero] * (height * terms * _VECTORS)
        sums = _loop(
            builder, word(0), word(whole), terms, sums, lambda at, held: add(at, held, terms)
        )
        sums = add(word(whole), sums, self.inner - whole)
        for row in range(height):
            out = builder.add(
                builder.mul(builder.add(first, word(row)), word(self.columns)), column
            )
            for n in range(_VECTORS):
                parts = [sums[(term * height + row) * _VECTORS + n] for term in range(terms)]
                while len(parts) > 1:
                    parts = [
                        builder.fadd(a, b) for a, b in zip(parts[::2], parts[1::2], strict=True)
                    ]
                target = self._vector_at(self.out, builder.add(out, word(self.lanes * n)))
                builder.store(parts[0], target, align=self.itemsize)

    def _at(self, pointer: Any, row: Any, position: Any) -> Any:
        return self.builder.gep(pointer, [self.builder.add(row, position)])

    def _vector_at(self, pointer: Any, place: Any) -> Any:
        return self.builder.bitcast(self.builder.gep(pointer, [place]), self.vector.as_pointer())

    def _load(self, pointer: Any, place: Any) -> Any:
        return self.builder.load(self._vector_at(pointer, place), align=self.itemsize)

    def _spread(self, value: Any) -> Any:
        undefined = ir.Constant(self.vector, ir.Undefined)
        first = self.builder.insert_element(undefined, value, ir.Constant(_LANE, 0))
        lanes = ir.Constant(ir.VectorType(_LANE, self.lanes), [0] * self.lanes)
        return self.builder.shuffle_vector(first, undefined, lanes)


def _loop(
    builder: Any,
    start: Any,
    stop: Any,
    step: int,
    values: Sequence[Any],
    body: Callable[[Any, Sequence[Any]], Sequence[Any]],
) -> list[Any]:
    """Write ``for n in range(start, stop, step): values = body(n, values)``; return the values."""
    before = builder.block
    head, inside, after = (builder.append_basic_block() for _ in range(3))
    builder.branch(head)
    builder.position_at_end(head)
    counter = builder.phi(_WORD)
    held = [builder.phi(value.type) for value in values]
    builder.cbranch(builder.icmp_signed("<", counter, stop), inside, after)
    builder.position_at_end(inside)
    following = body(counter, held)
    advanced = builder.add(counter, ir.Constant(_WORD, step))
    last = builder.block
    builder.branch(head)
    rows = zip([counter, *held], [start, *values], [advanced, *following], strict=True)
    for phi, first, new in rows:
        phi.add_incoming(first, before)
        phi.add_incoming(new, last)
    builder.position_at_end(after)
    return held
