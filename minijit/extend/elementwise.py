"""``@elementwise``: a function of scalars becomes an operation on arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable
from opcode import opmap
from types import FunctionType
from typing import Any, Literal, overload

import numpy as np

from minijit.extend.alone import Alone
from minijit.extend.of_function import OfFunction
from minijit.graph.dtypes import DTypeLike, canonical_dtype
from minijit.graph.errors import DeclarationError
from minijit.graph.primitive import UNDECLARED, Derived, JvpRule, Rule, Scalar, VjpRule
from minijit.graph.source_info import user_line
from minijit.graph.trace import bind
from minijit.ops import define
from minijit.ops.define import Elementwise
from minijit.ops.literals import Formula
from minijit.ops.loops import Loops

__all__ = ["elementwise", "formula", "function_of", "loops_of"]

Code = Callable[..., Any]
Dtypes = np.ufunc | Literal["float", "any"]
_CALL_FLOPS = 10
_ARITHMETIC = [opmap[name] for name in ("BINARY_OP", "COMPARE_OP", "UNARY_NEGATIVE")]


@overload
def elementwise(function: Code, /) -> Elementwise: ...


@overload
def elementwise(name: str, /, *, scalar: Scalar, doc: str, **options: Any) -> Elementwise: ...


@overload
def elementwise(
    *,
    name: str | None = ...,
    doc: str | None = ...,
    dtypes: Dtypes = ...,
    result: DTypeLike = ...,
    cpu: Code | None = ...,
    cuda: Code | None = ...,
    ufunc: np.ufunc | None = ...,
    only: tuple[str, ...] = ...,
    eager: Code | None = ...,
    flops: int | None = ...,
    samples: tuple[tuple[float, float], ...] = ...,
    jvp: JvpRule = ...,
    vjp: VjpRule = ...,
    transpose: Rule = ...,
    batch: Rule = ...,
) -> Callable[[Code], Elementwise]: ...


def elementwise(given: Any = None, /, **options: Any) -> Any:
    """Declare an operation on single elements; return the function that applies it to arrays.

    Three spellings: ``@elementwise`` and ``@elementwise(...)`` on a function of scalars, and
    ``elementwise("name", scalar=..., ...)``, in which minijit's own operations are declared: see
    :func:`minijit.ops.define.elementwise`.

    The function takes one number an operand, and uses arithmetic, comparisons, ``math``, branches
    and loops. Numbers in it, and those that it reads as globals or free variables, have the dtype
    of the operands. Numba compiles it for both targets.

    Args:
        given: The function, or a name.
        **options: Of the decorator:

            - ``name``: Printed in jaxprs; default: the function's.
            - ``doc``: One line for the reference; default: the first one of the docstring.
            - ``dtypes``: ``"float"`` (default): operands are promoted to one float, as by
              ``np.exp``; ``"any"``: to one dtype of any kind; or a ufunc of NumPy whose dtypes it
              shares.
            - ``result``: Dtype of the result; default: that of the operands.
            - ``cpu``, ``cuda``: Another function of scalars for that target.
            - ``ufunc``: The NumPy ufunc that it answers: ``np.`` and ``cp.`` calls of it trace.
            - ``only``: Names of the operand dtypes, where there are fewer.
            - ``eager``: ``(xp, *arrays)``: the same by NumPy or CuPy, for calls outside of
              programs; default: a kernel of the operation alone.
            - ``flops``: Operations for one element; default: counted in the function's code.
            - ``samples``: ``(low, high)`` for each operand: the domain in tests.
            - ``jvp``, ``vjp``, ``transpose``, ``batch``: Rules, or ``unsupported("why")``.

    Raises:
        DeclarationError: there is a primitive of that name, or no function of scalars was given;
            and, when it is first compiled, what Numba has against the function.
    """
    if isinstance(given, str):
        return define.elementwise(given, **options)
    if given is None:
        return functools.partial(_declared, **options)
    return _declared(given, **options)


def _declared(
    given: Code,
    *,
    name: str | None = None,
    doc: str | None = None,
    dtypes: Dtypes = "float",
    result: DTypeLike = None,
    cpu: Code | None = None,
    cuda: Code | None = None,
    ufunc: np.ufunc | None = None,
    only: tuple[str, ...] = (),
    eager: Code | None = None,
    flops: int | None = None,
    samples: tuple[tuple[float, float], ...] = (),
    jvp: JvpRule | None = None,
    vjp: VjpRule = UNDECLARED,
    transpose: Rule = Derived.BY_KIND,
    batch: Rule = Derived.BY_KIND,
) -> Elementwise:
    function = function_of(given)
    count = function.__code__.co_argcount
    others = {target: function_of(f) for target, f in (("cpu", cpu), ("cuda", cuda)) if f}
    for target, other in others.items():
        if other.__code__.co_argcount != count:
            raise DeclarationError(
                f"{function.__name__} takes {count} operands, and its code for {target} "
                f"{other.__code__.co_argcount} (at {user_line()})"
            )
    if isinstance(jvp, tuple) and len(jvp) != count:
        raise DeclarationError(
            f"{function.__name__} takes {count} operands, and jvp= has {len(jvp)} partial "
            f"derivatives (at {user_line()}): give one for each"
        )
    alone = Alone(
        lambda *operands, **given: operation(*operands, **given), name or function.__name__
    )
    same = result is None and not isinstance(dtypes, np.ufunc) and ufunc is None
    operation = define.elementwise(
        name or function.__name__,
        scalar=Scalar(
            Formula(function, same),
            cpu=formula(others.get("cpu"), same),
            cuda=formula(others.get("cuda"), same),
            strict=True,
        ),
        doc=doc or first_line(function),
        ufunc=ufunc,
        dtypes=None if ufunc is not None else loops_of(dtypes, count, result),
        only=only,
        eager=eager or (None if ufunc is not None else alone),
        derived=eager is None and ufunc is None,
        flops=counted(function) if flops is None else flops,
        samples=samples,
        jvp=OfFunction(function, lambda *xs: bind(operation.primitive, *xs))
        if jvp is None
        else jvp,
        vjp=vjp,
        transpose=transpose,
        batch=batch,
    )
    return operation


_declared.__qualname__ = "elementwise"  # what Python says of an option that there is not


def formula(function: FunctionType | None, same: bool = False) -> Formula | None:
    """Return what makes a function's code for a dtype."""
    return None if function is None else Formula(function, same)


def function_of(given: Any) -> FunctionType:
    """Return a function of scalars by position.

    Raises:
        DeclarationError: it is something else.
    """
    if not isinstance(given, FunctionType):
        raise DeclarationError(
            f"{given!r} is no Python function of scalars (at {user_line()}): write `def` or "
            "`lambda`"
        )
    code = given.__code__
    variable = code.co_flags & 0x0C  # *args, **kwargs
    if variable or code.co_kwonlyargcount or given.__defaults__ or not code.co_argcount:
        raise DeclarationError(
            f"{given.__name__} (at {user_line()}) takes its operands in another way than one by "
            "one: code of one element has positional arguments without defaults"
        )
    return given


def loops_of(dtypes: Dtypes, count: int, result: DTypeLike) -> np.ufunc | Loops:
    """Return the dtype rule that ``dtypes=`` and ``result=`` describe.

    Raises:
        DeclarationError: they describe none.
    """
    if isinstance(dtypes, np.ufunc):
        if result is not None or dtypes.nin != count or dtypes.nout != 1:
            raise DeclarationError(
                f"np.{dtypes.__name__} gives dtypes to {dtypes.nin} operands and {dtypes.nout} "
                f"result, so there is no result= with it, and {count} operands need another rule "
                f"(at {user_line()})"
            )
        return dtypes
    if dtypes not in ("float", "any"):
        raise DeclarationError(
            f"dtypes={dtypes!r} (at {user_line()}): write 'float', 'any' or a ufunc of NumPy, "
            "and names of dtypes into only="
        )
    return Loops(count, dtypes == "float", None if result is None else canonical_dtype(result))


def first_line(function: FunctionType) -> str:
    """Return the first line of a docstring, or the name."""
    text = (function.__doc__ or "").strip()
    return text.splitlines()[0] if text else f"{function.__name__}, declared by a user."


def counted(function: FunctionType) -> int:
    """Return about how many operations a function takes, loops not counted."""
    codes = function.__code__.co_code[::2]  # what follows an instruction's code is its argument
    arithmetic = sum(codes.count(code) for code in _ARITHMETIC)
    return max(arithmetic + _CALL_FLOPS * codes.count(opmap["CALL"]), 1)
