"""Inlining: every call of a jitted function is replaced by its equations, also inside bodies."""

from __future__ import annotations

from collections.abc import Iterator

from minijit.graph.jaxpr import Atom, Jaxpr, JaxprEqn, Var
from minijit.graph.primitive import Kind
from minijit.transforms.rewrite import rebuild, resolve, substituted, with_bodies

__all__ = ["inline_calls", "spliced"]


def inline_calls(jaxpr: Jaxpr) -> Jaxpr:
    """Return ``jaxpr`` without call equations.

    Before: ``b = jit[jaxpr={ lambda ; x. let y = exp x in (y,) }] a``; after: ``b = exp a``.
    """
    environment: dict[Var, Atom] = {}
    eqns = tuple(_inlined(jaxpr, environment))
    return rebuild(jaxpr, eqns, environment)


def spliced(
    jaxpr: Jaxpr, operands: tuple[Atom, ...]
) -> tuple[tuple[JaxprEqn, ...], tuple[Atom, ...]]:
    """Return the equations of ``jaxpr`` on ``operands``, and its results, under new variables."""
    scope: dict[Var, Atom] = dict(zip(jaxpr.invars, operands, strict=True))
    eqns = tuple(_inlined(jaxpr, scope))
    return eqns, tuple(resolve(atom, scope) for atom in jaxpr.outvars)


def _inlined(jaxpr: Jaxpr, environment: dict[Var, Atom]) -> Iterator[JaxprEqn]:
    for eqn in jaxpr.eqns:
        operands = tuple(resolve(atom, environment) for atom in eqn.invars)
        if eqn.primitive.kind is not Kind.CALL:
            # A jaxpr may be called twice, and each copy needs variables of its own.
            outvars = tuple(Var(var.aval, var.name) for var in eqn.outvars)
            environment.update(zip(eqn.outvars, outvars, strict=True))
            yield with_bodies(substituted(eqn, operands, outvars), inline_calls)
            continue
        eqns, results = spliced(eqn.params["jaxpr"], operands)
        yield from eqns
        environment.update(zip(eqn.outvars, results, strict=True))
