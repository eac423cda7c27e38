"""The text form of jaxprs, as JAX prints it, with the user's line at the end of each equation."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # jaxprs print themselves, so this module knows their types by name only
    from minijit.graph.jaxpr import Atom, Jaxpr, JaxprEqn, Var

__all__ = ["canonical_text", "format_eqn", "format_jaxpr"]


def format_jaxpr(jaxpr: Jaxpr, *, source: bool = True) -> str:
    """Return ``{ lambda ; a:f32[8]. let b:f32[8] = exp a in (b,) }``, an equation a line.

    Args:
        jaxpr: The program.
        source: Append ``# file:line (function)`` to each equation.
    """
    return "\n".join(_lines(jaxpr, _Names(), source))


def format_eqn(eqn: JaxprEqn) -> str:
    """Return one equation, for messages."""
    return "\n".join(_eqn_lines(eqn, _Names(), source=True))


def canonical_text(jaxpr: Jaxpr) -> str:
    """Return a text that two programs share exactly when they compute the same in the same way."""
    return format_jaxpr(jaxpr, source=False)


class _Names:
    """Gives variables the names a, b, ..., z, aa, ab, ... in the order in which they are met."""

    def __init__(self) -> None:
        self._names: dict[Atom, str] = {}
        self._fresh = _letters()

    def of(self, atom: Atom) -> str:
        value = getattr(atom, "value", None)
        if value is not None:
            return f"{value}:{atom.aval}"
        if atom not in self._names:
            self._names[atom] = next(self._fresh)
        return self._names[atom]

    def binder(self, var: Var) -> str:
        return f"{self.of(var)}:{var.aval}"


def _letters() -> Iterator[str]:
    alphabet = "abcdefghijklmnopqrstuvwxyz"
    for length in itertools.count(1):
        for letters in itertools.product(alphabet, repeat=length):
            yield "".join(letters)


def _lines(jaxpr: Jaxpr, names: _Names, source: bool) -> list[str]:
    consts = " ".join(map(names.binder, jaxpr.constvars))
    inputs = " ".join(map(names.binder, jaxpr.invars))
    lines = [f"{{ lambda {consts}; {inputs}. let".replace("  ", " ")]
    for eqn in jaxpr.eqns:
        lines += ["    " + line for line in _eqn_lines(eqn, names, source)]
    results = ", ".join(map(names.of, jaxpr.outvars))
    lines.append(f"  in ({results}{',' if len(jaxpr.outvars) == 1 else ''}) }}")
    return lines


def _eqn_lines(eqn: JaxprEqn, names: _Names, source: bool) -> list[str]:
    # Operands are named before results, as they are met.
    operands = [names.of(atom) for atom in eqn.invars]
    nested: list[str] = []
    params = []
    for key, value in eqn.params.items():
        if hasattr(value, "eqns"):
            nested += [f"  {key}:", *("    " + line for line in _lines(value, _Names(), source))]
        elif isinstance(value, tuple) and any(hasattr(item, "eqns") for item in value):
            for position, item in enumerate(value):
                nested += [f"  {key}[{position}]:"]
                nested += ["    " + line for line in _lines(item, _Names(), source)]
        else:
            params.append(f"{key}={_value(value)}")
    results = " ".join(map(names.binder, eqn.outvars))
    brackets = f"[{' '.join(params)}]" if params else ""
    line = " ".join([f"{results} = {eqn.primitive.name}{brackets}", *operands])
    return [f"{line}  # {eqn.source}" if source else line, *nested]


def _value(value: Any) -> str:
    return str(value).replace(" ", "") if isinstance(value, tuple) else str(value)
