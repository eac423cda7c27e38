"""What LLVM is told of an innermost loop: how many elements to work on at a time.

Operations of one element wait for each other; several vectors side by side fill the gaps. LLVM has
two ways to that end. It repeats each operation of the body for each vector (interleaving), which
costs its time for each; or it takes vectors wider than those of the processor, which only its last
step, from its code to machine code, takes apart. The second way costs a long body a third of the
time, but leaves it up to a whole wide vector of elements that are gone through one by one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from llvmlite import ir

__all__ = ["CHOICE_OF_LLVM", "Uses", "Vectors", "tell"]

_LONG_BODIES = (150, 500)
"""Instructions from which on LLVM's time for a body counts, and most that it may repeat."""
_ONE_BY_ONE = frozenset({"frem", "sdiv", "srem", "udiv", "urem"})
"""Instructions that processors have for numbers, not for vectors."""
_INSTRUCTIONS = frozenset({"sqrt", "sqrtf"})
"""Functions of the C library for which processors have instructions."""
_BOOKKEEPING = frozenset({"alloca", "br", "load", "store"})
"""Instructions that are no operations, or of slots that LLVM moves to registers."""


@dataclasses.dataclass(frozen=True, slots=True)
class Vectors:
    """How an innermost loop is to run.

    Attributes:
        count: How many vectors it works on at a time; 0 lets LLVM choose.
        width: How many numbers a wide vector has; 0 where what is left after so many would be a
            large part of the loop.
    """

    count: int = 0
    width: int = 0


CHOICE_OF_LLVM = Vectors()
"""Tells LLVM nothing."""


@dataclasses.dataclass(slots=True)
class Uses:
    """How a loop uses variables, as its body is written.

    Attributes:
        depth: Of how many loops and branches the body is a part.
        assigned: The variables that it assigns to.
        known: Those that it has assigned to whichever way was taken.
        read: Those that it has read when they were not known.
    """

    depth: int
    assigned: set[str] = dataclasses.field(default_factory=set)
    known: set[str] = dataclasses.field(default_factory=set)
    read: set[str] = dataclasses.field(default_factory=set)

    def assign(self, name: str, depth: int) -> None:
        """Note an assignment inside of so many loops and branches."""
        self.assigned.add(name)
        if depth == self.depth:
            self.known.add(name)

    def load(self, name: str) -> None:
        """Note that a variable is read."""
        if name not in self.known:
            self.read.add(name)

    @property
    def carries(self) -> bool:
        """Whether an element needs a variable of the one before it."""
        return not self.assigned.isdisjoint(self.read)


def tell(vectors: Vectors, branch: Any, blocks: Sequence[Any], uses: Uses) -> None:
    """Give LLVM the hint of a loop, by the code of its body.

    Args:
        vectors: How it is to run.
        branch: The branch back to the loop's test.
        blocks: Those of the body.
        uses: What the body did.
    """
    if not vectors.count:
        return
    body = [instruction for block in blocks for instruction in block.instructions]
    size = sum(instruction.opname not in _BOOKKEEPING for instruction in body)
    # LLVM would take a width as a licence to change the order in which a variable accumulates.
    widens = vectors.width and not uses.carries
    long, longest = _LONG_BODIES
    if size > long and widens and all(map(_is_vectorisable, body)):
        hint = {"vectorize.width": vectors.width, "interleave.count": 1}
    elif size <= longest:
        hint = {"interleave.count": vectors.count}
    else:
        return
    module = branch.parent.module
    properties = [
        module.add_metadata([f"llvm.loop.{name}", ir.IntType(32)(value)])
        for name, value in hint.items()
    ]
    # The first operand of a loop's metadata is itself: the name of its block makes it another
    # one than that of any other loop until then.
    loop = module.add_metadata([branch.parent.name, *properties])
    loop.operands = (loop, *properties)
    branch.set_metadata("llvm.loop", loop)


def _is_vectorisable(instruction: Any) -> bool:
    """Whether there is an instruction for vectors, or a function of them."""
    if instruction.opname != "call":
        return instruction.opname not in _ONE_BY_ONE
    callee = instruction.callee
    known = callee.name.startswith("llvm.") or callee.name in _INSTRUCTIONS
    return known or any(
        "vector-function-abi-variant" in attribute for attribute in callee.attributes
    )
