"""Writes loops, branches and what is the same for all lanes; targets write the loops over lanes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from minijit.lowering.kernel_ir import Loop, Operand, Product, Statement, Store
from minijit.lowering.source import Emitter
from minijit.lowering.structure import Cases, Item, Lanes, Once, Same, Steps, Structure

__all__ = ["StructureWriter"]


class StructureWriter:
    """Writes the items of a structure.

    Attributes:
        structure: What is written.
        emitter: Writes statements and collects the code.
    """

    structure: Structure
    emitter: Emitter

    # What targets differ in.

    def lanes(self, item: Lanes) -> None:
        """Write one loop over the lanes."""
        raise NotImplementedError

    def product(self, item: Product) -> None:
        """Write a product of the rows of all lanes."""
        raise NotImplementedError

    def store_once(self, store: Store) -> None:
        """Write a store of what is the same for all lanes."""
        raise NotImplementedError

    def head(self, node: Loop) -> str:
        """Return the head of a loop over steps; what has to stand before it is written."""
        raise NotImplementedError

    def any_lane(self, holds: Operand) -> str:
        """Return whether a bool holds for a lane; what finds out is written."""
        raise NotImplementedError

    def begin_step(self, item: Steps) -> None:
        """Write what a step begins with, once it is known that there is one."""

    def end_step(self, node: Loop) -> None:
        """Write what a step ends with."""

    # What they share.

    def items(self, items: Sequence[Item]) -> None:
        """Write items in order."""
        for item in items:
            match item:
                case Once():
                    self._once(item.statement)
                case Lanes():
                    self.lanes(item)
                case Product():
                    self.product(item)
                case Steps():
                    self._steps(item)
                case Cases():
                    self._cases(item)

    def same(self, same: Same) -> None:
        """Write another name for a value."""
        self.emitter.writer.line(f"{same.out.name} = {self.emitter.operand(same.source)}")

    def _once(self, statement: Statement | Same) -> None:
        match statement:
            case Same():
                self.same(statement)
            case Store():
                self.store_once(statement)
            case _:
                self.emitter.statement(statement)

    def _steps(self, item: Steps) -> None:
        """Write a loop; carries that are the same for all lanes are variables."""
        node, line, code = item.node, self.emitter.writer.line, self.emitter.operand
        rows = zip(node.carries, node.inits, node.body.results, node.outs, strict=True)
        shared = [row for row in rows if row[0] not in self.structure.varying]
        for carry, init, _, _ in shared:
            line(f"{carry.name} = {code(init)}")
        changed = [(carry.name, code(new)) for carry, _, new, _ in shared if carry != new]
        with self._block(self.head(node), node.line):
            if node.condition is not None:
                self.items(item.condition)
                holds = self.any_lane if node.together else code
                with self.emitter.writer.block(f"if not {holds(node.condition.results[0])}:"):
                    line("break")
            self.begin_step(item)
            self.items(item.body)
            if changed:
                names, results = (", ".join(column) for column in zip(*changed, strict=True))
                line(f"{names} = {results}")
            self.end_step(node)
        for carry, _, _, out in shared:
            line(f"{out.name} = {carry.name}")

    def _cases(self, item: Cases) -> None:
        index, last = self.emitter.operand(item.node.index), len(item.blocks) - 1
        for number, block in enumerate(item.blocks):
            if last == 0:
                self.items(block)
                continue
            word = "if" if number == 0 else "elif"
            head = f"{word} {index} == {number}:" if number < last else "else:"
            with self._block(head, item.node.line if number == 0 else ""):
                self.items(block)

    @contextlib.contextmanager
    def _block(self, head: str, comment: str) -> Iterator[None]:
        """Open a block that may stay empty."""
        writer = self.emitter.writer
        with writer.block(head, comment):
            before = writer.count
            yield
            if writer.count == before:
                writer.line("pass")
