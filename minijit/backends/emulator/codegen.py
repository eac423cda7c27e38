"""Writes a Python function for each basic block: its instructions as NumPy calls on whole groups.

A register is a local variable of that function, an array with one element for each thread of the
group, or of length 1 while all threads agree. Between blocks registers are raw unsigned bits; in
a block each variable keeps the type in which it was computed until another one is asked for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from minijit.backends.emulator.blocks import CARRY, Block, reads, takes_carry, writes
from minijit.backends.emulator.codegen_memory import MemoryWriter
from minijit.backends.emulator.errors import UnknownInstructionError
from minijit.backends.emulator.instructions import operation
from minijit.backends.emulator.layout import LOCAL_WINDOW, SHARED_WINDOW, Layout
from minijit.backends.emulator.operation import RAW
from minijit.backends.emulator.ptx import (
    WIDTHS,
    Immediate,
    Instruction,
    Operand,
    Pair,
    Register,
    Symbol,
    Vector,
)

__all__ = ["CompiledBlock", "compile_block"]

_NOTHING = frozenset(["membar", "fence", "nanosleep", "prefetch", "prefetchu", "pmevent"])
_MEETING = {"shfl": "shuffle", "vote": "vote", "match": "match", "redux": "reduce",
            "bar": "barrier", "barrier": "barrier", "activemask": "active"}  # fmt: skip
_BARRIER = frozenset(["sync", "red", "cta", "warp", "aligned", "popc", "and", "or", "u32", "pred"])
_MEETING_MODIFIERS = {
    "shfl": frozenset(["sync", "up", "down", "bfly", "idx", "b32"]),
    "vote": frozenset(["sync", "all", "any", "uni", "ballot", "pred", "b32"]),
    "match": frozenset(["sync", "any", "all", "b32", "b64"]),
    "redux": frozenset(["sync", "add", "min", "max", "and", "or", "xor", "u32", "s32", "b32"]),
    "bar": _BARRIER,
    "barrier": _BARRIER,
    "activemask": frozenset(["b32"]),
}


@dataclasses.dataclass(frozen=True, slots=True)
class CompiledBlock:
    """A block that can run.

    Attributes:
        run: Takes the group and the values of ``inputs``; returns the condition of the branch, or
            None, and the values of ``outputs``.
        meeting: The instruction at which threads meet, if that is what the block is.
        soft: Inputs, with their types, that may be unwritten: nothing is computed from them.
    """

    block: Block
    run: Callable[..., Any]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    meeting: Instruction | None
    soft: Mapping[str, Any]
    text: str

    @staticmethod
    def constant_or_register(operand: Operand) -> int | str:
        """Return the value of a constant operand, or the name of a register."""
        if isinstance(operand, Immediate):
            return operand.value
        assert isinstance(operand, Register)
        return operand.name


def compile_block(
    block: Block, registers: Mapping[str, int], layout: Layout, params: Iterable[str]
) -> CompiledBlock:
    """Write and compile the function of ``block``.

    Raises:
        UnknownInstructionError: it holds an instruction that the emulator does not know.
    """
    writer = _Writer(block, registers, layout, frozenset(params))
    return writer.compiled()


class _Writer(MemoryWriter):
    """Writes the function of a block."""

    def compiled(self) -> CompiledBlock:
        block = self.block
        items = [*block.instructions, *([block.branch] if block.branch else [])]
        inputs, outputs = _interface(block, items)
        arguments = [self.variable(name) for name in inputs]
        for name in inputs:
            self.types[name] = self.raw(name)
        last = _last_uses(items)
        for number, item in enumerate(block.instructions):
            self.current = item
            try:
                self.instruction(item)
            except UnknownInstructionError as error:
                where = f" at {item.source[0]}:{item.source[1]}" if item.source else ""
                raise UnknownInstructionError(f"PTX line {item.line}{where}: {error}") from None
            dead = [n for n in last.get(number, ()) if n not in block.live_out and n in self.types]
            if dead:
                self.line(f"del {', '.join(map(self.variable, dead))}")
                for name in dead:
                    del self.types[name]
        condition = "None"
        if block.branch is not None and block.branch.guard is not None:
            condition = self.value(block.branch.guard, "pred")
        results = [self.value(Register(name), self.raw(name)) for name in outputs]
        self.line(f"return {', '.join([condition, *results])},")
        text = f"def run({', '.join(['g', *arguments])}):\n" + "\n".join(self.lines)
        scope = dict(self.names)
        exec(compile(text, f"<block {block.rank[1]}>", "exec"), scope)
        meeting = block.instructions[0] if block.meeting else None
        needed = _needed(items)
        soft = {name: RAW[self.bits(name)] for name in inputs if name not in needed}
        return CompiledBlock(block, scope["run"], inputs, outputs, meeting, soft, text)

    # Instructions.

    def instruction(self, item: Instruction) -> None:
        name = item.name
        if name in _NOTHING:
            return
        if name == "mov":
            self.move(item)
        elif name == "cvta":
            self.cvta(item)
        elif name == "isspacep":
            self.is_space(item)
        elif name in ("ld", "ldu"):
            self.load(item)
        elif name == "st":
            self.store(item)
        elif name in ("atom", "red"):
            self.atomic(item)
        elif name in _MEETING:
            self.meeting(item)
        elif name == "call":
            symbols = [operand for operand in item.operands if isinstance(operand, Symbol)]
            places = ", ".join(str(self.address_of(symbol)) for symbol in symbols)
            call = f"g.call_{item.modifiers[0].strip('_')}"
            self.line(f"{call}({self.keep(item, 'i')}, {self.guard(item)}, {places})")
        elif name in ("trap", "brkpt"):
            self.line(f"g.trap({self.keep(item, 'i')}, {self.guard(item)})")
        else:
            self.compute(item)

    def compute(self, item: Instruction) -> None:
        what = operation(item)
        results = item.operands[0]
        targets = [results.first, results.second] if isinstance(results, Pair) else [results]
        sources: tuple[Operand, ...] = item.operands[1:]
        if takes_carry(item):
            sources = (*sources, CARRY)
        if "cc" in item.modifiers:
            targets.append(CARRY)
        if len(sources) != len(what.sources) or len(targets) > len(what.results):
            raise self.unknown()
        values = [self.value(o, k) for o, k in zip(sources, what.sources, strict=True)]
        code = f"{self.keep(what.compute, 'f')}({', '.join(values)})"
        if len(what.results) == 1:
            assert isinstance(targets[0], Register)
            self.assign(targets[0], code, what.results[0])
            return
        self.line(f"both = {code}")
        for place, target in enumerate(targets):
            assert isinstance(target, Register)
            self.assign(target, f"both[{place}]", what.results[place])

    def move(self, item: Instruction) -> None:
        target, source = item.operands
        kind = item.type
        raw = "pred" if kind == "pred" else f"b{WIDTHS[kind]}"
        if len(item.modifiers) != 1 or not kind:
            raise self.unknown()
        if isinstance(source, Vector):
            part = f"b{WIDTHS[kind] // len(source.parts)}"
            assert isinstance(target, Register)
            code = ""
            for place, piece in enumerate(source.parts):
                word = f"{self.value(piece, part)}.astype({self.kind(raw)})"
                shift = self.constant(Immediate(place * WIDTHS[part]), raw)
                code = f"({word} << {shift})" if not place else f"{code} | ({word} << {shift})"
            self.assign(target, code, raw)
        elif isinstance(target, Vector):
            part = f"b{WIDTHS[kind] // len(target.parts)}"
            self.line(f"whole = {self.value(source, raw)}")
            for place, piece in enumerate(target.parts):
                shift = self.constant(Immediate(place * WIDTHS[part]), raw)
                assert isinstance(piece, Register)
                self.assign(piece, f"(whole >> {shift}).astype({self.kind(part)})", part)
        else:
            assert isinstance(target, Register)
            have = raw
            if isinstance(source, Register) and not source.negated and item.guard is None:
                # Keep the type: nothing is looked at.
                have = self.types.get(source.name, self.raw(source.name))
                if WIDTHS[have] != WIDTHS[raw]:
                    have = raw
            elif isinstance(source, Immediate) and source.float_bits:
                have = kind
            self.assign(target, self.value(source, have), have)

    def cvta(self, item: Instruction) -> None:
        target, source = item.operands
        assert isinstance(target, Register)
        windows = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW, "global": 0, "const": 0}
        space = next((m for m in item.modifiers if m.split("::")[0] in windows), None)
        if space is None or item.type != "u64":
            raise self.unknown()
        code = self.value(source, "u64")
        window = windows[space.split("::")[0]]
        if window:
            sign = "-" if "to" in item.modifiers else "+"
            code = f"{code} {sign} {self.constant(Immediate(window), 'u64')}"
        self.assign(target, code, "u64")

    def is_space(self, item: Instruction) -> None:
        target, source = item.operands
        assert isinstance(target, Register)
        number = {"shared": 1, "local": 2}.get(item.modifiers[0])
        code = f"({self.value(source, 'u64')} >> {self.constant(Immediate(36), 'u64')})"
        if number is not None:
            code = f"{code} == {self.constant(Immediate(number), 'u64')}"
        elif item.modifiers[0] == "global":
            code = f"{code} > {self.constant(Immediate(2), 'u64')}"
        else:
            raise self.unknown()
        self.assign(target, code, "pred")

    # Meetings.

    def _whole_barrier(self, item: Instruction) -> None:
        """Refuse a barrier for some of the block's threads only, which is not emulated."""
        warp = "warp" in item.modifiers
        plain = [o for o in item.operands if isinstance(o, Immediate)]
        reduces = "red" in item.modifiers
        if not warp and (len(item.operands) != (3 if reduces else 1) or len(plain) != 1):
            raise self.unknown()

    def meeting(self, item: Instruction) -> None:
        if item.guard is not None or not set(item.modifiers) <= _MEETING_MODIFIERS[item.name]:
            raise self.unknown()
        method = _MEETING[item.name]
        if method == "barrier":
            self._whole_barrier(item)
            if "warp" in item.modifiers:
                (mask,) = item.operands
                self.line(f"g.warp_barrier({self.keep(item, 'i')}, {self.value(mask, 'u32')})")
                return
            if "red" not in item.modifiers:
                return
            target, *_, source = item.operands
            assert isinstance(target, Register)
            value = self.value(source, "pred")
            kind = "u32" if "popc" in item.modifiers else "pred"
            self.assign(target, f"g.barrier_vote({self.keep(item, 'i')}, {value})", kind)
            return
        if method == "active":
            (target,) = item.operands
            assert isinstance(target, Register)
            self.assign(target, "g.active_mask()", "u32")
            return
        target, *sources = item.operands
        predicate = method == "vote"
        mark = self.keep(item, "i")
        values = []
        for place, source in enumerate(sources):
            kind = "pred" if predicate and place == 0 else "b32"
            if place == 0 and method in ("match", "reduce"):
                kind = item.type
            values.append(self.value(source, kind))
        self.line(f"met = g.{method}({mark}, {', '.join(values)})")
        pair = isinstance(target, Pair)
        first = target.first if isinstance(target, Pair) else target
        assert isinstance(first, Register)
        kind = {"vote": item.type, "reduce": item.type}.get(method, "b32")
        self.assign(first, "met[0]", kind)
        if pair and isinstance(target, Pair):
            self.assign(target.second, "met[1]", "pred")


def _interface(
    block: Block, items: Iterable[Instruction]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the registers that the block takes and those that it must hand on."""
    inputs: dict[str, None] = {}
    made: dict[str, None] = {}
    for item in items:
        for register in reads(item):
            if register.name not in made:
                inputs.setdefault(register.name)
        for register in writes(item):
            made.setdefault(register.name)
    return tuple(inputs), tuple(name for name in made if name in block.live_out)


def _needed(items: Iterable[Instruction]) -> set[str]:
    """Return the registers that more happens to than staying, or being moved into a pair.

    NVVM pairs a register that nothing wrote with another one, and takes the other one out again.
    """
    found: set[str] = set()
    for item in items:
        if item.name == "mov" and isinstance(item.operands[1], Vector) and item.guard is None:
            continue
        plain = item if item.guard is None else dataclasses.replace(item, guard=None)
        found |= {register.name for register in reads(plain)}
        if item.guard is not None:
            found.add(item.guard.name)
    return found


def _last_uses(items: Iterable[Instruction]) -> dict[int, tuple[str, ...]]:
    """Return by instruction the registers that nothing after it touches in the block."""
    last: dict[str, int] = {}
    for number, item in enumerate(items):
        for register in (*reads(item), *writes(item)):
            last[register.name] = number
    found: dict[int, list[str]] = {}
    for name, number in last.items():
        found.setdefault(number, []).append(name)
    return {number: tuple(names) for number, names in found.items()}
