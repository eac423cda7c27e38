"""How values flow through a program, and through which kernels, as a graph of networkx."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any

from minijit.backends.base import Backend
from minijit.graph.jaxpr import Atom, Jaxpr, JaxprEqn, Var
from minijit.graph.primitive import Kind
from minijit.lowering.groups import Partition
from minijit.runtime.pipeline import optimize, plan_partition

__all__ = ["dataflow_graph"]


def dataflow_graph(traced: Jaxpr, backend: Backend) -> Any:
    """Return the graph of a program that :func:`minijit.debug.dataflow` describes."""
    import networkx as nx

    jaxpr = optimize(traced, backend)
    parts = plan_partition(jaxpr, backend)
    steps = _steps_of(jaxpr, parts)
    graph = nx.MultiDiGraph(name=jaxpr.name)
    nodes: dict[Var, str] = {}
    for kind, variables in (("input", jaxpr.invars), ("constant", jaxpr.constvars)):
        for number, var in enumerate(variables):
            nodes[var] = f"{kind} {number}"
            graph.add_node(nodes[var], kind=kind, label=var.name or str(var.aval))
    outside = set(nodes)
    for number, eqn in enumerate(jaxpr.eqns):
        node = f"operation {number}"
        view = eqn.primitive.kind is Kind.VIEW
        found = set() if view else set().union(*(steps.get(var, ()) for var in eqn.outvars))
        graph.add_node(
            node,
            kind="operation",
            label=eqn.primitive.name,
            source=str(eqn.source),
            steps=tuple(sorted(found)),
        )
        _connect(graph, eqn.invars, node, nodes, outside | parts.stored)
        nodes |= dict.fromkeys(eqn.outvars, node)
    for number, atom in enumerate(jaxpr.outvars):
        node = f"result {number}"
        graph.add_node(node, kind="result", label=str(atom.aval))
        _connect(graph, [atom], node, nodes, set(nodes))
    return graph


def _steps_of(jaxpr: Jaxpr, parts: Partition) -> dict[Var, set[int]]:
    """Return which steps compute each value: what is no member of a step is part of its users'."""
    steps: dict[Var, set[int]] = {}
    for number, step in enumerate(parts.steps):
        for var in step.outvars if isinstance(step, JaxprEqn) else (m.var for m in step.members):
            steps.setdefault(var, set()).add(number)
    for eqn in reversed(jaxpr.eqns):
        own = set().union(*(steps.get(var, ()) for var in eqn.outvars))
        for atom in eqn.invars:
            if isinstance(atom, Var) and atom not in parts.stored:
                steps.setdefault(atom, set()).update(own)
    return steps


def _connect(
    graph: Any,
    atoms: Iterable[Atom],
    node: str,
    nodes: Mapping[Var, str],
    stored: Container[Var],
) -> None:
    for atom in dict.fromkeys(atoms):
        if isinstance(atom, Var):
            value = {"type": str(atom.aval), "bytes": atom.aval.nbytes, "stored": atom in stored}
            graph.add_edge(nodes[atom], node, **value)
