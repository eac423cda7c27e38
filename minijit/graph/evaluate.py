"""Running a jaxpr equation by equation with the array library: the reference for kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minijit.graph.jaxpr import Atom, Jaxpr, Literal, Var
from minijit.graph.trace import array_namespace

__all__ = ["evaluate"]


def evaluate(jaxpr: Jaxpr, args: Sequence[Any]) -> list[Any]:
    """Return the results of ``jaxpr`` on arrays ``args``, one operation at a time.

    Args:
        jaxpr: The program.
        args: One array or scalar for each of its inputs.
    """
    values: dict[Var, Any] = dict(zip(jaxpr.constvars, jaxpr.consts, strict=True))
    values.update(zip(jaxpr.invars, args, strict=True))

    def read(atom: Atom) -> Any:
        return atom.value if isinstance(atom, Literal) else values[atom]

    for eqn in jaxpr.eqns:
        operands = [read(atom) for atom in eqn.invars]
        result = eqn.primitive.eager(array_namespace(operands), *operands, **eqn.params)
        results = result if eqn.primitive.multiple_results else (result,)
        values.update(zip(eqn.outvars, results, strict=True))
    return [read(atom) for atom in jaxpr.outvars]
