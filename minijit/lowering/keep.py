"""Loops that end for each point by itself, as loops that several points leave together.

Points that take their steps together fit in vectors. Those that are done take further steps, and
keep what they carry.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator

from minijit.graph.primitive import find_primitive
from minijit.lowering.kernel_ir import (
    Block,
    Branch,
    Kernel,
    Level,
    Loop,
    Map,
    Node,
    Operand,
    Value,
    blocks,
    walk,
    with_blocks,
)

__all__ = ["kept_together"]


def kept_together(kernel: Kernel, varying: Collection[Operand]) -> Kernel | None:
    """Return ``kernel`` with loops that all points leave together, if predicates allow that.

    Before: ``loop with a; while c = lt a 9; do b = mul a 2; -> b``; after:
    ``loop with a; while any c = lt a 9; do b = mul a 2; d = select c b a; -> d``.

    Args:
        kernel: One of which points have predicates that differ.
        varying: The values that differ from point to point.

    Returns:
        None where points take branches that differ, or a loop that they leave by themselves holds
        another without a count: that might never end for a point that is done.
    """
    for node in walk(kernel.body):
        if isinstance(node, Branch) and node.index in varying:
            return None
        if _differs(node, varying) and any(map(_is_open, _inside(node))):
            return None

    def changed(node: Node) -> Node:
        node = with_blocks(node, lambda b: Block(tuple(map(changed, b.body)), b.results))
        return _kept(node) if isinstance(node, Loop) and _differs(node, varying) else node

    return dataclasses.replace(kernel, body=tuple(map(changed, kernel.body)))


def _is_open(node: Node) -> bool:
    return isinstance(node, Loop) and node.condition is not None


def _differs(node: Node, varying: Collection[Operand]) -> bool:
    """Whether a node is a loop that points leave at different steps."""
    return (
        isinstance(node, Loop)
        and node.condition is not None
        and node.condition.results[0] in varying
    )


def _inside(node: Node) -> Iterator[Node]:
    for block in blocks(node):
        yield from walk(block.body)


def _kept(loop: Loop) -> Loop:
    """Return a loop whose steps change nothing of points for which the condition does not hold."""
    assert loop.condition is not None
    (holds,) = loop.condition.results
    select, keeps = find_primitive("select"), list[Node]()
    results: list[Operand] = []
    for carry, result in zip(loop.carries, loop.body.results, strict=True):
        if result is not carry:
            kept = Value(f"{carry.name}_kept", carry.dtype, max(carry.level, _level(holds)))
            keeps.append(Map(kept, select, (holds, result, carry), {}, loop.line))
            result = kept
        results.append(result)
    body = Block((*loop.body.body, *keeps), tuple(results))
    return dataclasses.replace(loop, body=body, together=True)


def _level(operand: Operand) -> Level:
    return operand.level if isinstance(operand, Value) else Level.LAUNCH
