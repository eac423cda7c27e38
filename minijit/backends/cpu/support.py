"""What the code generator calls without being asked: found here, to be refused before it is run.

Where the processor lacks an instruction, LLVM's code generator emits a call of a function of the
compiler's own library, which is not in the process: the call would jump to address zero.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

__all__ = ["undefined_symbols"]

_ELF_SYMBOLS = 2  # SHT_SYMTAB
_POSITION_TABLE = "_GLOBAL_OFFSET_TABLE_"  # made by whoever loads the code


def undefined_symbols(code: bytes) -> Iterator[str]:
    """Iterate over the names that 64-bit ELF object code needs from elsewhere.

    Other formats yield nothing. Source: System V ABI, chapters "Sections" and "Symbol Table".
    """
    if code[:5] != b"\x7fELF\x02":
        return
    (sections_at,) = struct.unpack_from("<Q", code, 0x28)
    size, count = struct.unpack_from("<HH", code, 0x3A)
    headers = [
        struct.unpack_from("<IIQQQQIIQQ", code, sections_at + size * number)
        for number in range(count)
    ]
    for _, kind, _, _, start, length, link, _, _, entry in headers:
        if kind != _ELF_SYMBOLS:
            continue
        names_at = headers[link][4]
        for place in range(start + entry, start + length, entry):  # the first entry is empty
            name, _, _, section = struct.unpack_from("<IBBH", code, place)
            if section == 0:
                end = code.index(b"\0", names_at + name)
                text = code[names_at + name : end].decode()
                if text != _POSITION_TABLE:
                    yield text
