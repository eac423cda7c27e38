"""What passes share: new equations for old, and the jaxpr put together again."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from minijit.graph.jaxpr import Atom, Jaxpr, JaxprEqn, Var

__all__ = ["rebuild", "resolve", "substituted", "with_bodies"]


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


def with_bodies(eqn: JaxprEqn, rewrite: Callable[[Jaxpr], Jaxpr]) -> JaxprEqn:
    """Return ``eqn`` with each jaxpr among its parameters rewritten."""

    def rewritten(value: Any) -> Any:
        if isinstance(value, Jaxpr):
            return rewrite(value)
        if isinstance(value, tuple) and any(isinstance(item, Jaxpr) for item in value):
            return tuple(map(rewritten, value))
        return value

    params = {name: rewritten(value) for name, value in eqn.params.items()}
    changed = any(params[name] is not value for name, value in eqn.params.items())
    return dataclasses.replace(eqn, params=params) if changed else eqn


def rebuild(jaxpr: Jaxpr, eqns: Iterable[JaxprEqn], environment: Mapping[Var, Atom]) -> Jaxpr:
    """Return ``jaxpr`` with other equations, its results looked up in ``environment``."""
    outvars = tuple(resolve(atom, environment) for atom in jaxpr.outvars)
    return dataclasses.replace(jaxpr, eqns=tuple(eqns), outvars=outvars)
