"""Inlining: every call of a jitted function is replaced by its equations."""

from __future__ import annotations

from collections.abc import Iterator

from minijit.graph.jaxpr import Atom, Jaxpr, JaxprEqn, Var
from minijit.graph.primitive import Kind
from minijit.transforms.rewrite import rebuild, substituted

__all__ = ["inline_calls"]


def inline_calls(jaxpr: Jaxpr) -> Jaxpr:
    """Return ``jaxpr`` without call equations.

    Before: ``b = jit[jaxpr={ lambda ; x. let y = exp x in (y,) }] a``; after: ``b = exp a``.
    """
    environment: dict[Var, Atom] = {}
    eqns = tuple(_inlined(jaxpr, environment))
    return rebuild(jaxpr, eqns, environment)


def _inlined(jaxpr: Jaxpr, environment: dict[Var, Atom]) -> Iterator[JaxprEqn]:
    for eqn in jaxpr.eqns:
        operands = tuple(environment.get(a, a) if isinstance(a, Var) else a for a in eqn.invars)
        if eqn.primitive.kind is not Kind.CALL:
            # A jaxpr may be called twice, and each copy needs variables of its own.
            outvars = tuple(Var(var.aval, var.name) for var in eqn.outvars)
            environment.update(zip(eqn.outvars, outvars, strict=True))
            yield substituted(eqn, operands, outvars)
            continue
        inner = eqn.params["jaxpr"]
        scope: dict[Var, Atom] = dict(zip(inner.invars, operands, strict=True))
        yield from _inlined(inner, scope)
        results = (scope.get(a, a) if isinstance(a, Var) else a for a in inner.outvars)
        environment.update(zip(eqn.outvars, results, strict=True))
