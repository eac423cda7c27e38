"""The text form of statements of the kernel IR."""

from __future__ import annotations

from minijit.graph.dtypes import short_name
from minijit.lowering.statements import (
    Branch,
    Gather,
    Guard,
    Index,
    Load,
    Loop,
    Map,
    Node,
    Operand,
    Place,
    Product,
    Read,
    Reduce,
    Statement,
    Store,
    Value,
    blocks,
)

__all__ = ["statement_lines"]


def statement_lines(statement: Node) -> list[str]:
    """Return the text of a statement, with those inside it indented."""
    match statement:
        case Loop():
            pairs = zip(statement.carries, statement.inits, strict=True)
            carried = ", ".join(f"{_typed(c)} = {_operand(i)}" for c, i in pairs)
            count = "" if statement.length is None else f" i{statement.dim} < {statement.length}"
            asked = "while any" if statement.together else "while"
            heads = [asked, "do"] if statement.condition else ["do"]
            lines = [f"loop{count} with {carried}"]
        case Branch():
            heads = [f"case {number}" for number in range(len(statement.blocks))]
            lines = [f"branch {_operand(statement.index)}"]
        case _:
            return [_statement(statement)]
    for head, block in zip(heads, blocks(statement), strict=True):
        lines.append(f"  {head}")
        lines += [f"    {line}" for inner in block.body for line in statement_lines(inner)]
        lines.append(f"    -> {', '.join(map(_operand, block.results))}")
    return [*lines, f"  give {', '.join(map(_typed, statement.outs))}"]


def _operand(operand: Operand) -> str:
    return (
        operand.name
        if isinstance(operand, Value)
        else f"{operand.value}:{short_name(operand.dtype)}"
    )


def _place(place: Place) -> str:
    return f"b{place.buffer}[{place.index}]"


def _typed(value: Value) -> str:
    return f"{value.name}: {short_name(value.dtype)}"


def _statement(statement: Statement) -> str:
    if isinstance(statement, Store):
        return f"     store b{statement.buffer}[{statement.index}] = {_operand(statement.value)}"
    out = statement.out
    match statement:
        case Load():
            code = f"load b{statement.buffer}[{statement.index}]"
            if statement.guard is not None:
                code += f" if {_operand(statement.guard)}"
        case Gather():
            place = [str(statement.index)]
            terms = zip(statement.strides, statement.positions, strict=True)
            place += [f"{stride}*{_operand(position)}" for stride, position in terms]
            code = f"gather b{statement.buffer}[{' + '.join(place)}]"
            if statement.guard is not None:
                code += f" if {_operand(statement.guard)}"
        case Read():
            code = f"argument a{statement.argument}"
        case Index():
            code = f"index {statement.index}"
        case Guard():
            code = "guard " + " and ".join(
                f"{low} <= {e} < {high}" for e, low, high in statement.conditions
            )
        case Map():
            code = " ".join([statement.op.name, *map(_operand, statement.args)])
        case Product():
            row = _place(statement.row) if isinstance(statement.row, Place) else statement.row.name
            code = f"product {row} {_place(statement.matrix)} over i{statement.dim}"
            code += f" < {statement.terms}"
        case Reduce():
            code = " ".join(["reduce", statement.monoid.name, *map(_operand, statement.args)])
    return f"{out.level.name.lower():6s} {out.name}: {short_name(out.dtype)} = {code}"
