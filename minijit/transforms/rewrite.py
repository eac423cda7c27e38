"""What passes share: new equations for old, and the jaxpr put together again."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from minijit.graph.jaxpr import Atom, Jaxpr, JaxprEqn, Var

__all__ = ["rebuild", "resolve", "substituted"]


def resolve(atom: Atom, environment: Mapping[Var, Atom]) -> Atom:
    """Return what stands for ``atom`` after a rewrite."""
    return environment.get(atom, atom) if isinstance(atom, Var) else atom


def substituted(
    eqn: JaxprEqn, invars: tuple[Atom, ...], outvars: tuple[Var, ...] | None = None
) -> JaxprEqn:
    """Return ``eqn`` with other operands, and optionally other results."""
    return dataclasses.replace(
        eqn, invars=invars, outvars=eqn.outvars if outvars is None else outvars
    )


def rebuild(jaxpr: Jaxpr, eqns: Iterable[JaxprEqn], environment: Mapping[Var, Atom]) -> Jaxpr:
    """Return ``jaxpr`` with other equations, its results looked up in ``environment``."""
    outvars = tuple(resolve(atom, environment) for atom in jaxpr.outvars)
    return dataclasses.replace(jaxpr, eqns=tuple(eqns), outvars=outvars)
