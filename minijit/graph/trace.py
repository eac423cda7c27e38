"""Recording: the current trace, the one door ``bind``, and what makes a jaxpr of a function."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from minijit.graph.aval import ShapedArray
from minijit.graph.dtypes import canonical_dtype, python_scalar_dtype
from minijit.graph.errors import UnexpectedTracerError
from minijit.graph.jaxpr import Atom, Jaxpr, JaxprEqn, Literal, Var
from minijit.graph.mode import mode
from minijit.graph.primitive import Primitive
from minijit.graph.source_info import here, user_line
from minijit.graph.tracer import Tracer

__all__ = [
    "Trace",
    "Traced",
    "abstractify",
    "array_namespace",
    "bind",
    "current_trace",
    "is_array",
    "refuse_leaks",
    "trace_function",
]


def current_trace() -> Trace | None:
    """Return the trace that records on this thread, or None outside of tracing."""
    return mode.trace


def is_array(value: object) -> bool:
    """Whether ``value`` is a NumPy array or scalar, or an array of a CUDA library."""
    return isinstance(value, (np.ndarray, np.generic)) or hasattr(value, "__cuda_array_interface__")


def abstractify(value: Any) -> ShapedArray:
    """Return the aval of a tracer, an array, or a Python or NumPy scalar.

    Raises:
        TypeError: ``value`` is something else, or has a dtype that minijit does not compute with.
        UnexpectedTracerError: ``value`` was traced by a function that has returned.
    """
    if isinstance(value, Tracer):
        if mode.trace is None or not mode.trace.takes(value):
            raise UnexpectedTracerError(_leak_message(value))
        return value.aval
    weak = python_scalar_dtype(value)
    if weak is not None:
        if weak.kind == "i" and not -(2**63) <= value < 2**63:
            raise OverflowError(f"the Python integer {value} is out of bounds for int64")
        return ShapedArray((), weak, weak_type=weak.kind != "b")
    if isinstance(value, np.matrix) or _is_masked(value):
        raise TypeError(
            f"a {type(value).__name__} has rules of its own, which minijit does not follow: pass "
            f"plain arrays (x.filled(...) and the mask, np.asarray(x))"
        )
    if is_array(value):
        return ShapedArray(tuple(value.shape), canonical_dtype(value.dtype))
    raise TypeError(
        f"a value of type {type(value).__name__!r} is not an array{here()}: pass arrays, "
        "scalars and nested containers of them, and mark everything else static (static_argnames)"
    )


def _is_masked(value: Any) -> bool:
    # NumPy imports its masked arrays when they are first named; until then there are none.
    return "numpy.ma" in sys.modules and isinstance(value, np.ma.MaskedArray)


class Trace:
    """One recording in progress.

    Values from outside (arrays, tracers of an enclosing trace) that the function uses are
    captured: the program gets a hidden input for each.
    """

    def __init__(self, name: str, parent: Trace | None) -> None:
        """Start an empty recording of the function called ``name``."""
        self.name = name
        self.parent = parent
        self.eqns: list[JaxprEqn] = []
        self.is_open = True
        # The captured object is kept alive with its variable, so that its id stays its own.
        self.captures: dict[int, tuple[Any, Var]] = {}

    def new_input(self, aval: ShapedArray, name: str) -> Tracer:
        """Return a tracer for a declared argument."""
        return Tracer(self, Var(aval, name))

    def lift(self, value: Any) -> Atom:
        """Return ``value`` as an operand of this trace's equations."""
        if isinstance(value, Tracer):
            if value._trace is self or isinstance(value._var, Literal):
                return value._var
            if not self.takes(value):
                raise UnexpectedTracerError(_leak_message(value))
            return self._capture(value, value.aval)
        aval = abstractify(value)
        if isinstance(value, (bool, int, float, np.generic)):
            return Literal(aval.dtype.type(value), aval)
        return self._capture(value, aval)

    def record(
        self, primitive: Primitive, args: Sequence[Any], params: Mapping[str, Any]
    ) -> Tracer | tuple[Tracer, ...]:
        """Append one equation and return its results."""
        atoms = tuple(map(self.lift, args))
        result = primitive.abstract_eval(*(atom.aval for atom in atoms), **params)
        avals = result if primitive.multiple_results else (result,)
        outvars = tuple(map(Var, avals))
        self.eqns.append(JaxprEqn(primitive, atoms, outvars, dict(params), user_line()))
        tracers = tuple(Tracer(self, var) for var in outvars)
        return tracers if primitive.multiple_results else tracers[0]

    def definition(self, var: Atom) -> JaxprEqn | None:
        """Return the equation that defines ``var``, or None for an input."""
        return next((eqn for eqn in reversed(self.eqns) if var in eqn.outvars), None)

    def arguments_of(self, var: Atom) -> list[str]:
        """Return the names of the arguments that ``var`` is computed from."""
        needed = {var} if isinstance(var, Var) else set()
        for eqn in reversed(self.eqns):
            if needed.intersection(eqn.outvars):
                needed.update(atom for atom in eqn.invars if isinstance(atom, Var))
        return sorted({v.name for v in needed if v.name})

    def takes(self, tracer: Tracer) -> bool:
        """Whether ``tracer`` is of this recording or of one around it that is still open."""
        other = tracer._trace
        trace: Trace | None = self
        while trace is not None:
            if trace is other:
                return other.is_open
            trace = trace.parent
        return False

    def _capture(self, value: Any, aval: ShapedArray) -> Var:
        if id(value) not in self.captures:
            self.captures[id(value)] = (value, Var(aval))
        return self.captures[id(value)][1]


def _leak_message(tracer: Tracer) -> str:
    eqn = tracer._trace.definition(tracer._var)
    where = f", computed at {eqn.source}," if eqn is not None else ""
    return (
        f"the traced value {tracer.aval}{where} outlived the call of {tracer._trace.name!r} that "
        f"traced it, and was used at {user_line()}. A list, an attribute or a global kept it: "
        "return it from the function instead."
    )


def refuse_leaks(args: Iterable[Any]) -> None:
    """Raise ``UnexpectedTracerError`` if one of ``args`` is traced: nothing records here."""
    for value in args:
        if isinstance(value, Tracer):
            raise UnexpectedTracerError(_leak_message(value))


def array_namespace(args: Sequence[Any]) -> Any:
    """Return the module (NumPy or CuPy) whose functions compute on ``args``."""
    for value in args:
        namespace = getattr(value, "__array_namespace__", None)
        if namespace is not None and not isinstance(value, (np.ndarray, np.generic, Tracer)):
            return namespace()
    return np


def bind(primitive: Primitive, *args: Any, **params: Any) -> Any:
    """Apply a primitive: record it while tracing, compute it at once otherwise.

    Raises:
        UnexpectedTracerError: an argument was traced by a function that has returned.
    """
    trace = mode.trace
    if trace is not None:
        return trace.record(primitive, args, params)
    refuse_leaks(args)
    return primitive.eager(array_namespace(args), *args, **params)


@dataclasses.dataclass(frozen=True, slots=True)
class Traced:
    """A finished recording.

    Attributes:
        jaxpr: The program. In a nested trace the captured values come first among its inputs;
            in an outermost one they are its constants.
        captures: The captured arrays and tracers, in order (nested trace only).
    """

    jaxpr: Jaxpr
    captures: tuple[Any, ...]


def trace_function(
    function: Callable[[list[Tracer]], Sequence[Any]],
    avals: Sequence[ShapedArray],
    names: Sequence[str],
    name: str,
    *,
    alone: bool = False,
) -> Traced:
    """Run ``function`` on tracers and return what it did.

    Args:
        function: Takes one tracer an aval, returns a flat sequence of results.
        avals: Types of the arguments.
        names: What the user calls the arguments, for messages.
        name: The function's name.
        alone: Make a program of its own even while another trace records; values of that one
            cannot be captured then.

    Raises:
        TypeError: a result is not an array; and whatever ``function`` raises.
    """
    before = mode.trace
    trace = Trace(name, None if alone else before)
    try:
        mode.trace, mode.busy = trace, True
        invars = tuple(Var(aval, n) for aval, n in zip(avals, names, strict=True))
        inputs = [Tracer(trace, var) for var in invars]
        outvars = tuple(_lift_result(trace, value) for value in function(inputs))
    finally:
        # Without a call, in which a signal could be handled: an interrupt must not leave it undone.
        trace.is_open = False
        mode.trace = before
        mode.busy = before is not None or mode.disabled > 0
    captured = tuple(value for value, _ in trace.captures.values())
    variables = tuple(var for _, var in trace.captures.values())
    eqns = tuple(trace.eqns)
    if trace.parent is None:
        return Traced(Jaxpr(invars, variables, captured, eqns, outvars, name), ())
    return Traced(Jaxpr(variables + invars, (), (), eqns, outvars, name), captured)


def _lift_result(trace: Trace, value: Any) -> Atom:
    try:
        return trace.lift(value)
    except TypeError as error:
        if isinstance(error, UnexpectedTracerError):
            raise
        raise TypeError(f"{trace.name!r} returned {value!r}: {error}") from error
