"""PTX texts linked together: their functions by name, their global variables in memory once."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from minijit.backends.emulator.layout import CODE_WINDOW, Layout, lay_out
from minijit.backends.emulator.memory import GlobalMemory
from minijit.backends.emulator.parser import parse
from minijit.backends.emulator.ptx import Module

__all__ = ["Image"]


@dataclasses.dataclass(frozen=True, slots=True)
class Image:
    """What a driver makes of a module: several kernels that share their global variables.

    Attributes:
        module: All functions and variables.
        layout: Where its functions, and its global and constant variables lie.
    """

    module: Module
    layout: Layout

    @staticmethod
    def of(texts: Sequence[str], memory: GlobalMemory) -> Image:
        """Link PTX texts and put their variables into ``memory``.

        Raises:
            PtxSyntaxError: a text cannot be read.
        """
        module = parse("\n".join(texts))
        shared = [v for v in module.variables if v.space in ("global", "const")]
        functions = {f.name: CODE_WINDOW + 16 * n for n, f in enumerate(module.functions)}
        placed = Layout(functions, dict.fromkeys(functions, "code"), 0, 0, ())
        return Image(module, lay_out(shared, memory, placed))

    def symbol(self, name: str) -> tuple[int, int]:
        """Return the address and the size of a global variable; ``KeyError`` if there is none."""
        sizes = {variable.name: variable.size for variable in self.module.variables}
        return self.layout.addresses[name], sizes[name]
