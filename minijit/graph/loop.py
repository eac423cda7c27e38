"""What the operands and parameters of a loop mean, whichever primitive it is."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from minijit.graph.jaxpr import Atom, Jaxpr, JaxprEqn, Var, equations
from minijit.graph.primitive import Kind

__all__ = ["LoopParts", "is_collected", "may_not_end"]


@dataclasses.dataclass(frozen=True, slots=True)
class LoopParts:
    """The parts of a ``scan`` or ``while`` equation.

    Attributes:
        body: Takes its constants, the carries and a row of each of ``xs``; returns the next carries
            and what is collected.
        condition: Takes its constants and the carries; returns whether to go on. None with a
            ``length``.
        asked: The condition's constants.
        fixed: The body's constants.
        inits: The first carries.
        xs: Arrays that are taken apart along their first axis.
        length: Number of steps; None with a condition.
        reverse: Whether rows are taken from the last to the first.
    """

    body: Jaxpr
    condition: Jaxpr | None
    asked: tuple[Atom, ...]
    fixed: tuple[Atom, ...]
    inits: tuple[Atom, ...]
    xs: tuple[Atom, ...]
    length: int | None
    reverse: bool

    @classmethod
    def of(cls, eqn: JaxprEqn) -> LoopParts:
        """Take an equation of kind ``LOOP`` apart."""
        params, operands = eqn.params, eqn.invars
        if eqn.primitive.name == "scan":
            first, last = params["consts"], params["consts"] + params["carries"]
            return cls(
                params["jaxpr"], None, (), operands[:first], operands[first:last], operands[last:],
                params["length"], params["reverse"],
            )  # fmt: skip
        first = params["condition_consts"]
        last = first + params["body_consts"]
        return cls(
            params["body"], params["condition"], operands[:first], operands[first:last],
            operands[last:], (), None, False,
        )  # fmt: skip

    @property
    def carries(self) -> int:
        """How many values are carried: the first results; the others are collected."""
        return len(self.inits)


def is_collected(eqn: JaxprEqn, var: Var) -> bool:
    """Whether ``var``, a result of ``eqn``, holds a value of each step of a loop."""
    if eqn.primitive.kind is not Kind.LOOP:
        return False
    return eqn.outvars.index(var) >= LoopParts.of(eqn).carries


def may_not_end(eqns: Iterable[JaxprEqn]) -> bool:
    """Whether there is a loop with a condition, which might never end where nobody asked for it."""
    return any(
        eqn.primitive.kind is Kind.LOOP and LoopParts.of(eqn).condition is not None
        for eqn in equations(eqns)
    )
