"""Basic blocks of a kernel: control flow, which registers live where, and the order to run in.

An instruction at which threads meet (a barrier, a shuffle) is a block of its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from minijit.backends.emulator.errors import PtxSyntaxError
from minijit.backends.emulator.inline import GRID_BARRIER, Flat
from minijit.backends.emulator.ptx import (
    Address,
    Instruction,
    Label,
    Operand,
    Pair,
    Register,
    Symbol,
    Vector,
)

__all__ = [
    "CARRY",
    "EXIT",
    "Block",
    "build_blocks",
    "is_meeting",
    "reads",
    "takes_carry",
    "writes",
]

EXIT = -1
CARRY = Register("%cc")
"""Stands for the carry, which instructions do not name."""
_NO_RESULT = frozenset(
    [
        "st",
        "red",
        "bra",
        "brx",
        "ret",
        "exit",
        "trap",
        "brkpt",
        "bar",
        "barrier",
        "membar",
        "fence",
        "nanosleep",
        "prefetch",
        "prefetchu",
        "discard",
        "applypriority",
        "pmevent",
        "griddepcontrol",
    ]
)
_MEETINGS = frozenset(["shfl", "vote", "match", "redux", "bar", "barrier", "activemask"])


@dataclasses.dataclass(frozen=True, slots=True)
class Block:
    """Instructions that run one after the other.

    Attributes:
        instructions: Without the branch at the end.
        jump: The branch at the end, if there is one.
        taken: The block to which a branch goes, ``EXIT`` for the end of the thread.
        next: The block that follows otherwise.
        rank: Groups of threads with smaller ranks run first.
        live_in: Registers whose values are used from the start of the block on.
        live_out: Registers whose values are used after the block.
        meeting: Whether its only instruction waits for other threads.
    """

    instructions: tuple[Instruction, ...]
    jump: Instruction | None
    taken: int
    next: int
    rank: tuple[int, int]
    live_in: frozenset[str]
    live_out: frozenset[str]
    meeting: bool

    @property
    def branch(self) -> Instruction | None:
        """The branch at the end if it has a condition."""
        return self.jump if self.jump is not None and self.jump.guard is not None else None

    @property
    def length(self) -> int:
        """The number of instructions with the branch."""
        return len(self.instructions) + (self.jump is not None)

    @property
    def first(self) -> Instruction | None:
        """The first instruction, if the block has any."""
        return self.instructions[0] if self.instructions else self.jump


def writes(instruction: Instruction) -> tuple[Register, ...]:
    """Return the registers that an instruction sets, in order."""
    if instruction.name in _NO_RESULT or not instruction.operands:
        # bar.red and barrier.red have a result after all.
        if "red" in instruction.modifiers and instruction.name in ("bar", "barrier"):
            return tuple(_registers(instruction.operands[0]))
        return ()
    found = tuple(_registers(instruction.operands[0]))
    return (*found, CARRY) if "cc" in instruction.modifiers else found


def takes_carry(instruction: Instruction) -> bool:
    """Whether the carry is one of the operands."""
    return instruction.name in ("addc", "subc", "madc")


def reads(instruction: Instruction) -> tuple[Register, ...]:
    """Return the registers that an instruction uses, its guard included."""
    has_result = bool(writes(instruction)) or instruction.name == "atom"
    found = [r for o in instruction.operands[has_result:] for r in _registers(o)]
    if takes_carry(instruction):
        found.append(CARRY)
    if instruction.guard is not None:
        # Where the guard is false the old value stays.
        found += [instruction.guard, *writes(instruction)]
    return tuple(found)


def _registers(operand: Operand) -> Iterator[Register]:
    if isinstance(operand, Register):
        if operand.name != "_":
            yield operand
    elif isinstance(operand, Address):
        if isinstance(operand.base, Register):
            yield operand.base
    elif isinstance(operand, Vector):
        for part in operand.parts:
            yield from _registers(part)
    elif isinstance(operand, Pair):
        yield from _registers(operand.first)
        yield from _registers(operand.second)


def is_meeting(instruction: Instruction) -> bool:
    """Whether threads meet at the instruction."""
    grid = instruction.name == "call" and GRID_BARRIER in instruction.modifiers
    return grid or (instruction.name in _MEETINGS and "arrive" not in instruction.modifiers)


@dataclasses.dataclass(slots=True)
class _Draft:
    instructions: list[Instruction]
    depth: int
    branch: Instruction | None = None
    ends: bool = False


def build_blocks(flat: Flat) -> tuple[Block, ...]:
    """Return the blocks of a kernel; the first one is the entry.

    Raises:
        PtxSyntaxError: a branch goes nowhere.
    """
    drafts, labels = _cut(flat)
    edges = [_successors(draft, number, labels) for number, draft in enumerate(drafts)]
    order = _order(edges)
    live_in, live_out = _liveness(drafts, edges)
    blocks = []
    for number, draft in enumerate(drafts):
        taken, follows = edges[number]
        meeting = len(draft.instructions) == 1 and is_meeting(draft.instructions[0])
        rank = (-draft.depth, order[number])
        blocks.append(
            Block(
                tuple(draft.instructions), draft.branch, taken, follows, rank, live_in[number],
                live_out[number], meeting,
            )
        )  # fmt: skip
    return tuple(blocks)


def _cut(flat: Flat) -> tuple[list[_Draft], dict[str, int]]:
    drafts = [_Draft([], 0)]
    labels: dict[str, int] = {}

    def fresh(depth: int) -> None:
        last = drafts[-1]
        if last.instructions or last.ends or last.branch:
            drafts.append(_Draft([], depth))
        else:
            last.depth = depth

    for item, depth in zip(flat.body, flat.depths, strict=True):
        if isinstance(item, Label):
            fresh(depth)
            labels[item.name] = len(drafts) - 1
        elif item.name in ("bra", "ret", "exit", "brx"):
            if depth != drafts[-1].depth:
                fresh(depth)
            drafts[-1].branch, drafts[-1].ends = item, True
            fresh(depth)
        elif is_meeting(item):
            fresh(depth)
            drafts[-1].instructions.append(item)
            drafts[-1].ends = False
            drafts.append(_Draft([], depth))
        else:
            drafts[-1].instructions.append(item)
    return drafts, labels


def _successors(draft: _Draft, number: int, labels: dict[str, int]) -> tuple[int, int]:
    """Return where a taken branch goes, and where the block goes otherwise."""
    branch = draft.branch
    if branch is None:
        return number + 1, number + 1
    if branch.name in ("ret", "exit"):
        target = EXIT
    else:
        place = branch.operands[0]
        if branch.name != "bra" or not isinstance(place, Symbol) or place.name not in labels:
            raise PtxSyntaxError(f"PTX line {branch.line}: a branch to {place}")
        target = labels[place.name]
    return target, number + 1 if branch.guard else target


def _order(edges: Sequence[tuple[int, int]]) -> list[int]:
    """Return for each block its place in a reverse postorder that leaves loops late."""
    count = len(edges)
    depths = _loop_depths(edges)
    place = [count] * count
    seen = [False] * count
    finished: list[int] = []
    stack: list[tuple[int, bool]] = [(0, False)]
    while stack:
        block, done = stack.pop()
        if done:
            finished.append(block)
            continue
        if not 0 <= block < count or seen[block]:
            continue
        seen[block] = True
        stack.append((block, True))
        # What is finished first comes last: leave the loop before going on inside it.
        after = {b for b in edges[block] if 0 <= b < count}
        stack += [(b, False) for b in sorted(after, key=lambda b: depths[b], reverse=True)]
    for number, block in enumerate(reversed(finished)):
        place[block] = number
    return place


def _loop_depths(edges: Sequence[tuple[int, int]]) -> list[int]:
    """Return in how many loops each block lies; a loop is what lies on a way back to its head."""
    count = len(edges)
    before: list[list[int]] = [[] for _ in range(count)]
    for block, targets in enumerate(edges):
        for target in set(targets):
            if 0 <= target < count:
                before[target].append(block)
    depths = [0] * count
    for tail, head in _back_edges(edges):
        inside = {head}
        work = [tail]
        while work:
            block = work.pop()
            if block not in inside:
                inside.add(block)
                work += before[block]
        for block in inside:
            depths[block] += 1
    return depths


def _back_edges(edges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the edges that lead to a block on the way by which a depth-first walk came."""
    count = len(edges)
    state = [0] * count
    found = []
    stack: list[tuple[int, bool]] = [(0, False)]
    while stack:
        block, done = stack.pop()
        if done:
            state[block] = 2
            continue
        if state[block]:
            continue
        state[block] = 1
        stack.append((block, True))
        for target in set(edges[block]):
            if not 0 <= target < count:
                continue
            if state[target] == 1:
                found.append((block, target))
            elif state[target] == 0:
                stack.append((target, False))
    return found


def _liveness(
    drafts: Sequence[_Draft], edges: Sequence[tuple[int, int]]
) -> tuple[list[frozenset[str]], list[frozenset[str]]]:
    count = len(drafts)
    used: list[set[str]] = []
    made: list[set[str]] = []
    for draft in drafts:
        uses: set[str] = set()
        sets: set[str] = set()
        for item in [*draft.instructions, *([draft.branch] if draft.branch else [])]:
            uses |= {r.name for r in reads(item)} - sets
            if item.guard is None:
                sets |= {r.name for r in writes(item)}
        used.append(uses)
        made.append(sets)
    live_in: list[frozenset[str]] = [frozenset()] * count
    live_out: list[frozenset[str]] = [frozenset()] * count
    changed = True
    while changed:
        changed = False
        for block in reversed(range(count)):
            out: frozenset[str] = frozenset()
            for target in edges[block]:
                if 0 <= target < count:
                    out |= live_in[target]
            into = frozenset(used[block] | (out - made[block]))
            if into != live_in[block] or out != live_out[block]:
                live_in[block], live_out[block], changed = into, out, True
    return live_in, live_out
