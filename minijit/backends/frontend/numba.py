"""What Numba says of operations: their types, and the code they become."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from minijit.backends.frontend.values import Known, Operand, Typed

__all__ = ["Numba", "Place"]

_SCALARS = (np.generic, int, float)


class Place(NamedTuple):
    """A place in the code of a function.

    Attributes:
        block: At whose end it is.
        instructions: How many the block has.
        blocks: How many the function has.
        names: How many functions and variables the module has.
    """

    block: Any
    instructions: int
    blocks: int
    names: int


class Numba:
    """Numba's typing and lowering of single operations, at the place of an LLVM builder.

    Attributes:
        types: Numba's module of types.
        context: Its target context.
        builder: Where code goes.
    """

    def __init__(
        self, types: Any, context: Any, builder: Any, faster: Callable[[Any, str], Any]
    ) -> None:
        """Write code through ``builder``; see ``Toolkit.faster``."""
        self._faster = faster
        self.types = types
        self.context = context
        self.builder = builder
        self._typing = context.typing_context
        self._resolved: dict[Any, tuple[Any, Any]] = {}

    def place(self) -> Place:
        """Return where the next instruction goes."""
        block = self.builder.block
        function = block.function
        return Place(
            block, len(block.instructions), len(function.blocks), len(function.module.globals)
        )

    def undo(self, place: Place) -> None:
        """Take back what was written since; variables on the stack stay, unused."""
        block = place.block
        del block.instructions[place.instructions :], block.function.blocks[place.blocks :]
        block.terminator = None
        names = block.function.module.globals
        for name in list(names)[place.names :]:
            del names[name]
        self.builder.position_at_end(block)

    def typed(self, operand: Operand) -> Typed:
        """Return an operand as a value at run time."""
        if isinstance(operand, Typed):
            return operand
        if isinstance(operand, tuple):
            raise TypeError("a tuple is not a value")
        given = operand.value
        if isinstance(given, bool):
            kind = self.types.boolean
        elif isinstance(given, int):
            kind = self.types.int64 if given < 1 << 63 else self.types.uint64
        elif isinstance(given, float):
            kind = self.types.float64
        else:
            kind = self._typing.resolve_value_type(given)
        return Typed(kind, self.context.get_constant_generic(self.builder, kind, given))

    def cast(self, operand: Operand, kind: Any) -> Any:
        """Return the LLVM value of an operand as type ``kind``."""
        if isinstance(operand, Known) and _is_small(operand.value):
            if isinstance(kind, self.types.Float):
                return self.context.get_constant(kind, float(operand.value))
            if isinstance(kind, self.types.Integer) and isinstance(operand.value, int):
                bits = operand.value & ((1 << kind.bitwidth) - 1)
                return self.context.get_constant(kind, bits)
        given = self.typed(operand)
        if given.type == kind:
            return given.value
        return self.context.cast(self.builder, given.value, given.type, kind)

    def unified(self, left: Any, right: Any) -> Any:
        """Return the type of numbers that holds values of both types."""
        if left == right:
            return left
        kind = self._typing.unify_types(left, right)
        if not isinstance(kind, (self.types.Number, self.types.Boolean)):
            raise TypeError(f"no type holds both {left} and {right}")
        return kind

    def range_type(self, bounds: Sequence[Operand]) -> Any:
        """Return the type of the numbers of a range between two bounds."""
        return (
            self._typing.resolve_value_type(range)
            .get_call_type(self._typing, tuple(self.typed(b).type for b in bounds), {})
            .return_type.iterator_type.yield_type
        )

    def scalar_type(self, value: Any) -> Any:
        """Return the type that ``value`` casts to if it is a type of numbers, else None."""
        if isinstance(value, (self.types.Number, self.types.Boolean)):
            return value
        if isinstance(value, type) and issubclass(value, _SCALARS):
            kind = self._typing.resolve_value_type(value)
            if isinstance(kind, self.types.NumberClass):
                return kind.instance_type
        return None

    def attribute(self, base: Operand, name: str) -> Known:
        """Return a member of a module, or the type of an array's elements."""
        if isinstance(base, Typed) and name == "dtype":
            return Known(base.type.dtype)
        if not isinstance(base, Known):
            raise TypeError(f"a value of a kernel has no attribute {name}")
        kind = base.type
        if kind is None and isinstance(base.value, ModuleType):
            kind = self.types.Module(base.value)
        member = None if kind is None else self._typing.resolve_getattr(kind, name)
        return Known(getattr(base.value, name), member)

    def faster(self, function: Any, operands: Sequence[Operand]) -> Any:
        """Return what the target calls in the place of a function of Python's, or the function."""
        kinds = {o.type for o in operands if isinstance(o, Typed)}
        if len(kinds) != 1 or any(isinstance(o, tuple) for o in operands):
            return function
        (kind,) = kinds
        values = [o.value for o in operands if isinstance(o, Known)]
        same = all(self.scalar_type(type(value)) == kind for value in values)
        return self._faster(function, str(kind)) if same else function

    def apply(self, function: Any, *operands: Operand) -> Typed:
        """Return the result of an operator of the module ``operator``."""
        values = [self.typed(operand) for operand in operands]
        if function is operator.pow:
            known = Known(self.faster(function, operands))
            return self._write(known, [value.type for value in values], values)
        return self._write(Known(function), [value.type for value in values], values)

    def call(self, function: Known, operands: Sequence[Operand]) -> Operand:
        """Return what a call of a function that Numba knows returns; a tuple comes apart."""
        kinds = [self._literal(operand) for operand in operands]
        result = self._write(function, kinds, operands)
        if not isinstance(result.type, self.types.BaseTuple):
            return result
        return tuple(
            Typed(kind, self.builder.extract_value(result.value, place))
            for place, kind in enumerate(result.type.types)
        )

    def _literal(self, operand: Operand) -> Any:
        """Return the type of an argument: that of an integer which is known holds its value."""
        if isinstance(operand, Known) and type(operand.value) is int:
            return self.types.literal(operand.value)
        return self.typed(operand).type

    def _write(self, function: Known, kinds: Sequence[Any], operands: Sequence[Operand]) -> Typed:
        signature, implementation = self._resolve(function, tuple(kinds))
        arguments = list(map(self.cast, operands, map(self.types.unliteral, signature.args)))
        constant = self.context.get_constant_generic
        omitted = signature.args[len(operands) :]
        arguments += [constant(self.builder, kind, kind.value) for kind in omitted]
        result = implementation(self.builder, arguments)
        if result is None:
            result = self.context.get_dummy_value()
        return Typed(signature.return_type, result)

    def _resolve(self, function: Known, kinds: tuple[Any, ...]) -> tuple[Any, Any]:
        """Return the signature for arguments of these types, and what writes the call."""
        key = (function, kinds)
        if key not in self._resolved:
            kind, signature = _signature(self._typing, function, kinds)
            self._resolved[key] = signature, self.context.get_function(kind, signature)
        return self._resolved[key]


@functools.lru_cache(4096)
def _signature(typing: Any, function: Known, kinds: tuple[Any, ...]) -> tuple[Any, Any]:
    """Return the type of a function, and its signature for arguments of some types."""
    kind = function.type or typing.resolve_value_type(function.value)
    signature = kind.get_call_type(typing, kinds, {})
    if signature is None:
        raise TypeError(f"{function.value} does not take {kinds}")
    return kind, signature


def _is_small(value: Any) -> bool:
    """Whether a number is the same constant in whichever order it is rounded and converted."""
    if isinstance(value, float):
        return not math.isfinite(value) or abs(value) < 2.0**127
    return isinstance(value, int) and abs(value) < 1 << 53
