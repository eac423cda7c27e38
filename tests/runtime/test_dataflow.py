"""Programs as graphs: what flows where, through which kernel, through memory or not."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np

import minijit
from minijit.debug import dataflow

X = np.ones((8, 40), np.float32)


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def steps(graph: Any) -> dict[str, tuple[int, ...]]:
    return {data["label"]: data["steps"] for _, data in graph.nodes(data=True) if "steps" in data}


def test_one_kernel_keeps_all_values_to_itself() -> None:
    graph = dataflow(softmax, X)
    assert nx.is_directed_acyclic_graph(graph)
    assert graph.name == "softmax"
    kinds = [kind for _, kind in graph.nodes(data="kind")]
    assert (kinds.count("input"), kinds.count("result")) == (1, 1)
    computed = {label: found for label, found in steps(graph).items() if found}
    assert set(computed.values()) == {(0,)}
    assert {"reduce_max", "exp", "reduce_sum", "div"} <= set(computed)
    stored = [(u, v) for u, v, there in graph.edges(data="stored") if there]
    assert {u for u, _ in stored if u.startswith("input")} == {"input 0"}
    assert {v for u, v in stored if not u.startswith("input")} == {"result 0"}
    assert nx.has_path(graph, "input 0", "result 0")


def test_a_value_between_kernels_goes_through_memory() -> None:
    w = np.ones((40, 7), np.float32)
    graph = dataflow(lambda x, w: np.tanh(x @ w) * 2, X, w)
    product = next(node for node, label in graph.nodes(data="label") if label == "matmul")
    (edge,) = graph.out_edges(product, data=True)
    assert edge[2] == {"type": "f32[8,7]", "bytes": 8 * 7 * 4, "stored": True}
    found = steps(graph)
    assert found["tanh"] == found["mul"] != found["matmul"]


def test_constants_results_twice_and_unused_inputs() -> None:
    table = np.arange(40, dtype=np.float32)

    def both(x: Any, unused: Any) -> Any:
        y = x + table
        return y, y

    graph = dataflow(both, X, X)
    kinds = [kind for _, kind in graph.nodes(data="kind")]
    assert kinds.count("constant") == 1
    assert kinds.count("result") == 2
    assert graph.degree("input 1") == 0
    assert minijit.jit(both).stats()["compiles"] == 0
