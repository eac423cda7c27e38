"""The LLVM code of CUDA device functions, run on the CPU: LLVM means the same on both."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numba import njit, types
from numba.extending import intrinsic, models, register_model
from numba.np.numpy_support import from_dtype

from minijit.kernels.cuda import VOCABULARY

DTYPES = ["bool", "int8", "uint8", "int16", "uint16", "int32", "int64", "uint64"]
DTYPES += ["float16", "float32", "float64"]


class Pointer(types.Type):  # type: ignore[misc]
    """A pointer of any element type; CPU Numba has no float16 of its own."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        super().__init__(f"Pointer({dtype})")


register_model(Pointer)(models.OpaqueModel)


def on_cpu(name: str) -> Any:
    """The device function ``name`` for CPU code."""
    return intrinsic(VOCABULARY[name]._defn)


def compiled(function: Callable[..., Any], dtype: Any) -> Callable[..., Any]:
    """Compile ``function(pointer, pointer, array)`` of a memory dtype and its register dtype."""
    pointer = Pointer(from_dtype(np.dtype(dtype)))
    held = np.dtype(np.float32) if dtype == "float16" else np.dtype(dtype)
    array = types.Array(from_dtype(held), 1, "C")
    signature = types.void(types.uintp, types.uintp, array)

    @intrinsic
    def as_pointer(typing_context, address):  # type: ignore[no-untyped-def]
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.inttoptr(arguments[0], context.get_value_type(pointer))

        return pointer(address), generate

    body = njit(function)

    def entry(source, target, held):  # type: ignore[no-untyped-def]
        body(as_pointer(source), as_pointer(target), held)

    return njit(signature)(entry)


def sample(dtype: str, count: int) -> np.ndarray[Any, Any]:
    random = np.random.default_rng(3)
    if dtype == "bool":
        return random.integers(0, 2, count).astype(bool)
    if dtype.startswith("float"):
        special = np.array([np.nan, np.inf, -np.inf, -0.0, 1e-7])
        values = random.standard_normal(count) * 100
        values[: special.size] = special[:count]
        return values.astype(dtype)
    limits = np.iinfo(dtype)
    return random.integers(limits.min, limits.max, count, dtype, endpoint=True)


@pytest.mark.parametrize("dtype", DTYPES)
def test_vectors_keep_order_and_bits(dtype: str) -> None:
    load_vector, store_vector = on_cpu("load_vector"), on_cpu("store_vector")
    count = 16 // np.dtype(dtype).itemsize

    def move(source, target, held):  # type: ignore[no-untyped-def]
        load_vector(held, 3, source, count)
        store_vector(target, 2 * count, held, 3)

    source, target = sample(dtype, 3 * count), np.zeros(3 * count, dtype)
    held = np.zeros(count + 3, np.float32 if dtype == "float16" else dtype)
    assert source.ctypes.data % 16 == target.ctypes.data % 16 == 0
    compiled(move, dtype)(source.ctypes.data, target.ctypes.data, held)
    np.testing.assert_array_equal(held[3:], source[count : 2 * count].astype(held.dtype))
    np.testing.assert_array_equal(target[2 * count :], source[count : 2 * count])
    assert not target[: 2 * count].any()


@pytest.mark.parametrize("dtype", DTYPES)
def test_single_elements_keep_bits(dtype: str) -> None:
    load, store, zero = on_cpu("load"), on_cpu("store"), on_cpu("zero")

    def move(source, target, held):  # type: ignore[no-untyped-def]
        for n in range(8):
            held[n] = load(source, n)
            store(target, 7 - n, held[n])
        store(target, 8, zero(target))

    source, target = sample(dtype, 8), np.ones(9, dtype)
    held = np.zeros(8, np.float32 if dtype == "float16" else dtype)
    compiled(move, dtype)(source.ctypes.data, target.ctypes.data, held)
    np.testing.assert_array_equal(target[:8], source[::-1])
    assert target[8] == 0


@pytest.mark.parametrize("dtype", ["float64", "int8", "uint8", "int32", "int64", "uint64"])
@pytest.mark.parametrize(("name", "expected"), [("maximum", np.maximum), ("minimum", np.minimum)])
def test_extrema(dtype: str, name: str, expected: Any) -> None:
    function = on_cpu(name)
    extreme = njit(lambda x, y: function(x, y))
    values = sample(dtype, 12)
    for x in values:
        for y in values:
            np.testing.assert_array_equal(extreme(x, y), expected(x, y))


@pytest.mark.parametrize("name", ["ceil", "floor", "trunc"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rounding(name: str, dtype: Any) -> None:
    function = on_cpu(name)
    rounded = njit(lambda x: function(x))
    for x in np.array([0.5, 1.5, -0.5, -2.5, -0.2, 7.9, 1e30, np.inf, np.nan, -0.0], dtype):
        result, wanted = rounded(x), getattr(np, name)(x)
        np.testing.assert_array_equal(result, wanted)
        assert np.signbit(result) == np.signbit(wanted)


@pytest.mark.parametrize("name", [name for name in DTYPES if "int" in name] + ["uint32"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_casts_of_floats_are_those_of_numpy(name: str, dtype: Any) -> None:
    function = on_cpu(f"{name}_from_float")
    cast = njit(lambda x: function(x))
    numbers = [0.0, 1.9, -1.9, 127.5, 200.0, -200.0, 40000.0, 2.0**31 - 1, 3e9, 2.0**40, 1e18]
    if name.startswith("int"):
        numbers += [-(2.0**31), -3e9, -(2.0**40)]
    if name in ("int32", "int64"):
        numbers += [1e19, -1e19, np.inf, -np.inf, np.nan]
    if name == "uint64":
        numbers += [2.0**63, 1.5e19]
    for x in np.array(numbers, dtype):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            # An array of one element takes the conversion instruction that single values take.
            wanted = np.array([x]).astype(name)[0]
        assert cast(x) == wanted, x


def test_indices_are_divided_without_signs() -> None:
    quotient, remainder = on_cpu("quotient"), on_cpu("remainder")
    divide = njit(lambda n: (quotient(n, 7), remainder(n, 7)))
    for n in (0, 6, 7, 100, 2**30):
        assert divide(np.int32(n)) == divmod(n, 7)
        assert divide(np.int64(n << 10)) == divmod(n << 10, 7)
