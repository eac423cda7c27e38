"""The kernel checker: values computed before use, on a level their operands have, in bounds."""

from __future__ import annotations

from minijit.lowering.kernel_ir import (
    Kernel,
    Level,
    Load,
    Map,
    Operand,
    Reduce,
    Role,
    Store,
    Value,
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
    defined: set[Value] = set()
    for position, statement in enumerate(kernel.body):
        try:
            _check(kernel, statement, defined)
        except KernelError as error:
            raise KernelError(f"statement {position}: {error}\n{kernel}") from None
        if not isinstance(statement, Store):
            defined.add(statement.out)


def _check(kernel: Kernel, statement: object, defined: set[Value]) -> None:
    operands: tuple[Operand | None, ...] = ()
    match statement:
        case Load():
            operands = (statement.guard,)
            _check_access(kernel, statement, Role.INPUT)
        case Map():
            operands = statement.args
        case Reduce():
            operands = statement.args
            if statement.out.level is not Level.ROW:
                raise KernelError("a reduction is on the level of rows")
            if not len(statement.args) == len(statement.accumulators) == statement.monoid.arity:
                raise KernelError("a reduction has one argument and one accumulator a component")
        case Store():
            operands = (statement.value,)
            _check_access(kernel, statement, Role.OUTPUT)
    for operand in operands:
        if not isinstance(operand, Value):
            continue
        if operand not in defined:
            raise KernelError(f"{operand.name} is used before it is computed")
        if isinstance(statement, (Load, Map)) and operand.level > statement.out.level:
            raise KernelError(f"{operand.name} exists more often than what is computed from it")


def _check_access(kernel: Kernel, access: Load | Store, role: Role) -> None:
    buffer = kernel.buffers[access.buffer]
    if buffer.role is not role:
        raise KernelError(f"buffer {buffer.name} is not for this")
    unguarded = not (isinstance(access, Load) and access.guard is not None)
    if buffer.contiguous and unguarded and kernel.ragged is None:
        low, high = access.index.bounds(kernel.extents)
        if low < 0 or high >= buffer.size:
            raise KernelError(
                f"{buffer.name}[{access.index}] reaches [{low}, {high}] of {buffer.size}"
            )
