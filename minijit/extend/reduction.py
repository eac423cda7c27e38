"""``@reduction``: a combination of scalars, or of tuples of them, becomes a reduction of arrays."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, Literal, overload

import numpy as np

from minijit.extend.alone import Alone
from minijit.extend.elementwise import counted, first_line, formula, function_of, loops_of
from minijit.extend.laws import check_laws
from minijit.graph.dtypes import DTypeLike, canonical_dtype
from minijit.graph.errors import DeclarationError
from minijit.graph.primitive import UNDECLARED, Derived, JvpRule, Monoid, Primitive, Rule, VjpRule
from minijit.graph.source_info import user_line
from minijit.graph.trace import bind
from minijit.numpy.reductions import Axis, reduced_axes, reduced_size
from minijit.ops import define
from minijit.ops.literals import Formula
from minijit.ops.loops import dtypes_for
from minijit.ops.promote import as_operand, broadcast_to, convert, is_traced, operand_aval
from minijit.ops.shape import expand_dims

__all__ = ["Reduction", "reduction"]

Code = Callable[..., Any]
Dtype = np.dtype[Any]
_POSITION = np.dtype(np.int64)


class Reduction:
    """A reduction with NumPy's axes around it; it returns a tuple where it was given several ends.

    Attributes:
        primitives: One for each result; in a kernel they share what they accumulate.
        alone: What computes each of them outside of programs.
    """

    def __init__(
        self, name: str, doc: str, primitives: tuple[Primitive, ...], dtypes: Any, several: bool
    ) -> None:
        """Wrap ``primitives``, whose operand has the dtype that ``dtypes`` says."""
        self.primitives = primitives
        self.__name__, self.__doc__ = name, doc
        self._dtypes = dtypes
        self._several = several
        self.alone = tuple(
            Alone(functools.partial(self._record, primitive), name) for primitive in primitives
        )

    @property
    def primitive(self) -> Primitive:
        """The only primitive.

        Raises:
            ValueError: there are several.
        """
        (primitive,) = self.primitives
        return primitive

    def __call__(self, x: Any, axis: Axis = None, keepdims: bool = False) -> Any:
        """Reduce over ``axis``: an integer, a tuple of them, or None for all axes.

        Raises:
            numpy.exceptions.AxisError: an axis is out of range.
        """
        x = as_operand(x)
        if not is_traced(x):
            axes = reduced_axes(operand_aval(x), axis)
            params = {"axes": axes, "keepdims": bool(keepdims)}
            results = tuple(alone(None, x, **params) for alone in self.alone)
        else:
            axes = reduced_axes(operand_aval(x), axis)
            results = tuple(
                self._record(p, x, axes=axes, keepdims=bool(keepdims)) for p in self.primitives
            )
        return results if self._several else results[0]

    def _record(
        self, primitive: Primitive, x: Any, *, axes: tuple[int, ...], keepdims: bool = False
    ) -> Any:
        aval = operand_aval(x)
        dtype, _ = dtypes_for(self._dtypes, [aval.strip_weak_type()])
        x = convert(x, dtype)
        if not axes:  # each element alone
            return bind(primitive, expand_dims(x, (aval.ndim,)), axes=(aval.ndim,))
        if reduced_size(aval, axes):
            result = bind(primitive, x, axes=axes)
        else:
            result = _of_nothing(primitive, aval.shape, axes, dtype)
        return expand_dims(result, axes) if keepdims else result

    def __repr__(self) -> str:
        """Return the name."""
        return f"<reduction {self.__name__}>"


@overload
def reduction(
    name: str,
    /,
    *,
    monoid: Monoid,
    result_dtype: Callable[[Dtype], Dtype],
    doc: str,
    eager: Code,
    **options: Any,
) -> Primitive: ...


@overload
def reduction(
    *,
    identity: Any,
    element: Code | None = ...,
    finish: Code | Sequence[Code] | None = ...,
    position: bool = ...,
    name: str | None = ...,
    doc: str | None = ...,
    dtypes: np.ufunc | Literal["float", "any"] = ...,
    result: DTypeLike | Sequence[DTypeLike] = ...,
    only: tuple[str, ...] = ...,
    eager: Code | None = ...,
    flops: int | None = ...,
    jvp: JvpRule = ...,
    vjp: VjpRule = ...,
    transpose: Rule = ...,
    batch: Rule = ...,
) -> Callable[[Code], Reduction]: ...


def reduction(given: Any = None, /, **options: Any) -> Any:
    """Declare a reduction: how two results are combined, and the one that changes nothing.

    ``@reduction(identity=...)`` on a function of scalars, the components of one tuple and then
    those of another; or ``reduction("name", monoid=..., ...)``, in which minijit's own are
    declared: see :func:`minijit.ops.define.reduction`.

    The combination must be associative, for rows are cut into parts, and commutative, for threads
    take elements in turn. Both, and the identity, are tried on a few values at once. Results are
    the same bits in every run.

    Args:
        given: None, or a name.
        **options: Of the decorator:

            - ``identity``: The components that change nothing: a number or a tuple. Numbers of
              Python take the operand's dtype (NEP 50), NumPy scalars keep theirs; or a function of
              the dtype that returns NumPy scalars.
            - ``element``: From an element to components; default: it is the only one.
            - ``position``: Whether ``element`` takes the element's flat position (int64) as well.
            - ``finish``: From components to the result; several functions for a tuple of results;
              default: the first component.
            - ``name``, ``doc``: Default: the function's name, the first line of its docstring.
            - ``dtypes``: ``"any"`` (default): the operand keeps its dtype; ``"float"``: integers
              become floats first, as by ``np.exp``; or a ufunc of NumPy.
            - ``result``: Dtype of the result, or of each; default: the first component's without
              ``finish``, else the operand's, or the first float's among the components.
            - ``only``: Names of the operand dtypes, where there are fewer.
            - ``eager``: ``(xp, array, *, axes)``: the same by NumPy or CuPy (a single result).
            - ``flops``: Operations for one element; default: counted in the function's code.
            - ``jvp``, ``vjp``, ``transpose``, ``batch``: Rules, or ``unsupported("why")``.

    Raises:
        DeclarationError: the name is taken, the functions do not fit together, or the combination
            breaks a law; the message has the values for which it does.
    """
    if isinstance(given, str):
        return define.reduction(given, **options)
    if given is not None or "identity" not in options:
        raise DeclarationError(f"write @reduction(identity=...) (at {user_line()})")
    return functools.partial(_declared, **options)


def _declared(
    given: Code,
    *,
    identity: Any,
    element: Code | None = None,
    finish: Code | Sequence[Code] | None = None,
    position: bool = False,
    name: str | None = None,
    doc: str | None = None,
    dtypes: np.ufunc | Literal["float", "any"] = "any",
    result: Any = None,
    only: tuple[str, ...] = (),
    eager: Code | None = None,
    flops: int | None = None,
    jvp: JvpRule = UNDECLARED,
    vjp: VjpRule = UNDECLARED,
    transpose: Rule = UNDECLARED,
    batch: Rule = Derived.BY_KIND,
) -> Reduction:
    combine = function_of(given)
    name, doc = name or combine.__name__, doc or first_line(combine)
    start = _Identity(name, identity)
    several = isinstance(finish, Sequence)
    ends = tuple(finish) if isinstance(finish, Sequence) else (finish,)
    finishes = [None if end is None else function_of(end) for end in ends]
    lift = None if element is None else function_of(element)
    count = len(start.at(np.dtype(np.float64)))
    _check_counts(combine, lift, finishes, count, position)
    check_laws(combine, lift, start.at, position)
    kinds = list(result) if several and isinstance(result, Sequence) else [result] * len(ends)
    rule = loops_of(dtypes, 1, None)

    def declared(number: int, end: FunctionType | None, kind: DTypeLike) -> Primitive:
        def alone(xp: Any, x: Any, *, axes: tuple[int, ...]) -> Any:
            return made.alone[number](xp, x, axes=axes)

        monoid = Monoid(
            name,
            Formula(combine),
            start,
            position=position,
            components=start.dtypes,
            element=formula(lift),
            finish=formula(end),
        )
        wanted = None if kind is None else canonical_dtype(kind)
        return define.reduction(
            f"{name}_{number}" if several else name,
            monoid=monoid,
            result_dtype=_ResultDtype(name, start, wanted, end is None, only),
            doc=doc,
            eager=eager or alone,
            flops=counted(combine) if flops is None else flops,
            jvp=jvp,
            vjp=vjp,
            transpose=transpose,
            batch=batch,
        )

    primitives = tuple(map(declared, range(len(ends)), finishes, kinds))
    made = Reduction(name, doc, primitives, rule, several)
    return made


_declared.__qualname__ = "reduction"  # what Python says of an option that there is not


@dataclasses.dataclass(frozen=True, slots=True)
class _Identity:
    """The components that change nothing, by dtype.

    Attributes:
        of: Name of the reduction.
        given: What was declared.
    """

    of: str
    given: Any

    def at(self, dtype: Dtype) -> tuple[Any, ...]:
        """Return them as NumPy scalars.

        Raises:
            DeclarationError: one is no number, or is none of the dtype.
        """
        given = self.given(dtype) if callable(self.given) else self.given
        parts = given if isinstance(given, tuple) else (given,)
        return tuple(self._typed(part, dtype) for part in parts)

    __call__ = at

    def dtypes(self, dtype: Dtype) -> tuple[Dtype, ...]:
        """Return their dtypes."""
        return tuple(part.dtype for part in self.at(dtype))

    def _typed(self, number: Any, dtype: Dtype) -> Any:
        if isinstance(number, np.generic):
            return canonical_dtype(number.dtype).type(number)
        if type(number) not in (bool, int, float):
            raise DeclarationError(
                f"identity= of {self.of!r} has {number!r}, which is no number (at {user_line()})"
            )
        if isinstance(number, bool):
            return np.bool_(number)
        try:
            return canonical_dtype(np.result_type(dtype, number)).type(number)
        except OverflowError:
            raise DeclarationError(
                f"identity= of {self.of!r} is {number}, which {dtype} cannot hold: give a function "
                "of the dtype, identity=lambda dtype: dtype.type(...), or name the dtypes that it "
                f"is for, only=(...) (at {user_line()})"
            ) from None


class _ResultDtype:
    """The dtype of a reduction's result by that of its operand."""

    def __init__(
        self,
        name: str,
        start: _Identity,
        declared: Dtype | None,
        is_component: bool,
        only: tuple[str, ...],
    ) -> None:
        self._name = name
        self._only = only
        self._start = start
        self._declared = declared
        self._is_component = is_component

    def __call__(self, dtype: Dtype) -> Dtype:
        if self._only and dtype.name not in self._only:
            raise TypeError(
                f"{self._name} computes with {', '.join(self._only)} only, not with {dtype.name}: "
                f"convert the operand by .astype (at {user_line()})"
            )
        if self._declared is not None:
            return self._declared
        held = np.dtype(np.float32) if dtype == np.float16 else dtype
        components = self._start.dtypes(held)
        floats = (component for component in components if component.kind == "f")
        found = components[0] if self._is_component else next(floats, components[0])
        return dtype if found == held or (dtype.kind == "f" and not self._is_component) else found


def _check_counts(
    combine: FunctionType,
    element: FunctionType | None,
    finishes: Sequence[FunctionType | None],
    count: int,
    position: bool,
) -> None:
    """Refuse functions that do not take what they are given."""
    taken = [("combine", combine, 2 * count), ("element", element, 1 + position)]
    taken += [("finish", finish, count) for finish in finishes]
    for what, function, wanted in taken:
        if function is not None and function.__code__.co_argcount != wanted:
            raise DeclarationError(
                f"{what} of {combine.__name__} (at {user_line()}) takes "
                f"{function.__code__.co_argcount} numbers and is given {wanted}: the identity has "
                f"{count} components"
            )
    if element is None and count != 1 + position:
        raise DeclarationError(
            f"{combine.__name__} (at {user_line()}) has {count} components, and nothing makes them "
            "of an element: give element="
        )


def _of_nothing(
    primitive: Primitive, shape: tuple[int, ...], axes: tuple[int, ...], dtype: Dtype
) -> Any:
    """Return the results of rows without elements."""
    monoid = primitive.monoid
    assert monoid is not None
    held = np.dtype(np.float32) if dtype == np.float16 else dtype
    start = monoid.identity(held)
    kept = tuple(extent for axis, extent in enumerate(shape) if axis not in axes)
    out = primitive.abstract_eval(operand_aval(np.empty((0,), dtype)), axes=(0,)).dtype
    value = start[0]
    if monoid.finish is not None:
        assert isinstance(monoid.finish, Formula)
        try:
            with np.errstate(all="ignore"):
                value = monoid.finish.function(*start)
        except (ArithmeticError, ValueError) as error:
            raise ValueError(
                f"zero-size array to {primitive}, which has no result for nothing: {error} "
                f"(at {user_line()})"
            ) from None
    return broadcast_to(out.type(value), kept)
