"""Common subexpressions: what is written twice is computed once."""

from __future__ import annotations

from collections.abc import Hashable

from minijit.graph.jaxpr import Atom, Jaxpr, JaxprEqn, Literal, Var, has_effect
from minijit.transforms.rewrite import rebuild, resolve, substituted

__all__ = ["share_common_subexpressions"]


def share_common_subexpressions(jaxpr: Jaxpr) -> Jaxpr:
    """Return ``jaxpr`` with equal equations merged into the first of them.

    Before: ``b = exp a; c = exp a; d = add b c``; after: ``b = exp a; d = add b b``.
    """
    environment: dict[Var, Atom] = {}
    seen: dict[Hashable, JaxprEqn] = {}
    eqns: list[JaxprEqn] = []
    for eqn in jaxpr.eqns:
        invars = tuple(resolve(atom, environment) for atom in eqn.invars)
        key = (eqn.primitive, tuple(map(_identity, invars)), tuple(sorted(eqn.params.items())))
        first = seen.get(key)
        if first is not None:
            environment.update(zip(eqn.outvars, first.outvars, strict=True))
            continue
        if not has_effect(eqn):
            seen[key] = eqn
        eqns.append(substituted(eqn, invars))
    return rebuild(jaxpr, eqns, environment)


def _identity(atom: Atom) -> Hashable:
    # Bytes, since 0.0 == -0.0 and nan != nan.
    return (atom.aval, atom.value.tobytes()) if isinstance(atom, Literal) else id(atom)
