"""Branches: of several functions one runs, chosen by a traced value."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from minijit.graph.aval import ShapedArray
from minijit.graph.evaluate import evaluate
from minijit.graph.jaxpr import Jaxpr, JaxprEqn, Literal, Var
from minijit.graph.mode import mode
from minijit.graph.primitive import Derived, Kind, Primitive, find_primitive, register
from minijit.graph.source_info import here, user_line
from minijit.graph.trace import abstractify, bind
from minijit.graph.tracer import Tracer
from minijit.graph.tree import flatten, unflatten
from minijit.ops.binary import maximum, minimum
from minijit.ops.bodies import (
    Body,
    Tree,
    check_function,
    long_name,
    refuse_difference,
    runs_as_python,
    strong,
    trace_body,
    widened,
)
from minijit.ops.compare import not_equal
from minijit.ops.promote import convert

__all__ = ["cond", "cond_p", "switch"]

_INT32 = np.dtype(np.int32)
_NONE: Any = object()
_ADVICE = "give them one type: cast with x.astype(...), broadcast, or return the same containers"


def _cond_aval(
    index: ShapedArray, *operands: ShapedArray, branches: tuple[Jaxpr, ...]
) -> tuple[ShapedArray, ...]:
    first = branches[0]
    for branch in branches:
        if strong(branch.in_avals) != strong(operands):
            raise TypeError(f"cond: a branch takes {branch.in_avals}, not {operands}")
        if strong(branch.out_avals) != strong(first.out_avals):
            raise TypeError(f"cond: branches give {first.out_avals} and {branch.out_avals}")
    if (index.shape, index.dtype) != ((), _INT32):
        raise TypeError(f"cond: the index is {index}, not an int32 scalar")
    return first.out_avals


def _cond_eager(
    xp: Any, index: Any, *operands: Any, branches: tuple[Jaxpr, ...]
) -> tuple[Any, ...]:
    chosen = branches[min(max(int(index), 0), len(branches) - 1)]
    results = evaluate(chosen, operands)
    return tuple(
        xp.asarray(result, dtype=aval.dtype)
        for result, aval in zip(results, chosen.out_avals, strict=True)
    )


cond_p = register(
    Primitive(
        name="cond",
        kind=Kind.BRANCH,
        doc="Run one of ``branches``, which the first operand (int32, within range) numbers.",
        abstract_eval=_cond_aval,
        eager=_cond_eager,
        multiple_results=True,
        jvp=Derived.BY_KIND,
        transpose=Derived.BY_KIND,
    )
)


def cond(
    pred: Any,
    true_fun: Callable[..., Any],
    false_fun: Callable[..., Any],
    *operands: Any,
    operand: Any = _NONE,
) -> Any:
    """Return ``true_fun(*operands)`` where ``pred`` holds, else ``false_fun(*operands)``.

    Both functions are traced, one runs. A predicate that is known while tracing chooses there and
    then: the other branch is checked, not compiled.

    Args:
        pred: A scalar: a bool, or a number that holds when it is not zero.
        true_fun: A function of the operands.
        false_fun: Another one, whose result has the same structure, shapes and dtypes.
        *operands: Pytrees of arrays and scalars.
        operand: A single operand, as JAX's older form takes it.

    Raises:
        TypeError: ``pred`` is no scalar or no number, or the branches return different types.
    """
    if operand is not _NONE:
        if operands:
            raise TypeError(f"cond: give the operands by position or as operand=, not both{here()}")
        operands = (operand,)
    _check_predicate(pred)
    functions = {"true_fun": true_fun, "false_fun": false_fun}
    _check_functions("cond", functions, operands)
    if runs_as_python():
        return (true_fun if pred else false_fun)(*operands)
    if _is_known(pred):
        index: Any = np.int32(bool(pred))
    else:
        holds = pred if abstractify(pred).dtype.kind == "b" else not_equal(pred, 0)
        index = convert(holds, _INT32)
    return _branch("cond", index, functions, operands, last_first=True)


def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
    """Return ``branches[index](*operands)``, with ``index`` clamped to the branches there are.

    Args:
        index: An integer scalar.
        branches: Functions of the operands, whose results have one structure and one type each.
        *operands: Pytrees of arrays and scalars.

    Raises:
        TypeError: ``index`` is no integer scalar, or the branches return different types.
        ValueError: there are no branches.
    """
    if callable(branches):
        raise TypeError(f"switch: branches is one function{here()}, not a list of functions")
    branches = tuple(branches)
    if not branches:
        raise ValueError(f"switch: there are no branches{here()}")
    functions = {f"branches[{number}]": branch for number, branch in enumerate(branches)}
    _check_functions("switch", functions, operands)
    aval = abstractify(index)
    if aval.shape or aval.dtype.kind not in "iu":
        raise TypeError(
            f"switch: the index is {long_name(aval)}, not an integer scalar (at {user_line()}); "
            "for a bool write lax.cond"
        )
    # An index of few bits cannot be out of range, and cannot be compared with what it cannot hold.
    last = min(len(branches) - 1, int(np.iinfo(aval.dtype).max))
    if _is_known(index):
        index = np.int32(min(max(int(index), 0), last))
        if runs_as_python():
            return branches[index](*operands)
    else:
        index = convert(minimum(maximum(index, 0), last), _INT32)
    return _branch("switch", index, functions, operands)


def _is_known(value: Any) -> bool:
    """Whether a scalar has a value already; that of a captured array may change between calls."""
    if isinstance(value, (bool, int, float, np.generic)):
        return True
    return mode.trace is None and not isinstance(value, Tracer)


def _check_predicate(pred: Any) -> None:
    if isinstance(pred, (str, bytes, list, tuple, dict, type(None))):
        raise TypeError(
            f"cond: the predicate is {pred!r}{here()}, not a bool or a number; write a comparison, "
            "such as x > 0"
        )
    aval = abstractify(pred)
    if aval.shape:
        raise TypeError(
            f"cond: the predicate is {long_name(aval)} (at {user_line()}), not a "
            "scalar: reduce it with .any() or .all(), or choose element by element with "
            "minijit.numpy.where"
        )


def _check_functions(what: str, functions: Mapping[str, Any], operands: tuple[Any, ...]) -> None:
    for name, function in functions.items():
        check_function(what, name, function, _names(operands))


def _names(operands: tuple[Any, ...]) -> list[str]:
    return [f"operands[{place}]" for place in range(len(operands))]


def _branch(
    what: str,
    index: Any,
    functions: Mapping[str, Callable[..., Any]],
    operands: tuple[Any, ...],
    *,
    last_first: bool = False,
) -> Any:
    """Trace functions, called as the keys say, and bind the branch; ``last_first`` numbers them."""
    leaves, treedef = flatten(operands)
    arguments = Tree(treedef, tuple(map(abstractify, leaves)))
    names = _names(operands)
    bodies = [trace_body(function, arguments, names) for function in functions.values()]
    wanted = list(bodies[0].out.avals)
    for body in bodies[1:]:
        if body.out.treedef == bodies[0].out.treedef:
            pairs = zip(wanted, body.out.avals, strict=True)
            wanted = [b if widened(a, b) != a else a for a, b in pairs]
    bodies = [_of_types(body, wanted) for body in bodies]
    titles = list(functions)
    for title, body in zip(titles[1:], bodies[1:], strict=True):
        message = f"{what}: {titles[0]} and {title} return different things"
        refuse_difference(message, "result", (titles[0], bodies[0].out), (title, body.out), _ADVICE)
    captures = {id(value): value for body in bodies for value in body.captures}
    branches = tuple(_with_inputs(body, captures) for body in bodies)
    branches = branches[::-1] if last_first else branches
    results = bind(cond_p, index, *captures.values(), *leaves, branches=branches)
    return unflatten(bodies[0].out.treedef, results)


def _of_types(body: Body, wanted: Sequence[ShapedArray]) -> Body:
    """Return ``body`` with weakly typed results cast to ``wanted``, where that loses nothing."""
    if len(wanted) != len(body.out.avals):
        return body
    cast_p = find_primitive("convert_element_type")
    eqns, outvars = list(body.jaxpr.eqns), list(body.jaxpr.outvars)
    for place, (atom, aval) in enumerate(zip(body.jaxpr.outvars, wanted, strict=True)):
        if widened(atom.aval, aval) == aval and atom.aval != aval:
            if isinstance(atom, Literal):
                # A Python integer has to fit; NumPy's would wrap.
                number = atom.value.item() if atom.aval.weak_type else atom.value
                outvars[place] = Literal(convert(number, aval.dtype), aval)
                continue
            var = Var(aval)
            params = {"dtype": aval.dtype, "weak_type": aval.weak_type}
            eqns.append(JaxprEqn(cast_p, (atom,), (var,), params, user_line()))
            outvars[place] = var
    jaxpr = dataclasses.replace(body.jaxpr, eqns=tuple(eqns), outvars=tuple(outvars))
    return Body(jaxpr, body.captures, Tree(body.out.treedef, jaxpr.out_avals))


def _with_inputs(body: Body, captures: Mapping[int, Any]) -> Jaxpr:
    """Return the program of a branch that takes the captured values of all branches."""
    own = {id(value): var for value, var in zip(body.captures, body.jaxpr.invars, strict=False)}
    declared = body.jaxpr.invars[len(body.captures) :]
    shared = tuple(own.get(key) or Var(abstractify(value)) for key, value in captures.items())
    return dataclasses.replace(body.jaxpr, invars=shared + declared)
