"""Atomic operations in the order of the threads: the same result every time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from minijit.backends.emulator.instructions import operation
from minijit.backends.emulator.operation import Array
from minijit.backends.emulator.ptx import Instruction, Register

__all__ = ["SHORT_UPDATES", "apply_atomic"]

_UPDATES: dict[str, Callable[..., Array]] = {
    "add": lambda old, a: old + a,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "exch": lambda old, a: a,
    "cas": lambda old, a, b: np.asarray(np.where(old == a, b, old)),
    "inc": lambda old, a: np.asarray(np.where(old >= a, 0 * old, old + old.dtype.type(1))),
    "dec": lambda old, a: np.asarray(np.where((old == 0) | (old > a), a, old - 1)),
}
SHORT_UPDATES = {
    f"add.{kind}": operation(
        Instruction("add", ("rn", kind), None, (Register("_"),) * 3, 0)
    ).compute
    for kind in ("f16x2", "bf16", "bf16x2")
}
"""Updates of 16-bit floats that are kept as bits, by operation and type."""
_UPDATES |= SHORT_UPDATES
_AT_ONCE = {
    "add": np.add, "min": np.minimum, "max": np.maximum,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip


def apply_atomic(
    name: str, memory: Array, places: Array, operands: Sequence[Array], wanted: bool
) -> Array | None:
    """Update ``memory[places]`` one thread after the other; return what each found there."""
    operands = [np.broadcast_to(x, places.shape) for x in operands]
    if not wanted and name in _AT_ONCE:
        _AT_ONCE[name].at(memory, places, operands[0])
        return None
    found = np.empty(places.shape, memory.dtype)
    order = np.argsort(places, kind="stable")
    ordered = places[order]
    starts = np.nonzero(np.r_[True, ordered[1:] != ordered[:-1]])[0]
    # In each turn every place serves the next of its threads.
    turn = np.arange(ordered.size) - np.repeat(starts, np.diff(np.r_[starts, ordered.size]))
    by_turn = np.argsort(turn, kind="stable")
    ends = np.cumsum(np.bincount(turn))
    update = _UPDATES[name]
    first = 0
    for end in ends:
        lanes = order[by_turn[first:end]]
        here = places[lanes]
        old = memory[here]
        found[lanes] = old
        memory[here] = update(old, *(x[lanes] for x in operands))
        first = int(end)
    return found
