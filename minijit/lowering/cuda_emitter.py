"""What statements look like on CUDA: accesses by device functions, scalar code by libdevice."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import numpy as np

from minijit.graph.dtypes import short_name
from minijit.graph.index import Affine
from minijit.graph.primitive import Monoid
from minijit.lowering.cuda_launch import VECTOR_BYTES
from minijit.lowering.cuda_vectors import whole_vectors
from minijit.lowering.kernel_ir import Kernel, Load, Map, Statement, Store, walk
from minijit.lowering.source import Emitter, held_dtype
from minijit.lowering.symbols import Symbol

__all__ = ["MATH", "CudaEmitter", "made"]

MATH = {
    "arccos": math.acos,
    "arccosh": math.acosh,
    "arcsin": math.asin,
    "arcsinh": math.asinh,
    "arctan": math.atan,
    "arctan2": math.atan2,
    "arctanh": math.atanh,
    "cos": math.cos,
    "cosh": math.cosh,
    "erf": math.erf,
    "erfc": math.erfc,
    "exp": math.exp,
    "expm1": math.expm1,
    "hypot": math.hypot,
    "log": math.log,
    "log10": math.log10,
    "log1p": math.log1p,
    "log2": math.log2,
    "sin": math.sin,
    "sinh": math.sinh,
    "sqrt": math.sqrt,
    "tan": math.tan,
    "tanh": math.tanh,
}
"""Python's functions for primitives: one call of libdevice in the operand's own precision."""
_EXTREMA = {"max": "maximum", "min": "minimum"}
_ROUNDING = frozenset({"ceil", "floor", "trunc"})
# To keep the sign of a float16 NaN costs instructions that only these operations are worth.
_SIGN_READERS = frozenset({"copysign", "signbit"})
_SIGN_KEEPERS = frozenset(
    {"load", "load_tail", "load_vector", "read_rows", "read_windows", "round_half"}
)


class CudaEmitter(Emitter):
    """Writes statements, local arrays and vector accesses of a CUDA kernel.

    Attributes:
        wide: Whether positions exceed int32.
        sizes: What the kernel is told of the size of its space, by parameter.
        aligned: The buffers that are accessed 128 bits at a time.
        signed: Whether the kernel reads signs and has float16 numbers, whose NaNs must keep theirs.
    """

    vocabulary = "minijit.kernels.cuda"

    def __init__(self, kernel: Kernel) -> None:
        """Start an empty text."""
        super().__init__(kernel)
        self.sizes: dict[str, int] = {}
        # Positions run past the end of the space by less than one grid of tiles.
        self.wide = math.prod(kernel.extents) >= 2**30
        self.aligned: set[int] = set()
        maps = [node for node in walk(kernel.body) if isinstance(node, Map)]
        values = [*kernel.buffers, *(v for s in maps for v in (s.out, *s.args))]
        # What has the sign may be a float32 by then.
        self.signed = any(s.op.name in _SIGN_READERS for s in maps) and any(
            value.dtype == np.float16 for value in values
        )

    def helper(self, name: str) -> str:
        """Return the name of a helper, or of the one that keeps the signs of float16 NaNs."""
        return super().helper(f"{name}_signed" if self.signed and name in _SIGN_KEEPERS else name)

    def function(self, statement: Map, dtype: np.dtype[Any]) -> tuple[str, Hashable, bool]:
        """Return libdevice's function or the compiled scalar code."""
        op, name = statement.op, f"{statement.op.name}_{dtype}"
        assert op.scalar is not None
        if op.scalar.cuda is not None:
            return name, self.scalar_function(op.scalar.cuda, dtype), False
        if op.name in _EXTREMA and dtype.kind != "b":
            return name, self.symbol(_EXTREMA[op.name]), True
        if op.name in _ROUNDING and dtype.kind == "f":
            return name, self.symbol(op.name), True
        if op.name in MATH and dtype.kind == "f":
            return name, MATH[op.name], True
        return name, self.scalar_function(op.scalar.make, dtype), False

    def scalar_function(self, make: Callable[..., Any], *arguments: Hashable) -> Symbol:
        """Return the device function of what ``make(*arguments)`` returns."""
        return made("scalar_function", make, *arguments)

    def call(self, helper: str, *arguments: object) -> str:
        """Return code of a call of a device function."""
        return f"{self.helper(helper)}({', '.join(map(str, arguments))})"

    def load_code(self, buffer: int, index: str) -> str:
        """Return code of an element, converted to the dtype in which it is held."""
        return self.call("load", f"b{buffer}", index)

    def argument_code(self, argument: int) -> str:
        """Return code of a scalar argument; float16 comes as float32."""
        dtype = self.kernel.arguments[argument].dtype
        return self.call("round_half", f"a{argument}") if dtype == np.float16 else f"a{argument}"

    def shared_place(self, access: Load | Store) -> tuple[str, np.dtype[Any]] | None:
        """Return code of the place in shared memory through which an access goes, and its dtype.

        None stands for memory itself. Schedules that move arrays through shared memory override
        this; what several of them have is asked for in turn.
        """
        return None

    def statement(self, statement: Statement) -> None:
        """Write one statement other than a ``Reduce``."""
        if isinstance(statement, Store):
            self.store(statement)
        elif isinstance(statement, Load) and self.shared_place(statement) is not None:
            self.load(statement, statement.out.name)  # a guard was asked where memory was read
        else:
            super().statement(statement)

    def store(self, statement: Store) -> None:
        """Write a store of one element, to memory or to its place in shared memory."""
        value, place = self.operand(statement.value), self.shared_place(statement)
        buffer = self.kernel.buffers[statement.buffer]
        if place is not None:
            slot, dtype = place
            self.writer.line(f"{slot} = {self.cast(value, held_dtype(buffer.dtype), dtype)}")
            return
        index = self.index(statement.index)
        self.writer.line(self.call("store", f"b{statement.buffer}", index, value), buffer.name)

    def load(self, statement: Load, target: str) -> None:
        """Write an unguarded load of one element into ``target``, from where it is."""
        place = self.shared_place(statement)
        if place is not None:
            slot, dtype = place
            code = self.cast(slot, dtype, held_dtype(statement.out.dtype))
            self.writer.line(f"{target} = {code}")
            return
        code = self.load_code(statement.buffer, self.index(statement.index))
        self.writer.line(f"{target} = {code}", self.kernel.buffers[statement.buffer].name)

    def local(self, name: str, count: int, dtype: np.dtype[Any]) -> None:
        """Write an array of a thread; loops over it are unrolled, so that it lies in registers."""
        self.helper("cuda")
        kind = self.type(held_dtype(dtype))
        self.writer.line(f"{name} = cuda.local.array({count}, {kind})")

    def integer(self, code: str) -> str:
        """Return an index computation in the kernel's index type."""
        return code if self.wide else self.call("narrow", code)

    def slot(self, code: str) -> str:
        """Return a place in shared memory: unsigned, as negative ones would count from the end."""
        return f"{self.type(np.dtype(np.uint64))}({code})"

    def unflatten(self, position: str, dims: Sequence[int]) -> None:
        """Write the indices of ``dims`` from a position in their C-ordered space."""
        names = [f"i{dim}" for dim in dims]
        if len(dims) == 1:
            self.dims[dims[0]] = position
            return
        for place in range(len(dims) - 1, -1, -1):
            extent = self.kernel.extents[dims[place]]
            if place == 0:
                self.writer.line(f"{names[0]} = {position}")
                break
            self.writer.line(f"{names[place]} = {self.call('remainder', position, extent)}")
            rest = self.call("quotient", position, extent)
            if place > 1:
                self.writer.line(f"{names[0]} = {rest}")
                position = names[0]
            else:
                position = rest
        for dim, name in zip(dims, names, strict=True):
            self.dims[dim] = name

    def vectorizable(self, buffer: int, index: Affine, inner: int, chunk: int) -> bool:
        """Whether ``chunk`` neighbours along dimension ``inner`` are whole 128-bit vectors.

        Every chunk then starts at a multiple of 16 bytes, provided that the buffer does.
        """
        return whole_vectors(index, self.kernel.buffers[buffer].dtype.itemsize, inner, chunk)

    def vectors(self, buffer: int, chunk: int) -> int:
        """Return how many elements one access moves, and note that the buffer must be aligned."""
        self.aligned.add(buffer)
        return min(chunk, VECTOR_BYTES // self.kernel.buffers[buffer].dtype.itemsize)

    @contextlib.contextmanager
    def whole_function(self) -> Iterator[None]:
        """Write the head of the function; what is written inside the ``with`` is its body.

        Comments say what the pointers address, so that equal texts are equal kernels.
        """
        buffers, arguments = self.kernel.buffers, self.kernel.arguments
        names = [f"b{n}" for n in range(len(buffers))] + [f"a{n}" for n in range(len(arguments))]
        names += self.sizes
        with self.writer.block(f"def {self.kernel.name}({', '.join(names)}):"):
            for number, buffer in enumerate(buffers):
                kind = f"{short_name(buffer.dtype)}[{buffer.size}]"
                self.writer.line(f"# {buffer.role.value:3s} b{number}: {kind} {buffer.name}")
            for number, argument in enumerate(arguments):
                self.writer.line(f"# arg a{number}: {short_name(argument.dtype)} {argument.name}")
            for name, size in self.sizes.items():
                self.writer.line(f"# {name}: i64, {size} here")
            yield

    def combination(self, monoid: Monoid, dtypes: tuple[np.dtype[Any], ...]) -> Symbol:
        """Return the device function that combines two sets of accumulators."""
        if monoid.name in _EXTREMA and len(dtypes) == 1:
            return self.symbol(_EXTREMA[monoid.name])
        return made("combination", monoid.combine, dtypes)


def made(name: str, *arguments: Hashable) -> Symbol:
    """Return the symbol of what a function of the module ``block`` makes."""
    return Symbol("minijit.kernels.cuda.block", name, arguments)
