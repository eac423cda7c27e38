"""Inlining: every call of a function is replaced by its equations, also inside bodies."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator

from minijit.graph.jaxpr import Atom, Jaxpr, JaxprEqn, Var
from minijit.graph.primitive import Derived, Kind
from minijit.transforms.rewrite import rebuild, resolve, substituted, with_bodies

__all__ = ["has_rule", "inline_calls", "renamed", "spliced"]


def inline_calls(jaxpr: Jaxpr, *, with_rules: bool = True) -> Jaxpr:
    """Return ``jaxpr`` without call equations.

    Before: ``b = jit[jaxpr={ lambda ; x. let y = exp x in (y,) }] a``; after: ``b = exp a``.

    Args:
        jaxpr: The program.
        with_rules: Whether calls go as well that have a derivative of their own, which is not known
            to the program any more then.
    """
    environment: dict[Var, Atom] = {}
    eqns = tuple(_inlined(jaxpr, environment, with_rules))
    return rebuild(jaxpr, eqns, environment)


def spliced(
    jaxpr: Jaxpr, operands: tuple[Atom, ...], *, with_rules: bool = True
) -> tuple[tuple[JaxprEqn, ...], tuple[Atom, ...]]:
    """Return the equations of ``jaxpr`` on ``operands``, and its results, under new variables."""
    scope: dict[Var, Atom] = dict(zip(jaxpr.invars, operands, strict=True))
    eqns = tuple(_inlined(jaxpr, scope, with_rules))
    return eqns, tuple(resolve(atom, scope) for atom in jaxpr.outvars)


def has_rule(call: JaxprEqn) -> bool:
    """Whether a call has a derivative of its own, other than that of what it holds."""
    return call.primitive.jvp is not Derived.BY_KIND


def renamed(jaxpr: Jaxpr) -> Jaxpr:
    """Return the same program under new variables."""
    invars = tuple(Var(var.aval, var.name) for var in jaxpr.invars)
    eqns, outvars = spliced(jaxpr, invars, with_rules=False)
    return dataclasses.replace(jaxpr, invars=invars, eqns=eqns, outvars=outvars)


def _inlined(jaxpr: Jaxpr, environment: dict[Var, Atom], with_rules: bool) -> Iterator[JaxprEqn]:
    inner = functools.partial(inline_calls, with_rules=with_rules)
    for eqn in jaxpr.eqns:
        operands = tuple(resolve(atom, environment) for atom in eqn.invars)
        if eqn.primitive.kind is not Kind.CALL or (not with_rules and has_rule(eqn)):
            # A jaxpr may be called twice, and each copy needs variables of its own.
            outvars = tuple(Var(var.aval, var.name) for var in eqn.outvars)
            environment.update(zip(eqn.outvars, outvars, strict=True))
            yield with_bodies(substituted(eqn, operands, outvars), inner)
            continue
        eqns, results = spliced(eqn.params["jaxpr"], operands, with_rules=with_rules)
        yield from eqns
        environment.update(zip(eqn.outvars, results, strict=True))
