"""Instructions on memory as calls of methods of the group."""

from __future__ import annotations

import numpy as np

from minijit.backends.emulator.atomics import SHORT_UPDATES
from minijit.backends.emulator.codegen_values import ValueWriter
from minijit.backends.emulator.operation import NUMPY, RAW
from minijit.backends.emulator.ptx import (
    WIDTHS,
    Address,
    Immediate,
    Instruction,
    Operand,
    Register,
    Symbol,
    Vector,
)

__all__ = ["MemoryWriter"]

_SPACES = {"global", "shared", "local", "param", "const"}
_HINTS = {
    "weak", "volatile", "relaxed", "acquire", "release", "acq_rel", "cta", "gpu", "sys", "cluster",
    "nc", "ca", "cg", "cs", "lu", "cv", "wb", "wt", "v2", "v4", "v8", "unified", "noftz",
}  # fmt: skip
_ATOMICS = frozenset(["add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"])


class MemoryWriter(ValueWriter):
    """Writes loads, stores and atomic operations."""

    def place(self, operand: Operand) -> str:
        """Return code of an address."""
        if not isinstance(operand, Address):
            raise self.unknown()
        base, offset = operand.base, operand.offset
        if isinstance(base, Register):
            kind = "u64" if self.bits(base.name) == 64 else "u32"
            code = self.value(base, kind)
            if offset:
                code = f"{code} + {self.constant(Immediate(offset), kind)}"
            return code if kind == "u64" else f"({code}).astype({self.kind('u64')})"
        number = self.address_of(base) if isinstance(base, Symbol) else base.value
        return self.constant(Immediate(number + offset), "u64")

    def access(self, item: Instruction) -> tuple[str, int]:
        """Return the space of an access and its elements."""
        spaces = [m.split("::")[0] for m in item.modifiers if m.split("::")[0] in _SPACES]
        count = next((int(m[1:]) for m in item.modifiers if m in ("v2", "v4", "v8")), 1)
        for modifier in item.modifiers:
            known = modifier in _HINTS or modifier in NUMPY or modifier.startswith(("L1::", "L2::"))
            if not known and modifier.split("::")[0] not in _SPACES:
                raise self.unknown()
        return (spaces[0] if spaces else "generic"), count

    def load(self, item: Instruction) -> None:
        """Write a load."""
        target, address = item.operands
        space, count = self.access(item)
        kind = item.type
        parts = target.parts if isinstance(target, Vector) else (target,)
        if len(parts) != count or kind == "pred":
            raise self.unknown()
        if space == "param":
            assert isinstance(address, Address)
            if isinstance(address.base, Symbol) and address.base.name in self.params:
                for place, part in enumerate(parts):
                    assert isinstance(part, Register)
                    offset = address.offset + place * WIDTHS[kind] // 8
                    known = self.kind(kind)
                    self.assign(part, f"g.param({address.base.name!r}, {offset}, {known})", kind)
                return
            space = "local"
        read_only = "nc" in item.modifiers
        raw = f"b{WIDTHS[kind]}"
        mark = self.keep(item, "i")
        method = f"load_{'global' if space == 'const' else space}"
        extra = f", {read_only}" if method == "load_global" else ""
        code = (
            f"g.{method}({mark}, {self.place(address)}, {WIDTHS[kind] // 8}, {count}, "
            f"{self.guard(item)}{extra})"
        )
        self.line(f"loaded = {code}")
        for place, part in enumerate(parts):
            assert isinstance(part, Register)
            self.assign(part, self.converted(f"loaded[{place}]", raw, kind), kind)

    def store(self, item: Instruction) -> None:
        """Write a store."""
        address, value = item.operands
        space, count = self.access(item)
        parts = value.parts if isinstance(value, Vector) else (value,)
        if len(parts) != count:
            raise self.unknown()
        raw = f"b{WIDTHS[item.type]}"
        values = ", ".join(self.value(self.typed(part, item.type), raw) for part in parts)
        method = "store_local" if space == "param" else f"store_{space}"
        width = WIDTHS[item.type] // 8
        self.line(
            f"g.{method}({self.keep(item, 'i')}, {self.place(address)}, {width}, ({values},), "
            f"{self.guard(item)})"
        )

    def typed(self, operand: Operand, kind: str) -> Operand:
        """Return a number that is written without a point as the float that it stands for."""
        if isinstance(operand, Immediate) and kind in ("f32", "f64") and not operand.float_bits:
            value = np.array([float(operand.value)], NUMPY[kind])
            return Immediate(int(value.view(RAW[WIDTHS[kind]])[0]), WIDTHS[kind])
        return operand

    def atomic(self, item: Instruction) -> None:
        """Write an atomic operation."""
        has_result = item.name == "atom"
        target = item.operands[0] if has_result else Register("_")
        address, *values = item.operands[has_result:]
        kind = item.type
        assert isinstance(target, Register)
        names = [m for m in item.modifiers if m in _ATOMICS]
        spaces = [m.split("::")[0] for m in item.modifiers if m.split("::")[0] in _SPACES]
        for modifier in item.modifiers:
            allowed = modifier in _HINTS or modifier in NUMPY or modifier in _ATOMICS
            if not allowed and modifier.split("::")[0] not in _SPACES:
                raise self.unknown()
        if len(names) != 1 or kind == "pred":
            raise self.unknown()
        (name,) = names
        if kind in ("f16x2", "bf16", "bf16x2"):
            name = f"{name}.{kind}"
            if name not in SHORT_UPDATES:
                raise self.unknown()
        codes = ", ".join(self.value(value, kind) for value in values)
        wanted = target.name != "_"
        self.line(
            f"old = g.atomic({self.keep(item, 'i')}, {(spaces or ['generic'])[0]!r}, "
            f"{name!r}, {self.place(address)}, ({codes},), {self.guard(item)}, {wanted})"
        )
        if wanted:
            self.assign(target, "old", kind)

    def guard(self, item: Instruction) -> str:
        """Return code of the condition under which an instruction runs."""
        return "None" if item.guard is None else self.value(item.guard, "pred")
