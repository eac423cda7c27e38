"""Numba source of one kernel, and the pieces from which both targets write it."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, cast

import numpy as np

from minijit.graph.index import Affine
from minijit.lowering.kernel_ir import (
    Gather,
    Guard,
    Index,
    Kernel,
    Load,
    Map,
    Operand,
    Product,
    Read,
    Reduce,
    Statement,
    Store,
    Value,
)
from minijit.lowering.symbols import Symbol

__all__ = ["Emitter", "KernelSource", "Writer", "held_dtype", "scalar_dtype"]

_COMPARISONS = frozenset({"<", "<=", ">", ">=", "==", "!="})
_FLOAT_ARITHMETIC = frozenset({"+", "-", "*", "/"})
_COMMENT = re.compile(r" *#.*")
_BITWISE = frozenset({"&", "|", "^"})


@dataclasses.dataclass(frozen=True, slots=True)
class KernelSource:
    """Readable Python that Numba compiles to one kernel.

    Attributes:
        kernel: What it computes.
        text: A module with one function named ``kernel.name``; the user's lines are comments.
        names: The globals of that module: symbols of device functions, types and constants.
        schedule: One line that says how the space is mapped to the machine, and why.
        launch: The target's launch parameters.
    """

    kernel: Kernel
    text: str
    names: Mapping[str, Hashable]
    schedule: str
    launch: Any

    @property
    def code(self) -> str:
        """The text without comments, the function called ``kernel``: what is compiled.

        Strings, which could hold a ``#``, are not part of generated code.
        """
        bare = _COMMENT.sub("", self.text)
        return bare.replace(f"def {self.kernel.name}(", "def kernel(", 1)


class Writer:
    """Collects lines of Python at the current indentation."""

    def __init__(self) -> None:
        """Start an empty text at indentation zero."""
        self._lines: list[str] = []
        self._depth = 0

    def line(self, code: str, comment: str = "") -> None:
        """Add one line, with an optional trailing comment.

        Comments hold names of the user's, who may have put a line break into one.
        """
        comment = " ".join(comment.split())
        text = "    " * self._depth + code
        self._lines.append(f"{text}  # {comment}" if comment else text)

    @contextlib.contextmanager
    def block(self, head: str, comment: str = "") -> Iterator[None]:
        """Write ``head`` and indent what is written inside the ``with`` statement."""
        self.line(head, comment)
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    @property
    def count(self) -> int:
        """Number of lines so far."""
        return len(self._lines)

    @property
    def text(self) -> str:
        """Everything written so far."""
        return "\n".join(self._lines) + "\n"


def held_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype in which code holds a value: float16 is held as (rounded) float32."""
    return np.dtype(np.float32) if dtype == np.float16 else dtype


def scalar_dtype(args: Sequence[Operand]) -> np.dtype[Any]:
    """Return the dtype a primitive's scalar code is made for.

    It is that of the first operand that is no condition (``select(condition, x, y)``).
    """
    dtypes = [held_dtype(arg.dtype) for arg in args]
    return next((dtype for dtype in dtypes if dtype.kind != "b"), dtypes[0])


class Emitter:
    """Turns statements of a kernel into lines of Python; each target overrides what differs.

    What a target provides:

    - ``function(statement, dtype)``: the name and the device function of a ``Map``, and whether it
      is known to return its operands' dtype exactly (then no cast is written).
    - ``vocabulary``: a module whose ``helper(name)`` returns the device functions that are asked
      for by name, among them ``round_half`` (float32 or float64 -> float32 that holds a
      float16), ``half_value`` (uint16 bits -> float32), ``half_bits`` (float32 -> uint16 bits) and
      ``<int dtype>_from_float`` for every integer dtype (what a C cast does on x86, defined
      for NaN and values out of range).
    - ``index``: code of an affine expression.

    Attributes:
        kernel: The kernel being written.
        writer: Where the lines go.
        names: Globals that the lines refer to.
        dims: Code of the current index of each dimension of the space.
    """

    vocabulary: ClassVar[str]

    def __init__(self, kernel: Kernel) -> None:
        """Start an empty text for ``kernel``."""
        self.kernel = kernel
        self.writer = Writer()
        self.names: dict[str, Hashable] = {}
        self.dims: list[str] = [f"i{dim}" for dim in range(len(kernel.spans))]

    # What targets differ in.

    def function(self, statement: Map, dtype: np.dtype[Any]) -> tuple[str, Hashable, bool]:
        """Return name and device function of a ``Map``, and whether that returns ``dtype``."""
        raise NotImplementedError

    def scalar_function(self, make: Callable[..., Any], *arguments: Hashable) -> Symbol:
        """Return the device function of what ``make(*arguments)`` returns."""
        raise NotImplementedError

    def index(self, affine: Affine) -> str:
        """Return code of an index expression over the current ``dims``."""
        terms: list[str] = []
        for dim, stride in affine.terms:
            name = self.dims[dim]
            terms.append(name if stride == 1 else f"{stride}*{name}")
        if affine.offset or not terms:
            terms.append(str(affine.offset))
        return " + ".join(terms).replace("+ -", "- ")

    # What they share.

    def name(self, name: str, value: Hashable) -> str:
        """Make ``value`` a global of the generated module and return its name."""
        known = self.names.setdefault(name, value)
        if known is not value and known != value:
            raise ValueError(f"two different globals named {name!r} in kernel {self.kernel.name}")
        return name

    def symbol(self, name: str) -> Symbol:
        """Return the symbol of one of the target's helpers."""
        return Symbol(self.vocabulary, "helper", (name,))

    def helper(self, name: str) -> str:
        """Return the name of one of the target's helpers, made a global."""
        return self.name(name, self.symbol(name))

    def type(self, dtype: np.dtype[Any]) -> str:
        """Return the name of a type that casts, made a global."""
        return self.name(dtype.name, cast("Hashable", dtype.type))

    def constant(self, value: Any, dtype: np.dtype[Any]) -> str:
        """Return code of a typed constant."""
        if dtype.kind == "b":
            return str(bool(value))
        held = held_dtype(dtype)
        if dtype.kind in "iu":
            return f"{self.type(held)}({int(value)})"
        number = float(value)
        if math.isnan(number):
            self.name("nan", math.nan)
            return f"{self.type(held)}(nan)"
        if math.isinf(number):
            self.name("inf", math.inf)
            return f"{self.type(held)}({'-' if number < 0 else ''}inf)"
        short = str(held.type(value))
        exact = held.type(float(short)) == held.type(value)
        return f"{self.type(held)}({short if exact else repr(number)})"

    def operand(self, operand: Operand) -> str:
        """Return code of a value or a constant."""
        if isinstance(operand, Value):
            return operand.name
        return self.constant(operand.value, operand.dtype)

    def zero(self, dtype: np.dtype[Any]) -> str:
        """Return code of the zero of a dtype."""
        return self.constant(dtype.type(0), dtype)

    def cast(self, code: str, source: np.dtype[Any] | None, result: np.dtype[Any]) -> str:
        """Return code that converts ``code`` to ``result``; ``source`` is None when unknown."""
        if source == result:
            return code
        if result.kind == "b":
            return f"({code}) != 0"
        if result == np.float16:
            wide = source is None or source.kind != "f"
            inner = self.cast(code, source, np.dtype(np.float64)) if wide else code
            return f"{self.helper('round_half')}({inner})"
        if result.kind in "iu" and source is not None and source.kind == "f":
            return f"{self.helper(f'{result.name}_from_float')}({code})"
        if source == np.float16 and result == np.float32:
            return code
        return f"{self.type(result)}({code})"

    def map_code(self, statement: Map) -> str:
        """Return the right-hand side of a ``Map``, cast to the dtype of its result."""
        op, out = statement.op, statement.out.dtype
        args = [self.operand(arg) for arg in statement.args]
        if op.name == "convert_element_type":
            return self.cast(args[0], statement.args[0].dtype, out)
        if op.scalar is None:
            raise ValueError(f"primitive {op.name!r} has no scalar code")
        dtype = scalar_dtype(statement.args)
        natural: np.dtype[Any] | None = None
        if op.scalar.infix is not None:
            symbol = op.scalar.infix
            code = f"{args[0]} {symbol} {args[1]}" if len(args) == 2 else f"{symbol}{args[0]}"
            if symbol in _COMPARISONS or (dtype.kind == "b" and symbol in _BITWISE):
                natural = np.dtype(np.bool_)
            elif dtype.kind == "f" and symbol in _FLOAT_ARITHMETIC:
                natural = dtype
        else:
            name, function, exact = self.function(statement, dtype)
            code = f"{self.name(name, function)}({', '.join(args)})"
            natural = dtype if exact else None
            if op.scalar.strict:
                natural = held_dtype(out)
                code = self.returned(code, natural)
            elif op.scalar.chooses:
                natural = out
        if natural is None and out == np.float16:
            code = f"{self.type(dtype)}({code})"
            natural = out if op.scalar.exact else dtype
        return self.cast(code, natural, out)

    def returned(self, code: str, dtype: np.dtype[Any]) -> str:
        """Return code that converts what a declared function returns, if it is of that kind."""
        check = Symbol("minijit.backends.frontend.values", "Returned", (dtype.name,))
        return f"{self.name(f'returned_{dtype.name}', check)}({code})"

    def gathered(self, statement: Gather) -> str:
        """Return code of the place of the element that is gathered."""
        wide = self.type(np.dtype(np.int64))
        terms = [self.index(statement.index)] if statement.index != Affine() else []
        for stride, position in zip(statement.strides, statement.positions, strict=True):
            place = f"{wide}({self.operand(position)})"
            terms.append(place if stride == 1 else f"{stride}*{place}")
        return " + ".join(terms) or "0"

    def load_code(self, buffer: int, index: str) -> str:
        """Return code of the element of a buffer, as the dtype in which it is held."""
        return self.held_code(self.kernel.buffers[buffer].dtype, f"b{buffer}[{index}]")

    def held_code(self, dtype: np.dtype[Any], code: str) -> str:
        """Return code of the held value whose memory form is ``code``."""
        if dtype.kind == "b":
            return f"{code} != 0"
        if dtype == np.float16:
            return f"{self.helper('half_value')}({code})"
        return code

    def store_code(self, dtype: np.dtype[Any], value: str) -> str:
        """Return code of the memory form of a held value."""
        if dtype.kind == "b":
            return f"{self.type(np.dtype(np.uint8))}({value})"
        if dtype == np.float16:
            return f"{self.helper('half_bits')}({value})"
        return value

    def argument_code(self, argument: int) -> str:
        """Return code of a scalar argument, as the dtype in which it is held."""
        dtype = self.kernel.arguments[argument].dtype
        if dtype.kind == "b":
            return f"a{argument} != 0"
        if dtype == np.float16:
            return f"{self.helper('round_half')}(a{argument})"
        return f"a{argument}"

    def guard_code(self, statement: Guard) -> str:
        """Return code of the conditions that do not hold everywhere anyway."""
        terms: list[str] = []
        for affine, low, high in statement.conditions:
            least, most = affine.bounds(self.kernel.spans)
            code = self.index(affine)
            if least < low:
                terms.append(f"({code} >= {low})")
            if most >= high:
                terms.append(f"({code} < {high})")
        return " & ".join(terms) or "True"

    def statement(self, statement: Statement) -> None:
        """Write one statement that reads no other cells, at the current ``dims``."""
        line = self.writer.line
        match statement:
            case Load():
                code = self.load_code(statement.buffer, self.index(statement.index))
                if statement.guard is not None:
                    zero = self.zero(statement.out.dtype)
                    code = f"({code}) if {self.operand(statement.guard)} else {zero}"
                line(f"{statement.out.name} = {code}", self.kernel.buffers[statement.buffer].name)
            case Gather():
                code = self.load_code(statement.buffer, self.gathered(statement))
                if statement.guard is not None:
                    zero = self.zero(statement.out.dtype)
                    code = f"({code}) if {self.operand(statement.guard)} else {zero}"
                line(f"{statement.out.name} = {code}", statement.line)
            case Read():
                argument = self.kernel.arguments[statement.argument]
                code = self.argument_code(statement.argument)
                line(f"{statement.out.name} = {code}", argument.name)
            case Index():
                code = f"{self.type(np.dtype(np.int64))}({self.index(statement.index)})"
                line(f"{statement.out.name} = {code}")
            case Guard():
                line(f"{statement.out.name} = {self.guard_code(statement)}")
            case Map():
                line(f"{statement.out.name} = {self.map_code(statement)}", statement.line)
            case Store():
                buffer = self.kernel.buffers[statement.buffer]
                value = self.store_code(buffer.dtype, self.operand(statement.value))
                index = self.index(statement.index)
                line(f"b{statement.buffer}[{index}] = {value}", buffer.name)
            case Reduce() | Product():
                raise TypeError("what reads rows is written by the target's schedule")
