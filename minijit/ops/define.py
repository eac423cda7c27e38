"""Constructors of declarations.

One call declares a primitive and returns the function that applies it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minijit.graph.aval import ShapedArray
from minijit.graph.dtypes import canonical_dtype
from minijit.graph.errors import DeclarationError
from minijit.graph.primitive import (
    UNDECLARED,
    Derived,
    JvpRule,
    Kind,
    Monoid,
    Primitive,
    Rule,
    Scalar,
    VjpRule,
    register,
)
from minijit.graph.registry import declare, in_scope
from minijit.graph.source_info import user_line
from minijit.graph.trace import array_namespace, bind
from minijit.graph.tracer import ufuncs
from minijit.ops.loops import Loops, dtypes_for
from minijit.ops.promote import (
    as_operand,
    broadcast_operands,
    convert,
    is_traced,
    operand_aval,
)

__all__ = ["Elementwise", "choice", "elementwise", "plain", "reduction", "typed"]


def plain(function: Callable[..., Any], infix: str | None = None, *, exact: bool = False) -> Scalar:
    """Declare scalar code that is the same for every dtype and holds no floating-point literal."""
    return Scalar(lambda dtype: function, infix, exact=exact)


def choice(function: Callable[..., Any]) -> Scalar:
    """Declare scalar code that returns one of the operands."""
    return Scalar(lambda dtype: function, chooses=True)


def typed(make: Callable[[np.dtype[Any]], Callable[..., Any]], *, exact: bool = False) -> Scalar:
    """Declare scalar code that depends on the dtype: ``make(dtype)`` returns the function."""
    return Scalar(make, exact=exact)


class Elementwise:
    """A primitive of equal-shaped operands with NumPy's promotion and broadcasting around it.

    Operands of shape ``()`` need no explicit broadcast.
    """

    def __init__(self, primitive: Primitive, rule: np.ufunc | Loops) -> None:
        """Wrap ``primitive``, whose dtypes follow ``rule``."""
        self.primitive = primitive
        self.rule = rule
        self.__name__ = primitive.name
        self.__doc__ = primitive.doc

    @property
    def ufunc(self) -> np.ufunc:
        """The ufunc whose dtypes it has."""
        assert isinstance(self.rule, np.ufunc)
        return self.rule

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Apply to arrays, scalars or tracers; the options are those of NumPy's ufuncs.

        Raises:
            TypeError: an option other than ``dtype`` (that of the result) while tracing.
        """
        if not is_traced(*args):
            return self._compute(args, options)
        dtype = options.pop("dtype", None)
        for name, value in options.items():
            if value is not None and not (name == "where" and value is True):
                if self.primitive.ufunc is None:
                    raise TypeError(
                        f"{self.__name__}() has no option {name}=: operands are given by position "
                        f"(at {user_line()})"
                    )
                raise TypeError(
                    f"the option {name}= of {self.__name__} cannot be traced (at {user_line()})"
                )
        if len(args) != self.rule.nin:
            raise TypeError(f"{self.__name__}() takes {self.rule.nin} arguments, got {len(args)}")
        operands = map(as_operand, args)
        return self.record(*operands, dtype=None if dtype is None else canonical_dtype(dtype))

    def _compute(self, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        xp = array_namespace(args)
        if self.primitive.ufunc is not None:
            return getattr(xp, self.primitive.ufunc.__name__)(*args, **options)
        return self.primitive.eager(xp, *args, **options)

    def record(self, *args: Any, dtype: np.dtype[Any] | None) -> Any:
        """Record the operation in the current trace."""
        avals = list(map(operand_aval, args))
        loops = dtypes_for(self.rule, avals, dtype)
        weak = all(aval.weak_type for aval in avals) and dtype is None
        operands = [convert(arg, loop, weak) for arg, loop in zip(args, loops, strict=False)]
        return bind(self.primitive, *broadcast_operands(operands))

    def __repr__(self) -> str:
        """Return the primitive's name."""
        return f"<operation {self.__name__}>"


def elementwise(
    name: str,
    *,
    scalar: Scalar,
    doc: str,
    ufunc: np.ufunc | None = None,
    dtypes: np.ufunc | Loops | None = None,
    only: tuple[str, ...] = (),
    eager: Callable[..., Any] | None = None,
    derived: bool = False,
    flops: int = 1,
    samples: tuple[tuple[float, float], ...] = (),
    jvp: JvpRule = UNDECLARED,
    vjp: VjpRule = UNDECLARED,
    transpose: Rule = Derived.BY_KIND,
    batch: Rule = Derived.BY_KIND,
) -> Elementwise:
    """Declare an elementwise primitive and return the function that applies it.

    Args:
        name: Printed in jaxprs.
        scalar: Code of one element.
        doc: One line for the reference.
        ufunc: The NumPy ufunc that it answers; also CuPy's of that name.
        dtypes: A ufunc whose dtype rule it shares, or a rule, when it answers none itself.
        only: Names of the operand dtypes, when the ufunc has loops that ``scalar`` has no code for.
        eager: ``(xp, *arrays)``; by default the function called as ``ufunc`` in ``xp``.
        derived: Whether ``eager`` runs the primitive's own kernel, having no other code.
        flops: Operations for one element.
        samples: Domain of each operand in generated tests.
        jvp: Forward derivative rule.
        vjp: Reverse derivative rule.
        transpose: Linear transpose rule.
        batch: Batching rule, where it is not to follow from the kind.
    """
    rule = ufunc or dtypes
    if rule is None:
        raise DeclarationError(f"primitive {name!r} needs ufunc= or dtypes=")

    def abstract_eval(*avals: ShapedArray) -> ShapedArray:
        shapes = {aval.shape for aval in avals if aval.shape}
        if len(shapes) > 1:
            raise TypeError(f"{name}: operands of shapes {sorted(shapes)}")
        strong = [aval.strip_weak_type() for aval in avals]
        loops = dtypes_for(rule, strong)
        if loops[:-1] != tuple(aval.dtype for aval in strong):
            raise TypeError(f"{name}: computes with {loops[:-1]}, not {[a.dtype for a in strong]}")
        if only and not {aval.dtype.name for aval in avals} <= set(only):
            others = dict.fromkeys(a.dtype.name for a in avals if a.dtype.name not in only)
            raise TypeError(
                f"{name} computes with {', '.join(only)} only, not with {', '.join(others)}: "
                f"convert the operands by .astype (at {user_line()})"
            )
        weak = all(aval.weak_type for aval in avals) and loops[-1].kind != "b"
        return ShapedArray(shapes.pop() if shapes else (), loops[-1], weak)

    if isinstance(rule, Loops) and eager is None:
        raise DeclarationError(f"primitive {name!r} is named after no ufunc and needs eager=")

    def by_name(xp: Any, *args: Any) -> Any:
        assert isinstance(rule, np.ufunc)
        with np.errstate(all="ignore"):
            return getattr(xp, rule.__name__)(*args)

    primitive = register(
        Primitive(
            name=name,
            kind=Kind.ELEMENTWISE,
            doc=doc,
            abstract_eval=abstract_eval,
            eager=eager or by_name,
            derived=derived,
            ufunc=ufunc,
            scalar=scalar,
            flops=flops,
            samples=samples or ((-4.0, 4.0),) * rule.nin,
            jvp=jvp,
            vjp=vjp,
            transpose=transpose,
            batch=batch,
        )
    )
    operation = Elementwise(primitive, rule)
    if ufunc is not None:
        if ufunc.__name__ in ufuncs:
            raise DeclarationError(
                f"np.{ufunc.__name__} has a meaning for traced arrays already (at {user_line()})"
            )
        if in_scope():
            declare("ufunc", ufunc.__name__, operation)
        else:
            ufuncs[ufunc.__name__] = operation
    return operation


def reduction(
    name: str,
    *,
    monoid: Monoid,
    result_dtype: Callable[[np.dtype[Any]], np.dtype[Any]],
    doc: str,
    eager: Callable[..., Any],
    flops: int = 1,
    jvp: JvpRule = UNDECLARED,
    vjp: VjpRule = UNDECLARED,
    transpose: Rule = UNDECLARED,
    batch: Rule = Derived.BY_KIND,
) -> Primitive:
    """Declare a reduction over ``params["axes"]`` (a sorted tuple of axes, which disappear).

    Args:
        name: Printed in jaxprs, for example ``reduce_sum``.
        monoid: Combination and identity.
        result_dtype: Dtype of the result for a dtype of the operand.
        doc: One line for the reference.
        eager: ``(xp, operand, axes=...)``.
        flops: Operations for one element of the operand.
        jvp: Forward derivative rule.
        vjp: Reverse derivative rule.
        transpose: Linear transpose rule.
        batch: Batching rule, where it is not to follow from the kind.
    """

    def abstract_eval(operand: ShapedArray, *, axes: tuple[int, ...]) -> ShapedArray:
        kept = tuple(n for axis, n in enumerate(operand.shape) if axis not in axes)
        return ShapedArray(kept, result_dtype(operand.dtype))

    return register(
        Primitive(
            name=name,
            kind=Kind.REDUCTION,
            doc=doc,
            abstract_eval=abstract_eval,
            eager=eager,
            monoid=monoid,
            flops=flops,
            jvp=jvp,
            vjp=vjp,
            transpose=transpose,
            batch=batch,
        )
    )
