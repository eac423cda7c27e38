"""The program as data: variables, literals, equations, and the jaxpr that holds them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from minijit.graph.aval import ShapedArray
from minijit.graph.pretty import format_jaxpr
from minijit.graph.primitive import Primitive
from minijit.graph.source_info import SourceLine

__all__ = ["Atom", "Jaxpr", "JaxprEqn", "Literal", "Var", "equations", "has_effect", "subjaxprs"]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Var:
    """A value of the program; compared by identity.

    Attributes:
        aval: Its shape and dtype.
        name: What the user calls it, for arguments; otherwise empty.
    """

    aval: ShapedArray
    name: str = ""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Literal:
    """A scalar constant written into the program.

    ``value`` is a NumPy scalar of the aval's dtype.
    """

    value: Any
    aval: ShapedArray


Atom = Var | Literal


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class JaxprEqn:
    """``outvars = primitive[params] invars``, and the user's line that asked for it."""

    primitive: Primitive
    invars: tuple[Atom, ...]
    outvars: tuple[Var, ...]
    params: Mapping[str, Any]
    source: SourceLine


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Jaxpr:
    """A typed program in A-normal form; compared by identity.

    Attributes:
        invars: The inputs.
        constvars: Hidden inputs: arrays that the function took from its surroundings.
        consts: Their values, in the same order.
        eqns: The equations, every variable defined before it is used.
        outvars: The results.
        name: The function's name.
    """

    invars: tuple[Var, ...]
    constvars: tuple[Var, ...]
    consts: tuple[Any, ...]
    eqns: tuple[JaxprEqn, ...]
    outvars: tuple[Atom, ...]
    name: str = ""

    @property
    def in_avals(self) -> tuple[ShapedArray, ...]:
        """Avals of the inputs."""
        return tuple(var.aval for var in self.invars)

    @property
    def out_avals(self) -> tuple[ShapedArray, ...]:
        """Avals of the results."""
        return tuple(var.aval for var in self.outvars)

    def __str__(self) -> str:
        """Return the text form; see :mod:`minijit.graph.pretty`."""
        return format_jaxpr(self)


def has_effect(eqn: JaxprEqn) -> bool:
    """Whether an equation, or one in its bodies, does something beside computing."""
    return any(each.primitive.effect for each in equations((eqn,)))


def equations(eqns: Iterable[JaxprEqn]) -> Iterator[JaxprEqn]:
    """Iterate over ``eqns``, each before those of its bodies."""
    for eqn in eqns:
        yield eqn
        for body in subjaxprs(eqn):
            yield from equations(body.eqns)


def subjaxprs(eqn: JaxprEqn) -> Iterator[Jaxpr]:
    """Iterate over the jaxprs among an equation's parameters."""
    for value in eqn.params.values():
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, Jaxpr):
                yield item
