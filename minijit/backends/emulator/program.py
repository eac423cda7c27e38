"""A kernel ready to run: parsed, flattened, cut into blocks, and launched batch by batch."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from minijit.backends.emulator.batch import Batch, Extent
from minijit.backends.emulator.blocks import build_blocks
from minijit.backends.emulator.codegen import CompiledBlock, compile_block
from minijit.backends.emulator.counters import Counters
from minijit.backends.emulator.errors import UnknownInstructionError
from minijit.backends.emulator.image import Image
from minijit.backends.emulator.inline import GRID_BARRIER, Flat, flatten
from minijit.backends.emulator.lanes import At
from minijit.backends.emulator.layout import Layout, lay_out
from minijit.backends.emulator.listing import quoted
from minijit.backends.emulator.machine import Machine
from minijit.backends.emulator.memory import GlobalMemory
from minijit.backends.emulator.ptx import WIDTHS, Instruction

__all__ = ["Program"]

_LANES = 32768
_STEPS = 2_000_000


@dataclasses.dataclass(frozen=True, slots=True)
class Program:
    """One kernel of a PTX text.

    Attributes:
        flat: Its code without calls.
        layout: Where its variables lie.
        blocks: Its compiled blocks.
        meets_grid: Whether it has a barrier for the whole grid.
        unit: Bytes of the smallest access to shared memory, in which races are looked for.
        text: The PTX.
    """

    flat: Flat
    layout: Layout
    blocks: tuple[CompiledBlock, ...]
    unit: int
    meets_grid: bool
    text: str

    @staticmethod
    def of(text: str, entry: str, memory: GlobalMemory) -> Program:
        """Make kernel ``entry`` of a PTX text ready; its variables go into ``memory``.

        Raises:
            PtxSyntaxError: the text cannot be read.
            UnknownInstructionError: the emulator lacks an instruction.
        """
        return Program.of_image(Image.of((text,), memory), entry, memory)

    @staticmethod
    def of_image(image: Image, entry: str, memory: GlobalMemory) -> Program:
        """Make kernel ``entry`` of linked texts ready; raises as :meth:`of` does."""
        flat = flatten(image.module, entry)
        layout = lay_out(flat.variables, memory, image.layout)
        names = [variable.name for variable in flat.params]
        try:
            blocks = tuple(
                compile_block(block, flat.registers, layout, names) for block in build_blocks(flat)
            )
        except UnknownInstructionError as error:
            raise UnknownInstructionError(f"kernel {entry}, {error}") from None
        items = [item for item in flat.body if isinstance(item, Instruction)]
        meets_grid = any(item.name == "call" and GRID_BARRIER in item.modifiers for item in items)
        return Program(flat, layout, blocks, _smallest(items), meets_grid, image.module.text)

    def launch(
        self,
        memory: GlobalMemory,
        values: Sequence[bytes],
        grid: Extent,
        block: Extent,
        *,
        shared: int = 0,
        counters: Counters | None = None,
        order: np.random.Generator | None = None,
        lanes: int = _LANES,
        steps: int = _STEPS,
    ) -> None:
        """Run the kernel with parameters ``values``.

        Args:
            memory: Where the pointers among the parameters lead.
            values: The bytes of each parameter.
            grid: Blocks along x, y and z.
            block: Threads of a block along x, y and z.
            shared: Bytes of dynamic shared memory.
            counters: Where to count.
            order: Runs the blocks in an order drawn from it instead of by number.
            lanes: About how many threads run together.
            steps: How many basic blocks a batch may run before it counts as hung.

        Raises:
            EmulationError: a thread does something that is not allowed.
        """
        params = {v.name: value for v, value in zip(self.flat.params, values, strict=True)}
        memory.begin_launch()
        count = grid[0] * grid[1] * grid[2]
        numbers = np.arange(count) if order is None else order.permutation(count)
        width = -(-(block[0] * block[1] * block[2]) // 32) * 32
        together = count if self.meets_grid else max(lanes // width, 1)
        size = -(-self.layout.shared // 16) * 16 + shared if shared else self.layout.shared
        with np.errstate(all="ignore"):
            for first in range(0, count, together):
                batch = Batch(
                    memory, params, numbers[first : first + together], grid, block,
                    (size, self.unit), self.layout.local, counters,
                )  # fmt: skip
                try:
                    Machine(self.blocks, batch, steps).run()
                except At as fault:
                    self._explain(fault, batch)
        memory.end_launch()
        if counters is not None:
            counters.close()

    def _explain(self, fault: At, batch: Batch) -> NoReturn:
        item, lane = fault.instruction, fault.lane
        line = self.text.splitlines()[item.line - 1].strip()
        source = f" ({item.source[0]}:{item.source[1]})" if item.source else ""
        written = quoted(self.text, *item.source) if item.source else None
        quote = f"\n  which comes from: {written}" if written else ""
        thread = _coordinates(int(batch.thread[lane]), batch.extent)
        block = _coordinates(int(batch.numbers[batch.block[lane]]), batch.grid)
        raise fault.kind(
            f"kernel {self.flat.name}, block {block}, thread {thread}: {fault.message}\n"
            f"  PTX line {item.line}{source}: {line}{quote}"
        ) from None


def _coordinates(number: int, extent: Extent) -> Any:
    found = []
    for size in extent:
        found.append(number % size)
        number //= size
    return found[0] if extent[1:] == (1, 1) else tuple(found)


def _smallest(items: Sequence[Instruction]) -> int:
    """Return the bytes of the smallest access that may go to shared memory, at most 8."""
    sizes = [8]
    for item in items:
        if item.name in ("ld", "st", "atom", "red") and item.type:
            spaces: set[str] = {m.split("::")[0] for m in item.modifiers}
            if not spaces & {"global", "local", "param", "const"}:
                sizes.append(WIDTHS[item.type] // 8)
    return min(sizes)
