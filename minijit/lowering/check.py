"""The kernel checker: values computed before use, on a level their operands have, in bounds."""

from __future__ import annotations

import numpy as np

from minijit.lowering.kernel_ir import (
    Branch,
    Gather,
    Kernel,
    Level,
    Load,
    Loop,
    Map,
    Node,
    Operand,
    Place,
    Product,
    Reduce,
    Role,
    Store,
    Value,
    blocks,
    outputs_of,
    walk,
)

__all__ = ["KernelError", "check_kernel"]


class KernelError(Exception):
    """A kernel is malformed: a fault of the lowering."""


def check_kernel(kernel: Kernel) -> None:
    """Verify ``kernel``.

    Raises:
        KernelError: with the statement at fault and the kernel's text.
    """
    if any(extent < 1 for extent in kernel.extents):
        raise KernelError(f"an extent is below one\n{kernel}")
    if kernel.ragged is not None and len(kernel.cols) != 1:
        raise KernelError(f"a ragged kernel has one column dimension\n{kernel}")
    for position, node in enumerate(walk(kernel.body)):
        if isinstance(node, Loop) and not 0 <= node.dim - len(kernel.extents) < len(kernel.steps):
            raise KernelError(f"statement {position}: loop {node.dim} has no number\n{kernel}")
    _check_body(kernel, kernel.body, set())


def _check_body(kernel: Kernel, body: tuple[Node, ...], defined: set[Value]) -> set[Value]:
    """Check statements in order and return what is defined after them."""
    for position, node in enumerate(body):
        try:
            if isinstance(node, Loop | Branch):
                _check_structure(kernel, node, defined)
            else:
                _check(kernel, node, defined)
        except KernelError as error:
            raise KernelError(f"statement {position}: {error}\n{kernel}") from None
        for value in outputs_of(node):
            if value in defined:
                raise KernelError(f"statement {position}: {value.name} is defined twice\n{kernel}")
            defined.add(value)
    return defined


def _check_structure(kernel: Kernel, node: Loop | Branch, defined: set[Value]) -> None:
    """Check a loop or a branch and what it holds."""
    carries: tuple[Value, ...] = ()
    wanted = [value.dtype for value in node.outs]
    if isinstance(node, Loop):
        carries = node.carries
        if (node.length is None) == (node.condition is None):
            raise KernelError("a loop has a length or a condition")
        _check_defined(node.inits, defined)
        if not [v.dtype for v in node.inits] == [v.dtype for v in carries] == wanted:
            raise KernelError("a loop carries values of other types than it begins with")
    else:
        _check_defined((node.index,), defined)
    for block in blocks(node):
        inside = _check_body(kernel, block.body, defined | set(carries))
        _check_defined(block.results, inside)
        dtypes = [result.dtype for result in block.results]
        if isinstance(node, Loop) and block is node.condition:
            if dtypes != [np.bool_]:
                raise KernelError("a condition is one bool")
        elif dtypes != wanted:
            raise KernelError(f"a block gives {dtypes}, not {wanted}")


def _check_defined(operands: tuple[Operand, ...], defined: set[Value]) -> None:
    for operand in operands:
        if isinstance(operand, Value) and operand not in defined:
            raise KernelError(f"{operand.name} is used before it is computed")


def _check(kernel: Kernel, statement: object, defined: set[Value]) -> None:
    operands: tuple[Operand | None, ...] = ()
    match statement:
        case Load():
            operands = (statement.guard,)
            _check_access(kernel, statement, Role.INPUT)
        case Gather():
            operands = (*statement.positions, statement.guard)
            _check_gather(kernel, statement)
        case Map():
            operands = statement.args
        case Reduce():
            operands = statement.args
            _check_reduction(statement)
        case Product():
            operands = () if isinstance(statement.row, Place) else (statement.row,)
            _check_product(kernel, statement)
        case Store():
            operands = (statement.value,)
            _check_access(kernel, statement, Role.OUTPUT)
    for operand in operands:
        if not isinstance(operand, Value):
            continue
        if operand not in defined:
            raise KernelError(f"{operand.name} is used before it is computed")
        if isinstance(statement, Load | Gather | Map) and operand.level > statement.out.level:
            raise KernelError(f"{operand.name} exists more often than what is computed from it")


def _check_reduction(reduce: Reduce) -> None:
    if reduce.out.level is not Level.ROW:
        raise KernelError("a reduction is on the level of rows")
    monoid, count = reduce.monoid, len(reduce.accumulators)
    if monoid.components is None and count != 1 + monoid.position:
        raise KernelError("a reduction has one accumulator a component")
    if len(reduce.args) != (count if monoid.element is None else 1 + monoid.position):
        raise KernelError("a reduction has one argument a component, or an element")


def _check_product(kernel: Kernel, product: Product) -> None:
    """Check that a product is one of a row with a matrix that rows share."""
    if len(kernel.cols) != 1 or product.out.level is not Level.CELL:
        raise KernelError("a product has the cells of a row along one dimension")
    if kernel.spans[product.dim] != product.terms:
        raise KernelError(f"a product counts {product.terms} terms by i{product.dim}")
    column = len(kernel.rows)
    for place in product.places:
        _check_access(kernel, place, Role.INPUT)
    if not set(product.matrix.index.dims) <= {column, product.dim}:
        raise KernelError("the matrix of a product is another one for each row or step")
    if isinstance(product.row, Place):
        if column in product.row.index.dims:
            raise KernelError("the row of a product differs from column to column")
    elif product.row.level is not Level.CELL or kernel.cols != (product.terms,):
        raise KernelError("the terms of a product are the cells of its row")


def _check_gather(kernel: Kernel, gather: Gather) -> None:
    if kernel.buffers[gather.buffer].role is not Role.INPUT:
        raise KernelError(f"buffer {kernel.buffers[gather.buffer].name} is not for this")
    if any(position.dtype.kind not in "iu" for position in gather.positions):
        raise KernelError("a position is an integer")
    if len(gather.positions) != len(gather.strides):
        raise KernelError("there is a stride for each position")


def _check_access(kernel: Kernel, access: Load | Place | Store, role: Role) -> None:
    buffer = kernel.buffers[access.buffer]
    if buffer.role is not role:
        raise KernelError(f"buffer {buffer.name} is not for this")
    unguarded = not (isinstance(access, Load) and access.guard is not None)
    if buffer.contiguous and unguarded and kernel.ragged is None:
        low, high = access.index.bounds(kernel.spans)
        if low < 0 or high >= buffer.size:
            raise KernelError(
                f"{buffer.name}[{access.index}] reaches [{low}, {high}] of {buffer.size}"
            )
