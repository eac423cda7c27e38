"""Where the variables of a kernel lie: offsets in shared and local memory, global addresses."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from minijit.backends.emulator.errors import EmulationError
from minijit.backends.emulator.memory import GlobalMemory
from minijit.backends.emulator.ptx import Variable

__all__ = ["CODE_WINDOW", "LOCAL_WINDOW", "SHARED_WINDOW", "Layout", "lay_out"]

SHARED_WINDOW = 1 << 36
LOCAL_WINDOW = 2 << 36
CODE_WINDOW = 3 << 36
"""Where generic addresses find the shared memory of a block and the local memory of a thread;
addresses of functions."""


@dataclasses.dataclass(frozen=True, slots=True)
class Layout:
    """Addresses of variables, each in its own space.

    Attributes:
        addresses: By name, those of parameters of the kernel excepted.
        spaces: By name.
        shared: Bytes of shared memory of a block without the dynamic part.
        local: Bytes of local memory of a thread.
        owners: Arrays that hold what is global or constant; they must stay alive.
    """

    addresses: Mapping[str, int]
    spaces: Mapping[str, str]
    shared: int
    local: int
    owners: tuple[Any, ...]


def lay_out(
    variables: Sequence[Variable], memory: GlobalMemory, placed: Layout | None = None
) -> Layout:
    """Give every variable its place; global and constant ones are put into ``memory``.

    Variables that ``placed`` has stay where they are.
    """
    addresses: dict[str, int] = dict(placed.addresses) if placed else {}
    variables = [variable for variable in variables if variable.name not in addresses]
    sizes = {"shared": 0, "local": 0}
    owners = []
    # What the launch sizes, the dynamic part, comes after everything else.
    for variable in sorted(variables, key=lambda v: v.size == 0):
        # A parameter of a device function lives in the thread that calls it.
        space = "local" if variable.space == "param" else variable.space
        if space in sizes:
            place = -(-sizes[space] // variable.align) * variable.align
            addresses[variable.name] = place
            sizes[space] = place + variable.size
        elif space in ("global", "const"):
            data = np.zeros(max(variable.size, 1), np.uint8)
            data[: len(variable.initial)] = np.frombuffer(variable.initial, np.uint8)
            data.flags.writeable = space == "global"
            addresses[variable.name] = memory.address(data)
            owners.append(data)
        else:
            raise EmulationError(f"a variable in {space} memory")
    by_name = {variable.name: data for variable, data in _pairs(variables, owners)}
    for variable in variables:
        for offset, symbol in variable.addresses:
            target = by_name[variable.name]
            writeable, target.flags.writeable = target.flags.writeable, True
            address = addresses[symbol.name] + symbol.offset
            target[offset : offset + 8] = np.frombuffer(address.to_bytes(8, "little"), np.uint8)
            target.flags.writeable = writeable
    spaces = dict(placed.spaces) if placed else {}
    spaces |= {v.name: "local" if v.space == "param" else v.space for v in variables}
    kept = placed.owners if placed else ()
    return Layout(addresses, spaces, sizes["shared"], sizes["local"], (*kept, *owners))


def _pairs(variables: Sequence[Variable], owners: Sequence[Any]) -> list[tuple[Variable, Any]]:
    ordered = sorted(variables, key=lambda v: v.size == 0)
    kept = [v for v in ordered if v.space in ("global", "const")]
    return list(zip(kept, owners, strict=True))
