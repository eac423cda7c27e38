"""What the code generator calls without being asked: supplied here, or refused before it is run.

Where the processor lacks an instruction, LLVM's code generator emits a call of a function of the
compiler's own library, which is not in the process: the call would jump to address zero.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

__all__ = ["HALF_SUPPORT", "undefined_symbols"]

HALF_SUPPORT = """
; A double rounded to half at once: round to odd as a float first (Boldo and Melquiond 2008).
define half @__truncdfhf2(double %x) {
  %near = fptrunc double %x to float
  %back = fpext float %near to double
  %bits = bitcast float %near to i32
  %last = and i32 %bits, 1
  %even = icmp eq i32 %last, 0
  %size = call double @llvm.fabs.f64(double %x)
  %reached = call double @llvm.fabs.f64(double %back)
  %beyond = fcmp ogt double %size, %reached
  %below = fcmp olt double %size, %reached
  %inexact = or i1 %beyond, %below
  %step = select i1 %beyond, i32 1, i32 -1
  %stepped = add i32 %bits, %step
  %moves = and i1 %inexact, %even
  %odd = select i1 %moves, i32 %stepped, i32 %bits
  %float = bitcast i32 %odd to float
  %half = fptrunc float %float to half
  ret half %half
}
declare double @llvm.fabs.f64(double)
"""
"""LLVM assembly that is added to modules which use float16, after they were optimised."""

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
