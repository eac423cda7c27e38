"""Long bodies on the CPU: each operation once for several vectors, where that is safe and pays."""

from __future__ import annotations

import re

import llvmlite.binding as llvm
import numpy as np
import pytest

import minijit
from minijit.backends.cpu.compiler import assembly, llvm_code
from minijit.kernels.math.outlined import wide_bytes
from minijit.lowering.cpu import emit_cpu
from minijit.lowering.kernel_ir import Kernel
from tests.lowering.kernel_builder import Builder

LONG = 200
KINDS = {np.float32: "float", np.float64: "double"}


def chain(build: Builder, op: str, dtype: type, strides: list[int]) -> object:
    """The value of a long chain of operations on one element."""
    value = build.load(strides, dtype)
    step = build.load(strides, dtype)
    for _ in range(LONG):
        value = build.map(op, value, step) if op != "exp" else build.map(op, value)
    return value


def long_map(op: str, dtype: type = np.float32, rows: int = 4096) -> Kernel:
    build = Builder((rows,))
    build.store(chain(build, op, dtype, [1]), [1])
    return build.kernel()


def long_rows(cols: int, monoid: str | None, dtype: type = np.float64) -> Kernel:
    build = Builder((64,), (cols,))
    value = chain(build, "add", dtype, [cols, 1])
    if monoid is None:
        build.store(
            build.map("sub", value, build.reduce("max", build.load([cols, 1], dtype))), [cols, 1]
        )
    else:
        build.store(build.reduce(monoid, value), [1])
    return build.kernel()


def additions(kernel: Kernel, dtype: type) -> dict[int, int]:
    """How many additions of vectors there are, by the number of their lanes."""
    found = re.findall(rf"= fadd (?:\w+ )*<(\d+) x {KINDS[dtype]}>", llvm_code(emit_cpu(kernel)))
    return {lanes: found.count(str(lanes)) for lanes in sorted(map(int, set(found)))}


@pytest.mark.parametrize("dtype", KINDS)
def test_an_operation_of_a_long_body_stands_once_for_four_vectors(dtype: type) -> None:
    lanes = wide_bytes() // np.dtype(dtype).itemsize
    assert additions(long_map("add", dtype), dtype) == {lanes: LONG}


def test_functions_are_called_for_four_vectors() -> None:
    lanes = wide_bytes() // 4
    calls = re.findall(r"call <(\d+) x float> @minijit\.exp", llvm_code(emit_cpu(long_map("exp"))))
    assert calls == [str(lanes)] * LONG


def test_several_functions_are_called_in_one_kernel() -> None:
    def program(x: np.ndarray) -> np.ndarray:
        for _ in range(10):
            x = np.tanh(np.exp(-x))
        return x

    x = np.linspace(-1, 1, 4099, dtype=np.float32)
    jitted = minijit.jit(program)
    np.testing.assert_allclose(jitted(x), program(x), rtol=2e-5)
    (kernel,) = jitted.lower(x).compile().kernels()
    for name in ("exp", "tanh"):
        assert f"{name}_float32: called" in kernel.source


def test_where_much_would_be_left_vectors_are_those_of_the_processor() -> None:
    lanes = wide_bytes() // 8
    assert max(additions(long_rows(1024, None), np.float64)) == lanes
    assert max(additions(long_rows(1000, None), np.float64)) == lanes // 4
    assert max(additions(long_rows(100_000, None), np.float64)) == lanes


def test_the_order_of_a_product_stays_that_of_its_elements() -> None:
    code = llvm_code(emit_cpu(long_rows(1024, "prod")))
    assert "reduce.fmul" not in code
    assert not re.search(r"phi <\d+ x double>", code)


def test_what_has_no_vector_instruction_is_not_repeated_for_each_lane() -> None:
    code = llvm_code(emit_cpu(long_map("floor_divide", np.int64)))
    assert len(re.findall(r"= sdiv ", code)) <= 4 * LONG


def test_a_choice_between_variables_takes_no_branches() -> None:
    code, *_ = llvm_code(emit_cpu(long_map("max"))).split("define available_externally")
    # The larger one, and the first one where that is no number.
    assert len(re.findall(r"= select <\d+ x i1>", code)) == 2 * LONG


@pytest.mark.skipif(
    not llvm.get_host_cpu_features().get("avx2"), reason="looks for instructions of AVX"
)
@pytest.mark.parametrize("op", ["max", "min"])
@pytest.mark.parametrize(("dtype", "word"), [(np.float32, "s"), (np.float64, "d")])
def test_an_extremum_takes_three_instructions(op: str, dtype: type, word: str) -> None:
    code = assembly(emit_cpu(long_map(op, dtype)))
    counts = [
        len(re.findall(rf"{name}p{word}\s.*%[yz]mm", code)) for name in (op, "unord", "blendv")
    ]
    assert counts == [4 * LONG] * 3
    assert f"orp{word}" not in code


def test_a_choice_is_not_rounded_again() -> None:
    assert emit_cpu(long_map("max", np.float16)).text.count("round_half") == 0
    assert emit_cpu(long_map("add", np.float16)).text.count("round_half") == LONG


@pytest.mark.parametrize("op", ["neg", "abs", "floor", "ceil", "trunc", "rint", "sign"])
def test_what_makes_numbers_of_float16_of_such_numbers_is_not_rounded_again(op: str) -> None:
    build = Builder((4096,))
    build.store(build.map(op, build.load([1], np.float16)), [1])
    assert "round_half" not in emit_cpu(build.kernel()).text


def test_rounded_numbers_are_compared_and_chosen_as_float32() -> None:
    build = Builder((4096,))
    x, y = build.load([1], np.float16), build.load([1], np.float16)
    value = build.map("max", build.map("add", x, y), build.map("mul", x, y))
    build.store(build.map("select", build.map("lt", value, x, dtype=np.bool_), x, value), [1])
    code = llvm_code(emit_cpu(build.kernel()))
    assert re.search(r"= fcmp \w+ <\d+ x float>", code)
    assert not re.search(r"= fcmp \w+ (?:<\d+ x )?half", code)
    assert "round_half" not in re.sub(r"(?m)^define .*|^@llvm.*", "", code)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int32])
@pytest.mark.parametrize("shape", [(67,), (4099,), (9, 256), (3, 1000), (5, 2051)])
def test_long_programs_return_what_numpy_returns(dtype: type, shape: tuple[int, ...]) -> None:
    def program(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        for step in range(40):
            x = np.where(x > dtype(step), np.minimum(x, y), np.maximum(-x, y)) + dtype(1)
            x = (x - y) * dtype(3)
        return x

    rng = np.random.default_rng(0)
    x, y = (rng.integers(-9, 9, shape).astype(dtype) / dtype(1) for _ in range(2))
    x, y = x.astype(dtype), y.astype(dtype)
    with np.errstate(all="ignore"):
        wanted = program(x, y)
    got = minijit.jit(program)(x, y)
    assert got.dtype == wanted.dtype
    np.testing.assert_array_equal(got, wanted, strict=True)
