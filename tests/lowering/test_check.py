"""The kernel checker refuses what no schedule could run."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from minijit.graph.few_rows import FewRows
from minijit.graph.index import Affine
from minijit.lowering.check import KernelError, check_kernel
from minijit.lowering.demand import Program
from minijit.lowering.kernel_ir import Kernel, Level, Load, Map, Reduce, Role, Store
from minijit.lowering.lower import lower_group
from minijit.lowering.partition import partition
from minijit.runtime.pipeline import optimize
from tests.transforms.random_programs import trace


def softened(x: Any) -> Any:
    return [x - x.max(1, keepdims=True)]


@pytest.fixture
def kernel() -> Kernel:
    """rows=(4,) cols=(6,): load, reduce, sub, store."""
    program = Program(optimize(trace(softened, [np.ones((4, 6), np.float32)])))
    parts = partition(program, few_rows=FewRows(2))
    (group,) = parts.steps
    result = lower_group(program, group, parts.stored, {}, "k").kernel
    check_kernel(result)
    assert [type(s) for s in result.body] == [Load, Reduce, Map, Store]
    return result


def changed(kernel: Kernel, position: int, **fields: Any) -> Kernel:
    body = list(kernel.body)
    body[position] = dataclasses.replace(body[position], **fields)
    return dataclasses.replace(kernel, body=tuple(body))


def refuse(kernel: Kernel, message: str) -> None:
    with pytest.raises(KernelError, match=message) as caught:
        check_kernel(kernel)
    assert "kernel k rows=(4,)" in str(caught.value)


def test_order(kernel: Kernel) -> None:
    load, reduce, sub, store = kernel.body
    body = (load, sub, reduce, store)
    refuse(dataclasses.replace(kernel, body=body), "statement 1: v1 is used before it is computed")
    refuse(dataclasses.replace(kernel, body=kernel.body[1:]), "v0 is used before")


def test_extents(kernel: Kernel) -> None:
    refuse(dataclasses.replace(kernel, cols=(0,)), "an extent is below one")
    refuse(dataclasses.replace(kernel, cols=(2, 3), ragged=5), "one column dimension")


def test_bounds(kernel: Kernel) -> None:
    beyond = Affine(1, ((0, 6), (1, 1)))
    refuse(changed(kernel, 0, index=beyond), r"x0\[.*\] reaches \[1, 24\] of 24")
    refuse(changed(kernel, 3, index=Affine(-1)), r"reaches \[-1, -1\]")


def test_roles(kernel: Kernel) -> None:
    refuse(changed(kernel, 0, buffer=1), "is not for this")
    refuse(changed(kernel, 3, buffer=0), "is not for this")
    assert [b.role for b in kernel.buffers] == [Role.INPUT, Role.OUTPUT]


def test_levels(kernel: Kernel) -> None:
    reduce, sub = kernel.body[1], kernel.body[2]
    assert isinstance(reduce, Reduce)
    assert isinstance(sub, Map)
    on_row = dataclasses.replace(sub.out, level=Level.ROW)
    refuse(changed(kernel, 2, out=on_row), "v0 exists more often than what is computed")
    in_cell = dataclasses.replace(reduce.out, level=Level.CELL)
    refuse(changed(kernel, 1, out=in_cell), "a reduction is on the level of rows")


def test_components_of_a_reduction(kernel: Kernel) -> None:
    reduce = kernel.body[1]
    assert isinstance(reduce, Reduce)
    refuse(changed(kernel, 1, accumulators=()), "one accumulator a component")
    refuse(changed(kernel, 1, args=reduce.args * 2), "one argument a component")
