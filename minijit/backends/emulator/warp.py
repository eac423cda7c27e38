"""What the threads of a warp do together: shuffles, votes, matches, reductions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minijit.backends.emulator.errors import UninitialisedReadError
from minijit.backends.emulator.memory import Fault
from minijit.backends.emulator.operation import Array

__all__ = ["ballots", "exchange", "matches", "reductions", "vote"]

_WARP = 32
_LANES = np.arange(_WARP, dtype=np.int64)


def sources(mode: str, lane: Array, by: Array, clamp: Array) -> tuple[Array, Array]:
    """Return the lane from which each lane takes, and whether it lies in range (PTX, ``shfl``)."""
    shift, limit = by & 31, clamp & 31
    mask = clamp >> 8 & 31
    lowest = lane & mask
    highest = lowest | (limit & ~mask)
    if mode == "up":
        place = lane - shift
        inside = place >= highest
    elif mode == "down":
        place = lane + shift
        inside = place <= highest
    elif mode == "bfly":
        place = lane ^ shift
        inside = place <= highest
    else:
        place = lowest | (shift & ~mask)
        inside = place <= highest
    return np.where(inside, place, lane), inside


def exchange(
    mode: str,
    values: Array,
    by: Array,
    clamp: Array,
    members: Array,
    lanes: Array,
    warps: Array,
    whole: bool,
) -> tuple[Array, Array]:
    """Return taken values, and whether the source lies in range (else it is the thread itself).

    ``members`` are the bits of the threads that take part with each; ``lanes`` and ``warps`` say
    where each stands; ``whole``: these are all threads of all warps.

    Raises:
        Fault: a source in range does not take part, so that its value is undefined.
    """
    if whole and by.size == clamp.size == members.size == 1:
        place, inside = sources(mode, _LANES, by.astype(np.int64), clamp.astype(np.int64))
        count = lanes.size // _WARP
        if values.size > 1:
            values = values.reshape(count, _WARP)[:, place].reshape(-1)
        return values, np.tile(inside, count)
    place, inside = sources(mode, lanes, by.astype(np.int64), clamp.astype(np.int64))
    takes_part = (members >> place.astype(np.uint32) & np.uint32(1)) != 0
    if not takes_part.all():
        lane = int(np.argmin(takes_part))
        message = f"a shuffle from lane {place[lane]}, which does not take part"
        raise Fault(UninitialisedReadError, lane, message)
    position = np.zeros((int(warps.max()) + 1) * _WARP, np.int64)
    position[warps * _WARP + lanes] = np.arange(lanes.size)
    values = np.broadcast_to(values, lanes.shape)
    return values[position[warps * _WARP + place]], inside


def ballots(votes: Array, lanes: Array, warps: Array) -> Array:
    """Return for each thread the bits of its warp's threads whose vote is true."""
    table = np.zeros((int(warps.max()) + 1, _WARP), np.bool_)
    table[warps, lanes] = votes
    words = np.packbits(table, axis=1, bitorder="little").view(np.uint32)[:, 0]
    found: Array = words[warps]
    return found


def vote(mode: str, value: Array, members: Array, lanes: Array, warps: Array) -> Array:
    """Return the result of ``vote.sync`` for each thread."""
    value = np.broadcast_to(value, lanes.shape)
    true = ballots(value, lanes, warps) & members
    if mode == "ballot":
        return true
    if mode == "any":
        return np.asarray(true != 0)
    if mode == "all":
        return np.asarray(true == members)
    return np.asarray((true == 0) | (true == members))


def matches(
    mode: str, value: Array, members: Array, lanes: Array, warps: Array
) -> tuple[Array, Array]:
    """Return the bits of the threads with the same value, and whether all have it."""
    value = np.broadcast_to(value, lanes.shape)
    table = np.zeros((int(warps.max()) + 1, _WARP), value.dtype)
    table[warps, lanes] = value
    same = np.zeros(lanes.shape, np.uint32)
    for lane in range(_WARP):
        same |= (table[warps, lane] == value).astype(np.uint32) << np.uint32(lane)
    same = same & members
    everyone = same == members
    return (np.where(everyone, same, np.uint32(0)) if mode == "all" else same), everyone


_REDUCTIONS: dict[str, Any] = {
    "add": np.add, "min": np.minimum, "max": np.maximum,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip


def reductions(name: str, value: Array, members: Array, lanes: Array, warps: Array) -> Array:
    """Return the combination of the values of the threads in ``members``."""
    function: Callable[..., Array] = _REDUCTIONS[name]
    value = np.broadcast_to(value, lanes.shape)
    table = np.zeros((int(warps.max()) + 1, _WARP), value.dtype)
    table[warps, lanes] = value
    result = np.zeros(lanes.shape, value.dtype)
    started = np.zeros(lanes.shape, np.bool_)
    for lane in range(_WARP):
        takes = (members >> np.uint32(lane) & np.uint32(1)) != 0
        both = function(result, table[warps, lane])
        result = np.where(takes, np.where(started, both, table[warps, lane]), result)
        started |= takes
    return result
