"""Which values of a structured kernel lie in arrays of one element a lane, and which share one."""

from __future__ import annotations

from collections.abc import Container, Sequence

from minijit.lowering.kernel_ir import Product, Value
from minijit.lowering.structure import Cases, Item, Lanes, Steps, Structure

__all__ = ["places_of"]


def places_of(structure: Structure, again: Container[Value]) -> dict[Value, Value]:
    """Return for each value that lies in an array the value after which the array is named.

    A value lies in one if a loop over the lanes reads what another computed, unless it is
    in ``again``: then it is loaded anew.
    """
    shared: dict[Value, Value] = {}
    found: dict[Value, None] = {}
    for item in structure.everything():
        match item:
            case Lanes():
                found |= {target: None for target, _ in item.writes}
                read = (value for value in item.read if value in structure.varying)
                found |= {value: None for value in read if value not in again}
            case Product():
                found |= {value: None for value in (item.row, item.out) if isinstance(value, Value)}
            case Steps():
                # After the last step the carries are the results, where they are.
                for out, carry in zip(item.node.outs, item.node.carries, strict=True):
                    if carry in structure.varying:
                        shared[out] = carry
                        found[out] = None
                _overwrite(structure, item, shared)
    return {value: _last(value, shared) for value in found}


def _last(value: Value, shared: dict[Value, Value]) -> Value:
    while value in shared:
        value = shared[value]
    return value


def _overwrite(structure: Structure, item: Steps, shared: dict[Value, Value]) -> None:
    """Let next values lie where the carries lie that nothing reads once those are computed."""
    for carry, result in zip(item.node.carries, item.node.body.results, strict=True):
        if carry not in structure.varying or not isinstance(result, Value) or result is carry:
            continue
        for place, inner in enumerate(item.body):
            source = _source(inner, result)
            if source is None:
                continue
            # A loop overwrites before its first step, what else there is when it is done.
            rest = item.body[place if isinstance(inner, Steps) else place + 1 :]
            if source not in shared and not _reads(structure, rest, carry):
                shared[source] = carry
            break


def _source(item: Item, result: Value) -> Value | None:
    """Return what an item writes to an array to give ``result``; None if it does not give it."""
    match item:
        case Lanes():
            return result if result in item.defined else None
        case Steps():
            names = dict(zip(item.node.outs, item.node.carries, strict=True))
            return names.get(result)
        case Cases():
            ends = [block[-1] if block else None for block in item.blocks]
            written = [
                isinstance(end, Lanes) and any(target is result for target, _ in end.writes)
                for end in ends
            ]
            return result if result in item.node.outs and all(written) else None
    return None


def _reads(structure: Structure, items: Sequence[Item], value: Value) -> bool:
    return any(
        (isinstance(item, Lanes) and value in item.read)
        or (isinstance(item, Product) and item.row is value)
        for item in structure.everything(items)
    )
