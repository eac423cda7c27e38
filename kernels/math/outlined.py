"""Functions of their own in a kernel: formulas that are compiled once, and what is settled last.

LLVM inlines what it is to vectorise, and takes a multiple of the time for a multiple of the code.
But where a function names another one for a vector of arguments (the attribute
``vector-function-abi-variant``, by which compilers of C pass on ``declare simd``), it calls that in
the place of as many calls of the first. Both come from one formula, and return the same bits.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir

from minijit.kernels.math.value import FLOAT32, Value

__all__ = ["call_declared", "call_formula", "call_in_parts", "every_lanes", "wide_bytes"]

# Functions named here stay as they are, though nothing calls them before there are vectors.
_KEPT = "llvm.compiler.used"
_ADDRESS = ir.IntType(8).as_pointer()


def call_formula(builder: Any, formula: Callable[..., Value], arguments: Sequence[Any]) -> Any:
    """Return a call of a formula's function, which a module gets with the first call.

    ``arguments`` are LLVM scalars of one type, which is that of the result.
    """
    module = builder.module
    name = f"minijit.{formula.__name__}"
    function = module.globals.get(name)
    if function is None:
        function = _define(module, name, formula, arguments[0].type, len(arguments))
    return builder.call(function, arguments)


def call_in_parts(builder: Any, formula: Callable[[Value], Value], x: Any) -> Any:
    """Return calls of a formula's function for as many lanes as a vector has of float64, joined.

    It is compiled once for a part, and not for vectors of every size: for what is rare.
    """
    if not isinstance(x.type, ir.VectorType):
        return _call_part(builder, formula, x)
    size = min(_vector_bytes() // 8, x.type.count)
    parts = [
        _call_part(builder, formula, _lanes_from(builder, [x], range(start, start + size)))
        for start in range(0, x.type.count, size)
    ]
    while len(parts) > 1:
        size *= 2
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [_lanes_from(builder, pair, range(size)) for pair in pairs]
    return parts[0]


def _call_part(builder: Any, formula: Callable[[Value], Value], x: Any) -> Any:
    module, kind = builder.module, x.type
    name = f"minijit.{formula.__name__}.{str(kind).strip('<>').replace(' ', '')}"
    function = module.globals.get(name)
    if function is None:
        function = _written(formula)(module, name, kind, 1)
    return builder.call(function, [x])


def _lanes_from(builder: Any, vectors: Sequence[Any], lanes: Sequence[int]) -> Any:
    """Return these lanes of one vector, or of two of a kind one after the other."""
    first, second = vectors[0], vectors[-1]
    kind = ir.VectorType(ir.IntType(32), len(lanes))
    return builder.shuffle_vector(first, second, ir.Constant(kind, list(lanes)))


def call_declared(builder: Any, name: str, arguments: Sequence[Any]) -> Any:
    """Return a call of a function that a module gets when it is optimised, for vectors as well.

    It takes as many numbers of one type as there are arguments, and returns another one.
    """
    module, kind = builder.module, arguments[0].type
    function = module.globals.get(name)
    if function is None:
        function = _named_vectors(module, name, kind, len(arguments), _function, every_lanes(kind))
    return builder.call(function, arguments)


def _define(
    module: Any, name: str, formula: Callable[..., Value], kind: Any, arity: int
) -> ir.Function:
    """Add the function of a scalar and those of vectors to a module, and return the first."""
    return _named_vectors(module, name, kind, arity, _written(formula), _lanes(kind))


def _written(formula: Callable[..., Value]) -> Callable[..., ir.Function]:
    """Return what adds a formula's function, of numbers or of vectors, to a module."""

    def defined(module: Any, name: str, kind: Any, arity: int) -> ir.Function:
        function = _function(module, name, kind, arity)
        function.linkage = "internal"
        function.attributes.add("noinline")
        builder = ir.IRBuilder(function.append_basic_block("entry"))
        builder.ret(formula(*(Value(builder, argument) for argument in function.args)).ir)
        return function

    return defined


def _named_vectors(
    module: Any,
    name: str,
    kind: Any,
    arity: int,
    make: Callable[..., ir.Function],
    lanes: Sequence[int],
) -> ir.Function:
    """Add a function of scalars to a module, by ``make``, and those of vectors that it names."""
    scalar = make(module, name, kind, arity)
    vectors = [make(module, f"{name}.{n}", ir.VectorType(kind, n), arity) for n in lanes]
    mappings = (
        f"_ZGV_LLVM_N{vector.args[0].type.count}{'v' * arity}_{name}({vector.name})"
        for vector in vectors
    )
    # llvmlite's own method knows no attributes with values.
    set.add(scalar.attributes, f'"vector-function-abi-variant"="{",".join(mappings)}"')
    _keep(module, [scalar, *vectors])
    return scalar


def _function(module: Any, name: str, kind: Any, arity: int) -> ir.Function:
    function = ir.Function(module, ir.FunctionType(kind, [kind] * arity), name)
    for attribute in ("nounwind", "readnone"):
        function.attributes.add(attribute)
    return function


@functools.cache
def _vector_bytes() -> int:
    return 32 if llvm.get_host_cpu_features().get("avx2") else 16


def wide_bytes() -> int:
    """Return the bytes of a wide vector: four of this processor's, to work on side by side."""
    return 4 * _vector_bytes()


def every_lanes(kind: Any) -> list[int]:
    """Return the lanes of all vectors up to wide ones."""
    widest = wide_bytes() // (4 if kind == FLOAT32 else 8)
    return [2**n for n in range(1, widest.bit_length())]


def _lanes(kind: Any) -> list[int]:
    """Return the lanes of full vectors, and of those beside float64, of which fewer fit."""
    size = 4 if kind == FLOAT32 else 8
    return sorted({bytes // fit for bytes in (_vector_bytes(), wide_bytes()) for fit in (size, 8)})


def _keep(module: Any, functions: Sequence[ir.Function]) -> None:
    """Add functions to the list of those that are kept."""
    listed = [function.bitcast(_ADDRESS) for function in functions]
    kept = module.globals.get(_KEPT)
    if kept is not None:
        listed = [*kept.initializer.constant, *listed]
    kind = ir.ArrayType(_ADDRESS, len(listed))
    if kept is None:
        kept = ir.GlobalVariable(module, kind, _KEPT)
        kept.linkage, kept.section = "appending", "llvm.metadata"
    # A module has one list, and the length is a part of its type.
    kept.value_type, kept.type = kind, kind.as_pointer()
    kept.initializer = ir.Constant(kind, listed)
