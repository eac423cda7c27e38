"""All instructions that compute: importing this module fills the table of operations."""

from __future__ import annotations

from minijit.backends.emulator import (  # noqa: F401 - importing them declares the instructions
    approximate,
    bits,
    carry,
    compare,
    convert,
    floating,
    integer,
)
from minijit.backends.emulator.operation import FACTORIES, Operation, operation

__all__ = ["FACTORIES", "Operation", "operation"]
