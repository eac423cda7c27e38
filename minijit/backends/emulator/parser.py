"""PTX text to the records of :mod:`minijit.backends.emulator.ptx`."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from functools import lru_cache

from minijit.backends.emulator.errors import PtxSyntaxError
from minijit.backends.emulator.operands import NAME, operand
from minijit.backends.emulator.ptx import (
    WIDTHS,
    Function,
    Immediate,
    Instruction,
    Label,
    Module,
    Register,
    Symbol,
    Variable,
)
from minijit.backends.emulator.tokens import split_list, statements

__all__ = ["parse"]

_SPACES = {"param", "shared", "local", "const", "global"}
_IGNORED = {"version", "address_size", "file", "loc", "alias", "callprototype", "branchtargets"}
_HEADER = re.compile(rf"\.(entry|func)\s*(?:\((.*?)\)\s*)?({NAME})\s*(?:\((.*?)\))?", re.DOTALL)
_IS_HEADER = re.compile(r"(\.\w+ )*\.(entry|func)\b")
_FILE = re.compile(r'\.file\s+(\d+)\s+"(.*?)"')
_GUARDED = re.compile(r"@(!?)(%[\w.]+)\s+(.*)")
_DECLARED = re.compile(rf"({NAME})\s*(?:<(\d+)>)?")
_VARIABLE = re.compile(rf"({NAME})((?:\s*\[\s*\w*\s*\])*)\s*$")

Statement = tuple[int, str]


@lru_cache(maxsize=256)
def parse(text: str) -> Module:
    """Parse a module.

    Raises:
        PtxSyntaxError: the text is not PTX as NVVM writes it.
    """
    parser = _Parser()
    try:
        return parser.module(text)
    except ValueError as error:
        raise PtxSyntaxError(f"PTX line {parser.line}: {error}") from error


class _Parser:
    """Walks over the statements of one text."""

    def __init__(self) -> None:
        self.line = 0
        self.source: tuple[str, int] | None = None
        self.files: dict[str, str] = {}
        self.scopes = 0

    def module(self, text: str) -> Module:
        """Read everything."""
        target = 0
        variables: list[Variable] = []
        functions: list[Function] = []
        external: set[Variable] = set()
        rest = list(statements(text))
        for _, line in rest:
            # Files may be listed after the code that refers to them.
            if found := _FILE.match(line):
                self.files[found[1]] = found[2]
        place = 0
        while place < len(rest):
            self.line, line = rest[place]
            place += 1
            if found := re.match(r"\.target sm_(\d+)", line):
                target = int(found[1])
            elif _IS_HEADER.match(line):
                if place < len(rest) and rest[place][1] == "{":
                    end = self._end(rest, place)
                    functions.append(self._function(line, rest[place + 1 : end - 1]))
                    place = end
            elif found := re.match(r"(?:\.(?:visible|extern|weak|common) )*\.(\w+)", line):
                if found[1] in _SPACES:
                    variables.append(self._variable(line))
                    external |= {variables[-1]} if ".extern " in line else set()
                elif found[1] not in _IGNORED:
                    raise ValueError(f"unknown directive {line!r}")
            else:
                raise ValueError(f"cannot read {line!r}")
        # What several linked texts declare is one variable: the one that is defined.
        by_name: dict[str, Variable] = {}
        for variable in variables:
            if variable.name not in by_name or by_name[variable.name] in external:
                by_name[variable.name] = variable
        return Module(text, target, tuple(by_name.values()), tuple(functions))

    def _end(self, rest: Sequence[Statement], place: int) -> int:
        depth = 0
        while place < len(rest):
            depth += (rest[place][1] == "{") - (rest[place][1] == "}")
            place += 1
            if depth == 0:
                return place
        raise ValueError("a brace is not closed")

    def _function(self, header: str, body: Sequence[Statement]) -> Function:
        found = _HEADER.search(header)
        if found is None:
            raise ValueError(f"cannot read {header!r}")
        results = [self._variable(text) for text in split_list(found[2] or "")]
        params = [self._variable(text) for text in split_list(found[4] or "")]
        registers: list[tuple[str, int, str]] = []
        variables: list[Variable] = []
        code: list[Instruction | Label] = []
        # Names that an inner brace declares hide outer ones: each is renamed with its scope.
        scopes: list[dict[str, str]] = [{}]
        self.source = None
        for self.line, text in body:
            if text == "{":
                scopes.append(dict(scopes[-1]))
            elif text == "}":
                scopes.pop()
            elif text.endswith(":"):
                code.append(Label(scopes[-1].get(text[:-1], text[:-1])))
            elif text.startswith(".reg"):
                kind, names = text.removeprefix(".reg").split(None, 1)
                registers += [self._register(n, kind[1:], scopes) for n in split_list(names)]
            elif text.startswith(".loc "):
                parts = text.replace(",", " ").split()
                self.source = (self.files.get(parts[1], parts[1]), int(parts[2]))
            elif directive := re.match(r"\.(\w+)", text):
                if directive[1] in _SPACES:
                    variables.append(self._scoped(self._variable(text), scopes))
                elif directive[1] not in _IGNORED:
                    raise ValueError(f"unknown directive {text!r}")
            else:
                code.append(self._instruction(text, scopes[-1]))
        entry = found[1] == "entry"
        return Function(
            found[3], entry, tuple(results), tuple(params), tuple(registers), tuple(variables),
            tuple(code),
        )  # fmt: skip

    def _register(self, text: str, kind: str, scopes: list[dict[str, str]]) -> tuple[str, int, str]:
        found = _DECLARED.fullmatch(text)
        if found is None or kind not in WIDTHS:
            raise ValueError(f"cannot read the register {text!r} of type {kind}")
        name, count = found[1], int(found[2]) if found[2] else -1
        if len(scopes) > 1:
            self.scopes += 1
            inner = f"%{name.lstrip('%')}@{self.scopes}_"
            scopes[-1][name] = inner
            for number in range(max(count, 0)):
                scopes[-1][f"{name}{number}"] = f"{inner}{number}"
            name = inner
        elif not name.startswith("%"):
            scopes[-1][name] = f"%{name}"
            name = f"%{name}"
        return name, count, kind

    def _scoped(self, variable: Variable, scopes: list[dict[str, str]]) -> Variable:
        """Return a variable under a name of its own: ``param0`` is declared at every call."""
        if len(scopes) == 1:
            return variable
        self.scopes += 1
        name = scopes[-1][variable.name] = f"{variable.name}@{self.scopes}"
        return dataclasses.replace(variable, name=name)

    def _variable(self, text: str) -> Variable:
        head, _, values = text.partition("=")
        words = head.split()
        space = next((w[1:] for w in words if w[1:] in _SPACES), "param")
        # After .ptr stands the alignment of what the pointer addresses.
        aligned = ".align" in words and ".ptr" not in words
        kind = next((w[1:] for w in words if w[1:] in WIDTHS), None)
        found = _VARIABLE.search(head)
        if kind is None or found is None or ".reg" in words:
            raise ValueError(f"cannot read the declaration {text!r}")
        width = WIDTHS[kind] // 8
        align = int(words[words.index(".align") + 1]) if aligned else width
        size = width
        for extent in re.findall(r"\[\s*(\w*)\s*\]", found[2]):
            size *= int(extent) if extent else 0
        initial, addresses = _initial(values.strip(), width, size)
        return Variable(space, found[1], align, size, initial, addresses)

    def _instruction(self, text: str, names: dict[str, str]) -> Instruction:
        guard = None
        if text.startswith("@"):
            found = _GUARDED.fullmatch(text)
            if found is None:
                raise ValueError(f"cannot read {text!r}")
            guard = Register(names.get(found[2], found[2]), bool(found[1]))
            text = found[3]
        opcode, _, rest = text.partition(" ")
        name, *modifiers = opcode.split(".")
        operands = tuple(operand(part, names) for part in split_list(rest))
        return Instruction(name, tuple(modifiers), guard, operands, self.line, self.source)


def _initial(text: str, width: int, size: int) -> tuple[bytes, tuple[tuple[int, Symbol], ...]]:
    """Return the contents of a variable, and where in them addresses stand."""
    if not text:
        return b"", ()
    contents, addresses = b"", []
    for item in split_list(text.removeprefix("{").removesuffix("}")):
        value = operand(re.sub(r"generic\((.*)\)", r"\1", item), {})
        number = 0
        if isinstance(value, Symbol):
            addresses.append((len(contents), value))
        elif isinstance(value, Immediate):
            number = value.value
        else:
            raise ValueError(f"cannot read the value {item!r}")
        contents += (number & ((1 << 8 * width) - 1)).to_bytes(width, "little")
    return contents.ljust(size, b"\0"), tuple(addresses)
