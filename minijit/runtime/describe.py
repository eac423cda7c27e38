"""What a kernel is compiled from, as data that is the same in every process.

Two kernels with equal descriptions are compiled to the same machine code by the same compilers.
Names of the user, paths, line numbers and comments have no part in it.
"""

from __future__ import annotations

import dataclasses
import dis
import functools
import types
from typing import TYPE_CHECKING, Any

import numpy as np

from minijit.graph.primitive import Kind, Primitive

if TYPE_CHECKING:
    from minijit.lowering.source import KernelSource

__all__ = ["Indescribable", "describe_function", "describe_primitive", "describe_source"]

_LIBRARIES = frozenset({"builtins", "math", "minijit", "numba", "numpy", "operator"})
"""Packages whose parts a name stands for: their versions are known to the environment."""
_LITERALS = frozenset({bool, int, float, complex, str, bytes, type(None), type(...)})
_LITERALS |= frozenset(np.sctypeDict.values())
_LOOKUPS = ("LOAD_GLOBAL", "LOAD_NAME")
_Seen = tuple[types.FunctionType, ...]
"""The functions in whose description something is described, the outermost first."""


class Indescribable(TypeError):
    """Code reads something whose value cannot be told from one process to the next."""


def describe_source(source: KernelSource) -> dict[str, Any]:
    """Return what ``source`` is compiled from, as JSON allows: equal for equal machine code.

    Raises:
        Indescribable: a scalar function reads an object that has no text form.
    """
    kernel = source.kernel
    return {
        "code": source.code,
        "names": {name: _describe(value, ()) for name, value in sorted(source.names.items())},
        "buffers": [buffer.dtype.name for buffer in kernel.buffers],
        "arguments": [argument.dtype.name for argument in kernel.arguments],
    }


def describe_primitive(primitive: Primitive) -> list[Any]:
    """Return what becomes of an operation when it is lowered, as JSON allows.

    Raises:
        Indescribable: one of its functions reads an object that has no text form.
    """
    # Constants are folded by what computes single elements, if that is not derived from the code.
    folds = primitive.kind is Kind.ELEMENTWISE and not primitive.derived
    eager = primitive.eager if folds else None
    parts = (eager, primitive.scalar, primitive.monoid, primitive.view, primitive.parts)
    described = [_describe(part, ()) for part in (*parts, primitive.contraction)]
    return [primitive.name, primitive.kind.value, primitive.flops, primitive.derived, *described]


@functools.singledispatch
def _describe(value: Any, seen: _Seen) -> Any:
    """Return a description of a global, an argument or a constant, as JSON allows."""
    # Not of a subclass, whose text need not say everything.
    if type(value) in _LITERALS:
        return [type(value).__name__, repr(value)]
    if type(value) in (tuple, frozenset):
        parts = [_describe(part, seen) for part in value]
        return [type(value).__name__, parts if type(value) is tuple else sorted(parts, key=repr)]
    if dataclasses.is_dataclass(value) and type(value).__module__.startswith("minijit."):
        fields = dataclasses.fields(value)
        parts = [_describe(getattr(value, field.name), seen) for field in fields]
        return [type(value).__name__, parts]
    raise Indescribable(f"{value!r} has no description that holds in another process")


@_describe.register(np.dtype)
def _(value: np.dtype[Any], seen: _Seen) -> Any:
    return ["dtype", value.str]


@_describe.register
def _(value: types.FunctionType, seen: _Seen) -> Any:
    if value in seen:
        return ["recursion", seen.index(value)]
    return ["function", describe_function(value, seen)]


@_describe.register
def _(value: types.CodeType, seen: _Seen) -> Any:
    return ["code", _describe_code(value, seen)]


@_describe.register(functools.partial)
def _(value: functools.partial[Any], seen: _Seen) -> Any:
    keywords = [[name, _describe(v, seen)] for name, v in sorted(value.keywords.items())]
    return ["partial", _describe(value.func, seen), _describe(value.args, seen), keywords]


@_describe.register
def _(value: types.MethodType, seen: _Seen) -> Any:
    return ["method", _describe(value.__self__, seen), _describe(value.__func__, seen)]


@_describe.register(types.ModuleType)
@_describe.register(types.BuiltinFunctionType)
@_describe.register(np.ufunc)
@_describe.register(type)
def _(value: Any, seen: _Seen) -> Any:
    is_module = isinstance(value, types.ModuleType)
    module = value.__name__ if is_module else getattr(value, "__module__", None) or "numpy"
    if module.partition(".")[0] not in _LIBRARIES:
        raise Indescribable(f"{value!r} may be another one in another process")
    return ["name", module, "" if is_module else getattr(value, "__qualname__", value.__name__)]


def describe_function(function: types.FunctionType, seen: _Seen = ()) -> list[Any]:
    """Return a description of a Python function by its code and by what that reads.

    Raises:
        Indescribable: it reads an object that has no text form.
    """
    seen = (*seen, function)
    cells = [_describe(cell.cell_contents, seen) for cell in function.__closure__ or ()]
    names = sorted(_names(function.__code__) & function.__globals__.keys())
    return [
        _describe_code(function.__code__, seen),
        _describe(function.__defaults__, seen),
        [[k, _describe(v, seen)] for k, v in sorted((function.__kwdefaults__ or {}).items())],
        cells,
        [[name, _describe(function.__globals__[name], seen)] for name in names],
    ]


def _describe_code(code: types.CodeType, seen: _Seen) -> list[Any]:
    constants = [_describe(constant, seen) for constant in _constants(code)]
    names = [code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars]
    counts = [code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags]
    return [code.co_code.hex(), constants, [list(group) for group in names], counts]


def _constants(code: types.CodeType) -> tuple[Any, ...]:
    """Return the constants but for the docstring, which does nothing."""
    constants = code.co_consts
    has_text = bool(constants) and isinstance(constants[0], str)
    return (None, *constants[1:]) if has_text else constants


def _names(code: types.CodeType) -> set[str]:
    """Return the names that code, and the functions it defines, look up among globals."""
    own = {step.argval for step in dis.get_instructions(code) if step.opname in _LOOKUPS}
    inner = (constant for constant in code.co_consts if isinstance(constant, types.CodeType))
    return own.union(*map(_names, inner))
