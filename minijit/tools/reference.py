"""Writes the reference of primitives from their declarations: `python -m minijit.tools.reference`.

Without an argument the page goes to standard output; with one, into that file.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from minijit.extend import Primitive, all_primitives
from minijit.graph.aval import ShapedArray
from minijit.graph.dtypes import canonical_dtype
from minijit.graph.primitive import Kind

__all__ = ["main", "primitives_page"]

_FUSED = {
    Kind.ELEMENTWISE: "yes",
    Kind.REDUCTION: "yes",
    Kind.VIEW: "yes, as an index",
    Kind.PIECEWISE: "yes, by conditions on the index",
    Kind.INDEX: "yes",
    Kind.GATHER: "yes; its first operand is in memory",
    Kind.LIBRARY: "no, run by NumPy or CuPy",
    Kind.CALL: "inlined",
    Kind.LOOP: "where its steps work on elements or rows",
    Kind.BRANCH: "where its branches work on elements or rows",
}
_ANY = "any"
_KINDS = {
    "int": ("int8", "int16", "int32", "int64"),
    "uint": ("uint8", "uint16", "uint32", "uint64"),
    "float": ("float16", "float32", "float64"),
}
_NAMES = ("bool", *(name for names in _KINDS.values() for name in names))

_HEAD = """\
<!-- Written by `python -m minijit.tools.reference docs/reference/primitives.md`. -->
# Primitives

The operations that programs are made of; `minijit.numpy`, NumPy's and CuPy's functions are built
from them. Each is declared once, in `minijit/ops/`. What it computes with is what NumPy's ufunc of
the third column has loops for; other operands are cast first, as NumPy casts them. `int` stands for
int8 to int64, `uint` for uint8 to uint64, `float` for float16 to float64.

| name | kind | NumPy | operands → result | fused | |
|---|---|---|---|---|---|
"""


def primitives_page(primitives: Iterable[Primitive]) -> str:
    """Return the page, a row for each primitive, in order of their names."""
    ordered = sorted(primitives, key=lambda primitive: primitive.name)
    return _HEAD + "\n".join(map(_row, ordered)) + "\n"


def _row(primitive: Primitive) -> str:
    ufunc = f"`{primitive.ufunc.__name__}`" if primitive.ufunc else ""
    cells = (
        f"`{primitive.name}`",
        primitive.kind.value,
        ufunc,
        _types(primitive),
        _FUSED[primitive.kind],
        primitive.doc.replace("|", "\\|"),
    )
    return f"| {' | '.join(cells)} |"


def _types(primitive: Primitive) -> str:
    """Return the types that the primitive computes with, those of one result together."""
    loops = [
        (operands[0] if len(set(operands)) == 1 else "·".join(operands), result)
        for operands, result in _loops(primitive)
    ]
    if loops and all(operands == result for operands, result in loops):
        loops = [(operands, "same") for operands, _ in loops]
    by_result: dict[str, list[str]] = {}
    for operands, result in loops:
        by_result.setdefault(result, []).append(operands)
    parts = (f"{', '.join(_shortened(names))} → {result}" for result, names in by_result.items())
    return "; ".join(parts) or _ANY


def _loops(primitive: Primitive) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the operand and result dtypes that the primitive's own type rule accepts."""
    if primitive.kind is Kind.ELEMENTWISE and primitive.ufunc is not None:
        codes = (loop.partition("->")[0] for loop in primitive.ufunc.types)
        candidates = [tuple(np.dtype(code).name for code in loop) for loop in codes]
    elif primitive.kind is Kind.ELEMENTWISE:
        candidates = [(name,) * len(primitive.samples) for name in _NAMES if primitive.samples]
    elif primitive.kind is Kind.REDUCTION:
        candidates = [(name,) for name in _NAMES]
    else:
        return
    params = {"axes": (0,)} if primitive.kind is Kind.REDUCTION else {}
    for names in dict.fromkeys(candidates):
        if set(names) <= set(_NAMES):
            avals = [ShapedArray((1,), canonical_dtype(name)) for name in names]
            try:
                result = primitive.abstract_eval(*avals, **params)
            except TypeError:
                continue
            yield names, result.dtype.name


def _shortened(names: Sequence[str]) -> list[str]:
    """Write `int` for all signed integers, and so on."""
    left = list(dict.fromkeys(names))
    for kind, members in _KINDS.items():
        if set(members) <= set(left):
            left[left.index(members[0])] = kind
            left = [name for name in left if name not in members]
    return left


def main(argv: Sequence[str]) -> int:
    """Write the page to the file that is named, or print it."""
    page = primitives_page(all_primitives())
    if argv:
        Path(argv[0]).write_text(page)
    else:
        print(page, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
