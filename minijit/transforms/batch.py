"""Batching: a program of one element becomes one of a batch of them, operation by operation.

What differs from element to element has one axis more, the batch, at a place that is known for each
value; what is the same for all has none, and is computed once.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

from minijit.graph.aval import ShapedArray
from minijit.graph.dtypes import BOOL
from minijit.graph.errors import DeclarationError
from minijit.graph.jaxpr import Atom, Jaxpr, JaxprEqn, Literal, Var
from minijit.graph.loop import may_not_end
from minijit.graph.primitive import NO_BATCH, Derived, Kind, Unsupported
from minijit.graph.source_info import standing_at
from minijit.graph.trace import abstractify, trace_function
from minijit.ops.axes import inserted
from minijit.ops.batching import Dim, batch_elementwise, batch_reduction, with_batch
from minijit.ops.promote import convert
from minijit.transforms.batch_control import batch_branch, batch_call, batch_loop, one_by_one
from minijit.transforms.replay import replay_equation

__all__ = ["Batcher"]


@dataclasses.dataclass(frozen=True, slots=True)
class Batcher:
    """Records programs, in the trace that is open, for a batch of arguments.

    Attributes:
        size: How many elements the batch has.
        mask: Which of them count, a bool each; loops without a count need not end for the others.
            None where all do.
    """

    size: int
    mask: Any = None

    def run(
        self, jaxpr: Jaxpr, args: Sequence[Any], dims: Sequence[Dim]
    ) -> tuple[list[Any], list[Dim]]:
        """Record ``jaxpr`` for a batch of its inputs.

        Args:
            jaxpr: The program of one element.
            args: Its inputs.
            dims: Which axis of each is the batch; None for one that is the same for all elements.

        Returns:
            The results, and which axis of each is the batch.

        Raises:
            NotImplementedError: an operation cannot be batched; the message says why.
        """
        known: dict[Var, tuple[Any, Dim]] = {
            var: (value, None) for var, value in zip(jaxpr.constvars, jaxpr.consts, strict=True)
        }
        known.update(zip(jaxpr.invars, zip(args, dims, strict=True), strict=True))

        def read(atoms: Sequence[Atom]) -> tuple[list[Any], list[Dim]]:
            pairs = [(_number(a), None) if isinstance(a, Literal) else known[a] for a in atoms]
            return [value for value, _ in pairs], [dim for _, dim in pairs]

        for eqn in jaxpr.eqns:
            with standing_at(eqn.source):
                results = zip(*self._equation(eqn, *read(eqn.invars)), strict=True)
            known.update(zip(eqn.outvars, results, strict=True))
        return read(jaxpr.outvars)

    def body(
        self,
        jaxpr: Jaxpr,
        dims: Sequence[Dim],
        wanted: Sequence[Dim] | None = None,
        *,
        masked: bool = False,
    ) -> tuple[Jaxpr, list[Dim]]:
        """Return a body for a batch, and which axis of each result is the batch.

        Args:
            jaxpr: The body for one element.
            dims: Which axis of each input is the batch.
            wanted: Where results have to have it; None for one that stays as it comes.
            masked: Whether the first input of the new body is the mask.
        """
        places = [None] * len(jaxpr.outvars) if wanted is None else wanted
        found: list[Dim] = []

        def run(tracers: Sequence[Any]) -> list[Any]:
            inner = Batcher(self.size, tracers[0] if masked else None)
            results, out = inner.run(jaxpr, tracers[masked:], dims)
            found[:] = [own if at is None else at for own, at in zip(out, places, strict=True)]
            rows = zip(results, out, places, strict=True)
            return [x if at is None else with_batch(x, own, at, self.size) for x, own, at in rows]

        inputs = [self.aval(aval, dim) for aval, dim in zip(jaxpr.in_avals, dims, strict=True)]
        return self.traced(run, inputs, jaxpr, masked=masked), found

    def traced(
        self,
        run: Callable[[Sequence[Any]], Sequence[Any]],
        inputs: Sequence[ShapedArray],
        like: Jaxpr,
        *,
        masked: bool,
    ) -> Jaxpr:
        """Return ``run`` as a body in the place of ``like``; the mask comes before the inputs."""
        avals = [*([ShapedArray((self.size,), BOOL)] if masked else []), *inputs]
        made = trace_function(run, avals, [""] * len(avals), like.name, alone=True).jaxpr
        if made.consts:
            raise DeclarationError(
                f"a batch rule for an operation of {like.name!r} makes an array: in a loop or a "
                "branch it can only compute from its operands and numbers"
            )
        return made

    def placed(self, x: Any, dim: Dim, at: Dim) -> Any:
        """Return a result with the batch at axis ``at``, or with none."""
        if at is None:
            return x
        x = with_batch(x, dim, at, self.size)
        return convert(x, abstractify(x).dtype)  # an array with axes is never weak

    def aval(self, aval: ShapedArray, dim: Dim) -> ShapedArray:
        """Return the type of a value with the batch at ``dim``."""
        if dim is None:
            return aval
        return ShapedArray(inserted(aval.shape, dim, self.size), aval.dtype)

    def masks(self, *jaxprs: Jaxpr) -> bool:
        """Whether bodies have to know which elements count."""
        return self.mask is not None and any(may_not_end(jaxpr.eqns) for jaxpr in jaxprs)

    def _equation(
        self, eqn: JaxprEqn, operands: Sequence[Any], dims: Sequence[Dim]
    ) -> tuple[Sequence[Any], Sequence[Dim]]:
        primitive, rule = eqn.primitive, eqn.primitive.batch
        same = all(dim is None for dim in dims)
        if same and not (self.mask is not None and may_not_end((eqn,))):
            return replay_equation(eqn, operands), [None] * len(eqn.outvars)
        if rule is Derived.SEQUENTIAL:
            return one_by_one(self, eqn, operands, dims)
        if rule is Derived.BY_KIND and primitive.kind in _CONTROL:
            return _CONTROL[primitive.kind](self, eqn, operands, dims)
        if rule is Derived.BY_KIND and primitive.kind not in _RULES:
            rule = NO_BATCH
        if isinstance(rule, Unsupported):
            raise NotImplementedError(f"vmap of {primitive.name} (at {eqn.source}): {rule.why}")
        if rule is Derived.BY_KIND:
            rule = functools.partial(_RULES[primitive.kind], primitive)
        return self._checked(eqn, rule(tuple(dims), *operands, **eqn.params))

    def _checked(self, eqn: JaxprEqn, returned: Any) -> tuple[Sequence[Any], Sequence[Dim]]:
        """Return what a rule has returned, if it is a batch of the operation's results."""
        several = eqn.primitive.multiple_results
        results: Sequence[Any] = ()
        dims: Sequence[Dim] = ()
        if isinstance(returned, tuple) and len(returned) == 2:
            results, dims = returned if several else (returned[:1], returned[1:])
        if not len(results) == len(dims) == len(eqn.outvars):
            wanted = "(results, dims), a tuple each" if several else "(result, dim)"
            raise DeclarationError(
                f"the batch rule of {eqn.primitive.name} has to return {wanted}, not {returned!r} "
                f"(at {eqn.source})"
            )
        found = [abstractify(x).strip_weak_type() for x in results]
        said = [self.aval(v.aval, d) for v, d in zip(eqn.outvars, dims, strict=True)]
        if found != [aval.strip_weak_type() for aval in said]:
            raise DeclarationError(
                f"the batch rule of {eqn.primitive.name} returned {', '.join(map(str, found))} "
                f"with the batch at {', '.join(map(str, dims))} (at {eqn.source}): that is no "
                f"batch of {self.size} of {', '.join(str(v.aval) for v in eqn.outvars)}"
            )
        return results, dims


def _number(literal: Literal) -> Any:
    """Return a literal as what is recorded as the same literal."""
    return literal.value.item() if literal.aval.weak_type else literal.value


_RULES: dict[Kind, Callable[..., Any]] = {
    Kind.ELEMENTWISE: batch_elementwise,
    Kind.REDUCTION: batch_reduction,
}
_CONTROL = {Kind.CALL: batch_call, Kind.BRANCH: batch_branch, Kind.LOOP: batch_loop}
