"""A primitive operation: one frozen record that holds everything the system knows of it."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from minijit.graph.aval import ShapedArray
from minijit.graph.device_kernel import DeviceKernel
from minijit.graph.errors import DeclarationError
from minijit.graph.index import Affine
from minijit.graph.plugins import load_plugin
from minijit.graph.registry import declare, declared, find
from minijit.graph.source_info import user_line

__all__ = [
    "LINEAR",
    "NO_BATCH",
    "RULES",
    "UNDECLARED",
    "Contraction",
    "Derived",
    "JvpRule",
    "Kind",
    "Linear",
    "Monoid",
    "Part",
    "Partial",
    "Primitive",
    "Rule",
    "Scalar",
    "Unsupported",
    "VjpRule",
    "all_primitives",
    "find_primitive",
    "register",
    "sequential",
    "unsupported",
]


class Kind(enum.Enum):
    """How a primitive takes part in a kernel."""

    ELEMENTWISE = "elementwise"  # one scalar function of equal-shaped operands
    REDUCTION = "reduction"  # a monoid over some axes
    VIEW = "view"  # an affine re-indexing of one operand: free inside a kernel
    PIECEWISE = (
        "piecewise"  # each element comes from one of several operands, by conditions on its index
    )
    INDEX = "index"  # the element's own index along an axis
    GATHER = "gather"  # elements of the first operand, in memory, at places that the others hold
    LIBRARY = "library"  # run by the array library (NumPy, CuPy), never fused
    CALL = "call"  # another program in the place of an equation
    BRANCH = "branch"  # one of several sub-jaxprs, chosen by the first operand
    LOOP = "loop"  # a sub-jaxpr again and again, with carried values


@dataclasses.dataclass(frozen=True, slots=True)
class Scalar:
    """The code for one element.

    Attributes:
        make: ``make(dtype)`` returns a Python function of scalars of that dtype, which Numba
            compiles for both targets. Literals inside must be typed (close over
            ``dtype.type(0.5)``), or float32 code computes in float64. The generated code casts
            what the function returns to the result dtype.
        infix: Operator symbol to print in generated source instead of a call, for example ``"*"``.
        cpu: What makes the code for the CPU, where it is another one.
        cuda: What makes the code for CUDA, where it is another one.
        strict: Refuse a function that returns another kind of number than the result dtype, or a
            wider float, instead of casting it.
        chooses: Whether the result is one of the operands, which needs no rounding.
        exact: Whether the result of numbers of float16 is such a number and needs none either.
    """

    make: Callable[[np.dtype[Any]], Callable[..., Any]]
    infix: str | None = None
    cpu: Callable[[np.dtype[Any]], Callable[..., Any]] | None = None
    cuda: Callable[[np.dtype[Any]], Callable[..., Any]] | None = None
    strict: bool = False
    chooses: bool = False
    exact: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Monoid:
    """An associative combination with its identity.

    Attributes:
        name: A word that kernels and schedules print and by which targets know a faster code; no
            other monoid has it.
        combine: ``combine(dtype)`` returns ``(*accumulators, *values) -> accumulator`` (a tuple of
            accumulators where there are several).
        identity: ``identity(dtype)`` returns the starting accumulators, one for each component.
        position: Whether an element has a second component: its flat position (int64) along the
            reduced axes.
        result: Which component the reduction returns.
        components: ``components(dtype)`` returns the dtype of each accumulator; None: the operand's
            (float32 for float16), then that of the position. Where it is given, ``combine``,
            ``element`` and ``finish`` are called with three arguments: the dtype, those of the
            parameters of the function that is wanted, those of its results.
        element: Makes a function from an element (and its position) to accumulators; None where it
            is one.
        finish: Makes a function from accumulators to the result; None where it is one of them.
    """

    name: str
    combine: Callable[..., Callable[..., Any]]
    identity: Callable[[np.dtype[Any]], tuple[Any, ...]]
    position: bool = False
    result: int = 0
    components: Callable[[np.dtype[Any]], tuple[np.dtype[Any], ...]] | None = None
    element: Callable[..., Callable[..., Any]] | None = None
    finish: Callable[..., Callable[..., Any]] | None = None

    @property
    def is_fold(self) -> bool:
        """Whether results of parts can be combined as elements are."""
        return not self.position and self.components is None

    @property
    def core(self) -> Monoid:
        """What is accumulated, whatever is made of it in the end."""
        return dataclasses.replace(self, result=0, finish=None)


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """One source of a piecewise primitive's elements.

    Attributes:
        operand: Which operand the element comes from.
        index: That operand's index, one expression an axis.
        conditions: ``(expression, low, high)``: the part holds where ``low <= expression < high``
            for all of them. Parts are tried in order; the last one that is left is taken without a
            test, and its conditions only say where the operand may be read.
    """

    operand: int
    index: tuple[Affine, ...]
    conditions: tuple[tuple[Affine, int, int], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Contraction:
    """How an operation of two arrays sums products of their elements.

    Attributes:
        terms: ``(operand_avals)`` -> the number of products that are added up.
        factors: ``(index, operand_avals, term)`` -> the index of each operand at the term of that
            number of the result at ``index``.
    """

    terms: Callable[[Sequence[ShapedArray]], int]
    factors: Callable[
        [tuple[Affine, ...], Sequence[ShapedArray], Affine],
        tuple[tuple[Affine, ...], tuple[Affine, ...]],
    ]


@dataclasses.dataclass(frozen=True, slots=True)
class Unsupported:
    """A rule that does not exist, and why."""

    why: str


def unsupported(why: str) -> Unsupported:
    """Declare that a primitive has no such rule, with the reason that users are shown."""
    return Unsupported(why)


class Derived(enum.Enum):
    """A rule that is written once for many primitives."""

    BY_KIND = "follows from its kind"
    SEQUENTIAL = "a loop over the batch"


sequential = Derived.SEQUENTIAL
"""The batch rule of an operation that is to be run for one element after the other."""
Rule = Callable[..., Any] | Unsupported | Derived
NO_BATCH = Unsupported(
    "its declaration has no batch rule: give batch=, or batch=minijit.extend.sequential for a loop"
)
"""The rule of an operation on whole arrays that declares none."""

RULES = ("jvp", "vjp", "transpose", "batch")
"""The fields that say what becomes of a primitive where a program is transformed."""


@dataclasses.dataclass(frozen=True, slots=True)
class Linear:
    """The derivative of what is linear in all operands: the primitive itself, of the tangents."""


LINEAR = Linear()
Partial = Callable[..., Any] | float
"""A partial derivative: a function ``(result, *operands)``, or the number that it always is."""
JvpRule = Rule | Linear | tuple[Partial, ...]
VjpRule = Rule | tuple[Callable[..., Any], Callable[..., Any]]
UNDECLARED = Unsupported("its declaration has no rule for it: give jvp= or vjp=")
"""The derivative of what declares none."""


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Primitive:
    """One operation, declared once.

    Array data are positional, everything static is a keyword (``params``), in all rules alike.

    Attributes:
        name: Printed in jaxprs; unique.
        kind: How it takes part in kernels.
        doc: One line for the reference.
        abstract_eval: ``(*avals, **params) -> ShapedArray`` (a tuple with ``multiple_results``).
        eager: ``(xp, *arrays, **params)``: the same by NumPy or CuPy (``xp``).
        into: ``(xp, *avals, **params)`` -> ``(*arrays, out=array)``, which computes the same into
            memory that is there (library).
        ufunc: The NumPy ufunc that it answers; its loops give operand and result dtypes.
        scalar: Code of one element (elementwise).
        monoid: Combination and identity (reduction over ``params["axes"]``).
        view: ``(index, operand_aval, params, extents)`` -> the operand's index where the result is
            read at ``index``; ``extents`` are those of the iteration space (view).
        parts: ``(index, operand_avals, params)`` -> a ``Part`` sequence (piecewise).
        contraction: How it sums products, so that loops in kernels may do it (library).
        kernel: A whole kernel of its own that CUDA devices run in the place of ``eager`` (library).
        flops: Operations for one element of the result (of the operand for a reduction); above 4
            it is worth storing a value rather than computing it twice.
        multiple_results: Whether it returns a tuple.
        effect: Whether it does something beside computing: it is neither dropped nor merged with an
            equal one, it keeps its place among others with effects, and no kernel holds it.
        derived: Whether ``eager`` runs the primitive's own kernel, having no other code.
        samples: Domain of the operands in generated tests: ``(low, high)`` for each.
        jvp: The derivative: ``(primals, tangents, **params)`` -> ``(result, tangent)``, tuples of
            both with ``multiple_results``, where a tangent that is zero is None; ``LINEAR``; or
            (elementwise) a tuple of one partial derivative for each operand; or a derived one, of
            what holds programs. What gives no float is not asked.
        vjp: The reverse derivative where it is not to follow from the other two:
            ``(cotangent, result, *operands, **params)`` -> a cotangent, or None, an operand; or a
            pair: ``(*operands, **params)`` -> the result and a sequence of arrays to keep, and
            ``(kept, cotangent, **params)`` -> the cotangents.
        transpose: Of what is linear in some operands: ``(cotangent, *operands, **params)`` -> a
            cotangent, or None, an operand. Operands in which it is linear come as their avals. Or a
            derived one, of what holds programs, and from partial derivatives.
        batch: Rule that adds a batch axis, ``(dims, *operands, **params) -> (result, dim)``: which
            axis of each operand is the batch, None where it has none, and of the result (tuples
            with ``multiple_results``); or a derived one.
    """

    name: str
    kind: Kind
    doc: str
    abstract_eval: Callable[..., Any]
    eager: Callable[..., Any]
    into: Callable[..., Any] | None = None
    ufunc: np.ufunc | None = None
    scalar: Scalar | None = None
    monoid: Monoid | None = None
    view: (
        Callable[
            [tuple[Affine, ...], ShapedArray, Mapping[str, Any], Sequence[int]], tuple[Affine, ...]
        ]
        | None
    ) = None
    parts: (
        Callable[[tuple[Affine, ...], Sequence[ShapedArray], Mapping[str, Any]], tuple[Part, ...]]
        | None
    ) = None
    contraction: Contraction | None = None
    kernel: DeviceKernel | None = None
    flops: int = 1
    multiple_results: bool = False
    effect: bool = False
    derived: bool = False
    samples: tuple[tuple[float, float], ...] = ()
    jvp: JvpRule = UNDECLARED
    vjp: VjpRule = UNDECLARED
    transpose: Rule = UNDECLARED
    batch: Rule = Derived.BY_KIND

    def __repr__(self) -> str:
        """Return the name."""
        return self.name


def register(primitive: Primitive) -> Primitive:
    """Add a primitive to the registry and return it.

    Raises:
        DeclarationError: the name is taken or is none, a field that its kind needs is missing, or
            its monoid has the name of another one: targets know a monoid's faster code by name.
    """
    if not primitive.name.isidentifier():
        raise DeclarationError(
            f"{primitive.name!r} cannot name a primitive: generated code calls it by its name, "
            f"which has to be an identifier: give name= (at {user_line()})"
        )
    needed = {
        Kind.ELEMENTWISE: "scalar",
        Kind.REDUCTION: "monoid",
        Kind.VIEW: "view",
        Kind.PIECEWISE: "parts",
    }.get(primitive.kind)
    if needed is not None and getattr(primitive, needed) is None:
        raise DeclarationError(
            f"primitive {primitive.name!r} is {primitive.kind.value} and needs {needed!r}"
        )
    monoid = primitive.monoid
    known = None if monoid is None else find("monoid", monoid.name)
    if known is not None and monoid is not None and known.core != monoid.core:
        raise DeclarationError(
            f"primitive {primitive.name!r}: there is another monoid named {known.name!r}; give "
            f"this one a name of its own, or use that one (at {user_line()})"
        )
    declare("primitive", primitive.name, primitive)
    if monoid is not None and known is None:
        declare("monoid", monoid.name, monoid)
    return primitive


def find_primitive(name: str) -> Primitive:
    """Return the primitive of that name; the plug-in that offers it is imported.

    Raises:
        KeyError: there is none.
    """
    primitive: Primitive | None = find("primitive", name)
    if primitive is None:
        load_plugin(name)
        primitive = find("primitive", name)
    if primitive is None:
        raise KeyError(name)
    return primitive


def all_primitives() -> Iterator[Primitive]:
    """Iterate over all declared primitives in order of declaration."""
    yield from declared("primitive")
