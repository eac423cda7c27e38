"""``custom_jvp`` and ``custom_vjp``: functions whose derivative their author says.

A rule is traced when a derivative asks for it: it may call the function that it belongs to.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from minijit.api.differentiated import check_function, matched, positional_names
from minijit.graph.mode import mode
from minijit.graph.primitive import Primitive
from minijit.graph.source_info import user_line
from minijit.graph.trace import abstractify, bind
from minijit.graph.tree import TreeDef, flatten, leaf_paths, spread, unflatten
from minijit.ops.bodies import Tree, adapted, paths, refuse_difference
from minijit.ops.call import UserRule, custom_jvp_p, custom_vjp_p
from minijit.transforms.replay import traced, zeros_of

__all__ = ["custom_jvp", "custom_vjp"]

_ADVICE = "a rule computes what the function does, and its derivative beside it"


class _Custom:
    """A function with rules.

    Called outside of a trace it is the function itself.
    """

    def __init__(self, fun: Callable[..., Any], nondiff_argnums: Sequence[int] = ()) -> None:
        """Wrap ``fun``.

        Args:
            fun: A function of pytrees of arrays, given by position or by name.
            nondiff_argnums: Positions of arguments that are handed through as they are, functions
                for example; rules get them first.
        """
        check_function(type(self).__name__, fun)
        self._fun = fun
        self._fixed = tuple(nondiff_argnums)
        self.__rules__: tuple[Callable[..., Any], ...] = ()  # a change of them is noticed
        functools.update_wrapper(self, fun)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function; a trace remembers its rules."""
        if mode.trace is None:
            return self._fun(*args, **kwargs)
        return self._record(_CustomCall(self._fun, self._fixed, args, kwargs))

    def _record(self, call: _CustomCall) -> Any:
        raise NotImplementedError

    def __repr__(self) -> str:
        """Return the function's description."""
        return f"<{type(self).__name__} of {self._fun!r}>"


class _CustomCall:
    """One call of such a function, traced.

    Attributes:
        name: The function's name.
        fixed: The arguments that rules get first.
        leaves: Those of the others.
        paths: What the user calls these.
        tree: The types of a tuple of these.
        out: The types of the result.
        program: The function as a program, and what it captured.
    """

    def __init__(
        self,
        fun: Callable[..., Any],
        fixed: Sequence[int],
        args: Sequence[Any],
        kwargs: dict[str, Any],
    ) -> None:
        self.name = getattr(fun, "__name__", type(fun).__name__)
        bound = inspect.signature(fun).bind(*args, **kwargs)
        bound.apply_defaults()
        if bound.kwargs:
            raise TypeError(
                f"{self.name}() has a derivative of its own and takes {', '.join(bound.kwargs)} by "
                f"name alone (at {user_line()}): rules get arguments by position"
            )
        self._args, self._places = bound.args, [n for n in range(len(bound.args)) if n not in fixed]
        self.fixed = [bound.args[place] for place in fixed]
        given = tuple(bound.args[place] for place in self._places)
        self.leaves, treedef = flatten(given)
        names = positional_names(bound)
        self.paths = leaf_paths(treedef, [names[place] for place in self._places])
        self.tree = Tree(treedef, tuple(map(abstractify, self.leaves)))
        outs: list[TreeDef] = []

        def run(leaves: list[Any]) -> list[Any]:
            results, out = flatten(fun(*self.complete(unflatten(treedef, leaves))))
            outs.append(out)
            return results

        self.program = traced(run, self.tree.avals, self.name, self.paths)
        self.out = Tree(outs[0], tuple(a.strip_weak_type() for a in self.program[0].out_avals))

    def complete(self, given: Sequence[Any]) -> list[Any]:
        """Return all arguments, with other values for those that may be differentiated."""
        args = list(self._args)
        for place, value in zip(self._places, given, strict=True):
            args[place] = value
        return args

    def results(self, what: str, value: Any) -> list[Any]:
        """Return the leaves of what a rule returns as the function's result.

        Raises:
            TypeError: it has another structure or other types.
        """
        leaves, treedef = flatten(value)
        if treedef == self.out.treedef:
            pairs = zip(leaves, self.out.avals, strict=True)
            leaves = [adapted(leaf, aval) for leaf, aval in pairs]
        got = Tree(treedef, tuple(abstractify(leaf).strip_weak_type() for leaf in leaves))
        refuse_difference(
            f"{what} of {self.name} and {self.name} itself return different things", "result",
            (self.name, self.out), (what, got), _ADVICE,
        )  # fmt: skip
        return leaves

    def bind(self, primitive: Primitive, **rules: Callable[[list[Any]], list[Any]]) -> Any:
        """Record the call with its rules."""
        jaxpr, captures = self.program
        made = {name: UserRule(self.name, rule) for name, rule in rules.items()}
        results = bind(
            primitive, *captures, *self.leaves, jaxpr=jaxpr, captured=len(captures), **made
        )
        return unflatten(self.out.treedef, results)


class custom_jvp(_Custom):
    """Decorator: a function whose derivative a forward rule says.

    Example::

        @minijit.custom_jvp
        def log1pexp(x):
            return jnp.log(1 + jnp.exp(x))

        @log1pexp.defjvp
        def rule(primals, tangents):
            (x,), (moved,) = primals, tangents
            return log1pexp(x), moved / (1 + jnp.exp(-x))

    The rule has to be linear in the tangents: reverse mode is its transpose.
    """

    def defjvp(self, jvp: Callable[..., Any]) -> Callable[..., Any]:
        """Declare the rule, and return it.

        Args:
            jvp: Takes the arguments named by ``nondiff_argnums``, then a tuple of the others and a
                tuple of their tangents (None for what is no float); returns the result and its
                tangent.
        """
        check_function("defjvp", jvp)
        self.__rules__ = (jvp,)
        return jvp

    def defjvps(self, *jvps: Callable[..., Any] | None) -> None:
        """Declare a rule for each argument.

        Args:
            *jvps: ``(tangent, result, *arguments)`` -> its part of the result's tangent; None where
                the result does not depend on the argument.
        """

        def rule(*args: Any) -> tuple[Any, Any]:
            *fixed, primals, tangents = args
            result = self(*_merged(fixed, self._fixed, primals))
            parts = [
                part(tangent, result, *primals)
                for part, tangent in zip(jvps, tangents, strict=True)
                if part is not None and tangent is not None
            ]
            if not parts:
                return result, zeros_of(abstractify(result))
            return result, functools.reduce(lambda a, b: a + b, parts)

        self.__rules__ = (rule,)

    def _record(self, call: _CustomCall) -> Any:
        if not self.__rules__:
            raise TypeError(
                f"{call.name} is a custom_jvp without a rule (at {user_line()}): declare it by "
                f"@{call.name}.defjvp"
            )
        (rule,), count = self.__rules__, len(call.leaves)

        def run(inputs: list[Any]) -> list[Any]:
            primals, moved = inputs[:count], iter(inputs[count:])
            tangents = [next(moved) if a.dtype.kind == "f" else None for a in call.tree.avals]
            tree = call.tree.treedef
            found = rule(*call.fixed, unflatten(tree, primals), unflatten(tree, tangents))
            if not isinstance(found, tuple) or len(found) != 2:
                raise TypeError(
                    f"the jvp rule of {call.name} has to return (result, tangent), not "
                    f"{type(found).__name__} (at {user_line()})"
                )
            results = call.results("the jvp rule", found[0])
            names = paths(call.out.treedef, "result")
            what, out = f"the jvp rule of {call.name}", call.out
            changes = matched(what, "tangent", found[1], out.treedef, out.avals, names)
            return [*results, *(change for change in changes if change is not None)]

        return call.bind(custom_jvp_p, rule=run)


class custom_vjp(_Custom):
    """Decorator: a function whose derivative a reverse rule says, in two parts.

    Example::

        @minijit.custom_vjp
        def clipped(x):                          # the identity, with a gradient that is clipped
            return x

        clipped.defvjp(lambda x: (x, None), lambda kept, cotangent: (jnp.clip(cotangent, -1, 1),))

    Forward mode (``jvp``) refuses it.
    """

    def defvjp(self, fwd: Callable[..., Any], bwd: Callable[..., Any]) -> None:
        """Declare the rule.

        Args:
            fwd: Takes the arguments of the function; returns a pair of its result and of what is
                kept for ``bwd``, a pytree of arrays.
            bwd: Takes the arguments named by ``nondiff_argnums``, what was kept, and the cotangent
                of the result; returns a tuple with a cotangent for each of the other arguments:
                None for zero.
        """
        check_function("defvjp", fwd)
        check_function("defvjp", bwd)
        self.__rules__ = fwd, bwd

    def _record(self, call: _CustomCall) -> Any:
        if not self.__rules__:
            raise TypeError(
                f"{call.name} is a custom_vjp without a rule (at {user_line()}): declare it by "
                f"{call.name}.defvjp(fwd, bwd)"
            )
        fwd, bwd = self.__rules__
        kept: list[TreeDef] = []

        def forward(leaves: list[Any]) -> list[Any]:
            found = fwd(*call.complete(unflatten(call.tree.treedef, leaves)))
            if not isinstance(found, tuple) or len(found) != 2:
                raise TypeError(
                    f"fwd of {call.name} has to return (result, residuals), not "
                    f"{type(found).__name__} (at {user_line()})"
                )
            residuals, tree = flatten(found[1])
            kept.append(tree)
            return [*call.results("fwd", found[0]), *residuals]

        def backward(inputs: list[Any]) -> list[Any]:
            count = kept[-1].num_leaves
            residuals, moved = inputs[:count], iter(inputs[count:])
            cotangents = [
                next(moved) if aval.dtype.kind == "f" else zeros_of(aval) for aval in call.out.avals
            ]
            cotangent = unflatten(call.out.treedef, cotangents)
            return _cotangents(call, bwd(*call.fixed, unflatten(kept[-1], residuals), cotangent))

        return call.bind(custom_vjp_p, forward=forward, backward=backward)


def _cotangents(call: _CustomCall, found: Any) -> list[Any]:
    """Return the cotangents of the float arguments that ``bwd`` returned.

    Raises:
        TypeError: there is not one for each argument, or one has another structure or type.
    """
    given = unflatten(call.tree.treedef, list(range(len(call.leaves))))
    if not isinstance(found, (tuple, list)) or len(found) != len(given):
        said = f"{len(found)}" if isinstance(found, (tuple, list)) else type(found).__name__
        raise TypeError(
            f"bwd of {call.name} has to return a tuple of {len(given)} cotangents, one for each "
            f"argument, not {said} (at {user_line()})"
        )
    try:
        leaves = spread(tuple(found), given)
    except ValueError as error:
        raise TypeError(
            f"bwd of {call.name} returns cotangents of another structure than its arguments (at "
            f"{user_line()}): {error}"
        ) from None
    what = f"bwd of {call.name}"
    results = []
    for leaf, aval, name in zip(leaves, call.tree.avals, call.paths, strict=True):
        if aval.dtype.kind == "f":
            own = zeros_of(aval) if leaf is None else leaf
            results += matched(what, "cotangent", own, _LEAF, [aval.strip_weak_type()], [name])
    return results


_LEAF = flatten(0)[1]


def _merged(fixed: Sequence[Any], places: Sequence[int], primals: Sequence[Any]) -> list[Any]:
    """Return arguments in the function's order."""
    known, rest = dict(zip(places, fixed, strict=True)), iter(primals)
    return [known[n] if n in known else next(rest) for n in range(len(fixed) + len(primals))]
