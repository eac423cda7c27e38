"""Values under construction refuse what would silently change a type."""

from __future__ import annotations

import pytest
from llvmlite import ir
from numba import njit
from numba.core.errors import TypingError

from minijit.kernels.math import CPU_FUNCTIONS
from minijit.kernels.math.intrinsics import bits, gather, select, to_float64
from minijit.kernels.math.value import FLOAT32, FLOAT64, Value
from minijit.lowering.symbols import Symbol, resolve


@pytest.fixture
def x() -> Value:
    module = ir.Module()
    function = ir.Function(module, ir.FunctionType(FLOAT32, [FLOAT32]), "f")
    return Value(ir.IRBuilder(function.append_basic_block()), function.args[0])


def test_a_number_takes_the_type_of_the_value(x: Value) -> None:
    assert (x * 0.1).kind == FLOAT32
    assert (1 / x).kind == FLOAT32
    assert (bits(x) + 1).kind.width == 32


def test_mixed_types_are_refused(x: Value) -> None:
    with pytest.raises(TypeError, match="float meets double"):
        x + to_float64(x)
    with pytest.raises(TypeError, match="float"):
        bits(x) + 1.5
    with pytest.raises(TypeError, match="no such operator"):
        x & x
    with pytest.raises(TypeError, match="value on one side"):
        select(x > 0.0, 1.0, 2.0)


def test_a_value_has_no_truth(x: Value) -> None:
    with pytest.raises(TypeError, match="select"):
        bool(x > 0.0)


def test_equal_tables_are_one_constant(x: Value) -> None:
    for _ in range(2):
        gather((1.0, 2.0), bits(x) & 1)
    gather((1.0, 3.0), bits(x) & 1)
    tables = [v for v in x.builder.module.global_values if isinstance(v, ir.GlobalVariable)]
    assert len(tables) == 2
    assert all(table.initializer.type.element == FLOAT64 for table in tables)


def test_a_function_takes_its_own_type_only() -> None:
    function = resolve(Symbol(*CPU_FUNCTIONS["exp", "float32"]))

    @njit
    def caller(x):
        return function(x)

    with pytest.raises(TypingError, match="takes float32, not float64"):
        caller(1.0)
