"""Which names a function's code takes from its surroundings, read off its bytecode."""

from __future__ import annotations

import dataclasses
import dis
import functools
from collections.abc import Iterator
from types import CodeType

__all__ = ["Names", "names_of"]

_READS = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})
_CELL_READS = frozenset({"LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"})
_GLOBAL_WRITES = frozenset({"STORE_GLOBAL", "DELETE_GLOBAL"})
_CELL_WRITES = frozenset({"STORE_DEREF", "DELETE_DEREF"})
_LOCAL_WRITES = frozenset({"STORE_NAME", "DELETE_NAME"})  # of the body of a class
_ATTRIBUTES = frozenset({"LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "IMPORT_FROM"})
_ATTRIBUTE_WRITES = frozenset({"STORE_ATTR", "DELETE_ATTR"})


@dataclasses.dataclass(frozen=True, slots=True)
class Names:
    """The names in a function's code and in the code of the functions that it defines.

    Attributes:
        globals: Global names that are read, in order.
        written: Global names that are bound or deleted.
        written_free: Variables of functions around it that are bound or deleted.
        attributes: Names that are read as attributes of anything.
        stored: Names that are bound or deleted as attributes of anything.
        standing_attributes: ``(name, attribute)`` pairs: attributes of a global or free variable
            that are bound or deleted.
        modules: Modules that it imports by their absolute names.
    """

    globals: tuple[str, ...]
    written: frozenset[str]
    written_free: frozenset[str]
    attributes: frozenset[str]
    stored: frozenset[str]
    standing_attributes: frozenset[tuple[str, str]]
    modules: frozenset[str]


@functools.lru_cache(maxsize=4096)
def names_of(code: CodeType) -> Names:
    """Return the names of ``code``, without looking into what they stand for."""
    read: dict[str, None] = {}
    kinds = ("written", "free", "attributes", "stored", "mods")
    found: dict[str, set[str]] = {kind: set() for kind in kinds}
    pairs: set[tuple[str, str]] = set()
    for part, free in _nested(code, frozenset(code.co_freevars)):
        instructions = [i for i in dis.get_instructions(part) if i.opname != "EXTENDED_ARG"]
        local = {i.argval for i in instructions if i.opname in _LOCAL_WRITES}
        for position, instruction in enumerate(instructions):
            kind, name = instruction.opname, instruction.argval
            if kind in _READS and name not in local:
                read[name] = None
            elif kind in _GLOBAL_WRITES:
                found["written"].add(name)
            elif kind in _CELL_WRITES and name in free:
                found["free"].add(name)
            elif kind in _ATTRIBUTES:
                found["attributes"].add(name)
            elif kind in _ATTRIBUTE_WRITES:
                found["stored"].add(name)
            elif kind == "IMPORT_NAME":
                found["mods"].add(name)
            base = _written_base(instructions, position)
            if base is not None:
                pairs.add((base, name))
    return Names(
        tuple(read),
        frozenset(found["written"]),
        frozenset(found["free"]),
        frozenset(found["attributes"]),
        frozenset(found["stored"]),
        frozenset(pairs),
        frozenset(found["mods"]),
    )


def _nested(code: CodeType, free: frozenset[str]) -> Iterator[tuple[CodeType, frozenset[str]]]:
    """Yield ``code`` and what it defines, each with those of its free variables among ``free``.

    A variable of the same name that a function in between owns is another one.
    """
    yield code, free
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant, free.intersection(constant.co_freevars))


def _written_base(instructions: list[dis.Instruction], position: int) -> str | None:
    """Return the name of whose attribute is written, if that is what happens here."""
    instruction = instructions[position]
    before = instructions[max(0, position - 2) : position]
    if instruction.opname in _ATTRIBUTE_WRITES and before and _is_load(before[-1]):
        return str(before[-1].argval)
    # m.n += 1 keeps a copy of m for the assignment at its end.
    augmented = len(before) == 2 and before[1].opname == "COPY" and _is_load(before[0])
    if instruction.opname == "LOAD_ATTR" and augmented:
        return str(before[0].argval)
    return None


def _is_load(instruction: dis.Instruction) -> bool:
    return instruction.opname in _READS or instruction.opname in _CELL_READS
