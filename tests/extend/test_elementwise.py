"""`@elementwise`: promotion, broadcasting, fusion, overrides, eager evaluation, refusals."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import cuda

import minijit
from minijit.extend import elementwise, scope, unsupported
from minijit.graph.aval import ShapedArray
from minijit.graph.errors import DeclarationError
from tests.conftest import Device
from tests.ops.samples import assert_same

X = np.linspace(-3, 3, 37, dtype=np.float32)
SHARPNESS = 2.5
INTEGERS = ("uint8", "int32", "int64")


with scope():  # tests of the registry are not to meet these

    @elementwise
    def mish(x: Any) -> Any:
        """x * tanh(log(1 + exp(x))).

        A second paragraph.
        """
        return x * math.tanh(math.log1p(math.exp(x)))

    @elementwise
    def softcap(x: Any, cap: Any) -> Any:
        return cap * math.tanh(x / cap)

    @elementwise
    def blended(x: Any, y: Any, weight: Any) -> Any:
        return x + (y - x) * weight

    @elementwise(dtypes="any", result=bool, only=INTEGERS)
    def is_odd(n: Any) -> Any:
        return n % 2 == 1

    @elementwise(dtypes="any", result=np.int32, only=INTEGERS)
    def collatz(n: Any) -> Any:
        steps = 0
        while n > 1 and steps < 1000:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            steps += 1
        return steps

    @elementwise(cpu=lambda x: x + 1, cuda=lambda x: x + 2, eager=lambda xp, x: x)
    def where_am_i(x: Any) -> Any:
        return x


def mish_of_numpy(x: Any) -> Any:
    return x * np.tanh(np.log1p(np.exp(x)))


def test_the_declaration() -> None:
    primitive = mish.primitive
    assert (primitive.name, primitive.doc) == ("mish", "x * tanh(log(1 + exp(x))).")
    assert primitive.flops == 1 + 3 * 10
    assert softcap.primitive.doc == "softcap, declared by a user."
    assert repr(mish) == "<operation mish>"


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_bits_are_those_of_the_built_in_operations(device: Device, dtype: str) -> None:
    x = X.astype(dtype)
    got = device.get(minijit.jit(lambda x: mish(x))(device.put(x)))
    if dtype == "float16":  # rounded once, not after each operation
        want = device.get(minijit.jit(mish_of_numpy)(device.put(x.astype(np.float32))))
        want = want.astype(dtype)
    else:
        want = device.get(minijit.jit(mish_of_numpy)(device.put(x)))
    assert_same(got, want, [x])


def test_mathematics_is_vectorised_beside_what_numba_knows(device: Device) -> None:
    """A function that is called, not written in place, would have scalar code for `math`."""
    gated = elementwise(name="gated")(lambda x: max(x, 0.0) * math.exp(-min(x, 3)))
    f = minijit.jit(lambda x: gated(x))
    got = device.get(f(device.put(X)))
    built_in = minijit.jit(lambda x: np.maximum(x, 0) * np.exp(-np.minimum(x, 3)))
    assert_same(got, device.get(built_in(device.put(X))), [X])


def test_minimum_and_maximum_of_python_are_its_own_for_nan_and_zeros(device: Device) -> None:
    lower = elementwise(name="lower")(lambda x, y: min(x, y))
    upper = elementwise(name="upper")(lambda x, y: max(x, y))
    x, y = np.array(
        [[1, np.nan, 0.0, -0.0, 2, np.nan], [np.nan, 1, -0.0, 0.0, 3, np.nan]], np.float32
    )
    results = minijit.jit(lambda x, y: (lower(x, y), upper(x, y)))(device.put(x), device.put(y))
    for got, python in zip(map(device.get, results), (min, max), strict=True):
        want = np.array([python(*pair) for pair in zip(x, y, strict=True)])
        assert_same(got, want, [x, y])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rests_and_quotients_of_floats_are_exact(device: Device, dtype: type) -> None:
    rest = elementwise(name="rest")(lambda x, y: x % y)
    quotient = elementwise(name="quotient")(lambda x, y: x // y)
    tenths = elementwise(name="tenths")(lambda x: x % 0.1)
    x = np.array([3, -3, 7.5, -7.5, 1e4, 0.3, 5e-3], dtype)
    y = np.array([0.3, 0.3, -2.5, 2.5, 0.1, 0.3, 7e-5], dtype)
    apply = minijit.jit(lambda x, y: (rest(x, y), quotient(x, y), tenths(x)))
    got = map(device.get, apply(device.put(x), device.put(y)))
    for result, want in zip(got, (x % y, x // y, x % dtype(0.1)), strict=True):
        assert_same(result, want, [x, y])


def test_one_kernel_with_its_neighbours(device: Device, counts: Counter[str]) -> None:
    x = device.put(X.reshape(1, 37))
    f = minijit.jit(lambda x: mish(x * 2).sum(-1) + 1)
    got = device.get(f(x))
    np.testing.assert_allclose(got, mish_of_numpy(X * 2).sum(keepdims=True) + 1, rtol=1e-5)
    assert f.stats()["kernels"] == 1
    assert (counts["trace"], counts["compile"]) == (1, 1)
    f(x)
    assert (counts["trace"], counts["compile"]) == (1, 1)


def test_eager_evaluation_is_derived(device: Device, counts: Counter[str]) -> None:
    x = device.put(X)
    got = device.get(mish(x))
    np.testing.assert_allclose(got, mish_of_numpy(X), rtol=2e-6)
    assert got.dtype == np.float32
    assert (counts["compile"], counts["launch"]) == (1, 1)
    mish(x)
    assert (counts["compile"], counts["launch"]) == (1, 2)
    with minijit.disable_jit():
        np.testing.assert_array_equal(device.get(minijit.jit(lambda x: mish(x))(x)), got)


def test_eager_operands_are_promoted_and_broadcast() -> None:
    got = softcap(X[:, None], [1, 2])
    assert (got.shape, got.dtype) == ((37, 2), np.float64)
    np.testing.assert_allclose(got, np.tanh(X[:, None] / np.array([1, 2])) * [1, 2], rtol=1e-6)
    assert softcap(X, 2).dtype == np.float32
    np.testing.assert_allclose(softcap(1.0, 2), 2 * math.tanh(0.5))


PROMOTION = [
    (("float32", "float32"), "float32"),
    (("float16", "float32"), "float32"),
    (("int8", "int8"), "float16"),
    (("int16", "float16"), "float32"),
    (("int32", "float32"), "float64"),
    (("bool", "bool"), "float16"),
]


@pytest.mark.parametrize(("dtypes", "result"), PROMOTION)
def test_operands_are_promoted_to_a_float(
    device: Device, dtypes: tuple[str, str], result: str
) -> None:
    x, y = (np.array([1, 0, 1], dtype) for dtype in dtypes)
    got = device.get(
        minijit.jit(lambda x, y: softcap(x, y + y.dtype.type(1)))(*map(device.put, (x, y)))
    )
    assert got.dtype == result


def test_three_operands_broadcast(device: Device) -> None:
    x, y = X[:6].reshape(2, 3), X[:2].reshape(2, 1)
    got = device.get(minijit.jit(lambda x, y: blended(x, y, 0.25))(device.put(x), device.put(y)))
    np.testing.assert_array_equal(got, x + (y - x) * np.float32(0.25))
    assert (got.shape, got.dtype) == ((2, 3), np.float32)
    with pytest.raises(ValueError, match=r"do not broadcast .*test_elementwise\.py"):
        minijit.jit(lambda x: blended(x, x[:2], 0.5))(X)


def test_other_dtypes_of_the_result(device: Device) -> None:
    for dtype in ("uint8", "int32", "int64"):
        n = np.arange(5, dtype=dtype)
        odd, steps = minijit.jit(lambda n: (is_odd(n), collatz(n)))(device.put(n))
        np.testing.assert_array_equal(device.get(odd), n % 2 == 1)
        np.testing.assert_array_equal(device.get(steps), np.array([0, 0, 1, 7, 2], np.int32))
        assert (odd.dtype, steps.dtype) == (bool, np.int32)


def test_weak_numbers_stay_weak() -> None:
    jaxpr = minijit.make_jaxpr(lambda x: x * softcap(1.0, 2.0))(X)
    assert jaxpr.out_avals[0] == ShapedArray(X.shape, np.dtype(np.float32))


def test_a_target_has_its_own_code(device: Device) -> None:
    got = device.get(minijit.jit(lambda x: where_am_i(x))(device.put(X)))
    np.testing.assert_array_equal(got, X + (1 if device.name == "cpu" else 2))


def test_device_functions_of_the_target() -> None:
    @cuda.jit(device=True)  # type: ignore[untyped-decorator]  # numba-cuda has no types
    def doubled(x: Any) -> Any:
        return x + x

    twice = elementwise(name="twice", cuda=lambda x: doubled(x) * 1)(lambda x: 2 * x)
    f = minijit.jit(lambda x: twice(x))
    for name in ("cpu", "cuda-emulated"):
        with minijit.default_device(name):
            np.testing.assert_array_equal(np.asarray(f(X)), 2 * X)


def test_constants_are_not_folded_by_kernels(counts: Counter[str]) -> None:
    f = minijit.jit(lambda x: x * mish(0.5))
    np.testing.assert_allclose(f(X), X * mish_of_numpy(0.5), rtol=1e-6)
    assert counts["compile"] == 1


def test_answering_a_ufunc_of_numpy() -> None:
    def magnitude(x: Any) -> Any:
        return math.fabs(x) * 2

    elementwise(ufunc=np.spacing, name="spacing", only=("float32", "float64"))(magnitude)
    f = minijit.jit(lambda x: np.spacing(x))
    assert "spacing" in str(minijit.make_jaxpr(f)(X))
    np.testing.assert_array_equal(f(X), 2 * np.abs(X))  # what was declared, not what NumPy has


def refusal(function: Any, device: Device) -> str:
    with pytest.raises(DeclarationError) as caught:
        minijit.jit(lambda x: function(x))(device.put(X))
    return str(caught.value)


with scope():

    @elementwise
    def text_of(x: Any) -> Any:
        return x.real_part

    @elementwise
    def wider(x: Any) -> Any:
        return x * np.float64(SHARPNESS)

    @elementwise
    def truth(x: Any) -> Any:
        return x > 0

    @elementwise(name="integral", dtypes="any")
    def halved(x: Any) -> Any:
        return x / 2

    @elementwise
    def two_values(x: Any) -> Any:
        return x, x


def test_what_cannot_be_compiled_is_refused_at_first_use(device: Device) -> None:
    assert re.match(r"test_elementwise\.py:\d+ \(text_of\): Numba", refusal(text_of, device))
    where = r"test_elementwise\.py:\d+ "
    assert re.match(where + r"\(wider\): it returns float64 where float32", refusal(wider, device))
    assert re.match(where + r"\(truth\): it returns bool.* where float32", refusal(truth, device))
    assert re.match(where + r"\(two_values\): it returns 2 values", refusal(two_values, device))
    with pytest.raises(DeclarationError, match="it returns float64 where int32 is declared"):
        minijit.jit(lambda x: halved(x))(device.put(np.arange(3, dtype=np.int32)))


def test_what_is_no_function_of_scalars_is_refused_at_once() -> None:
    with pytest.raises(DeclarationError, match=r"no Python function .*test_elementwise\.py"):
        elementwise(math.exp)
    with pytest.raises(DeclarationError, match="in another way than one by one"):
        elementwise(lambda *xs: xs[0])
    with pytest.raises(DeclarationError, match="in another way than one by one"):
        elementwise(lambda x, y=1: x + y)
    with pytest.raises(DeclarationError, match="its code for cuda 2"):
        elementwise(cuda=lambda x, y: x)(lambda x: x)
    with pytest.raises(DeclarationError, match=r"write 'float', 'any' or a ufunc"):
        elementwise(dtypes="double", name="never")(lambda x: x)  # type: ignore[call-overload]
    with pytest.raises(DeclarationError, match="gives dtypes to 2 operands"):
        elementwise(dtypes=np.add, name="never")(lambda x: x)
    with pytest.raises(DeclarationError, match="has to be an identifier: give name="):
        elementwise(lambda x: x)
    with pytest.raises(TypeError, match=r"^elementwise\(\) got .* 'dtype'"):
        elementwise(dtype="float")(lambda x: x)  # type: ignore[call-overload]


@pytest.mark.parametrize("apply", [lambda f: f, minijit.jit], ids=["eager", "jit"])
def test_what_a_call_cannot_give_is_told_in_its_words(apply: Any) -> None:
    above = elementwise(name="above", only=("float64",))(lambda x, least: max(x, least))
    with pytest.raises(TypeError, match=r"above\(\) has no option least=: .*test_elementwise\.py"):
        apply(lambda x: above(x, least=1))(X)
    with pytest.raises(TypeError, match=r"above\(\) takes 2 arguments, got 1"):
        apply(lambda x: above(x))(X)
    with pytest.raises(TypeError, match=r"above computes with float64 only, not with float32: "):
        apply(lambda x: above(x, 1))(X)
    assert apply(lambda x: above(x, 1, dtype=np.float64))(X).dtype == np.float64


def test_a_function_that_forgets_to_return() -> None:
    def never(x: Any) -> Any:
        _ = x + 1

    def sometimes(x: Any) -> Any:
        if x > 0:
            return x
        return None

    for function in (never, sometimes):
        where = rf"\({function.__name__}\): .* returns nothing where float32 is declared"
        with pytest.raises(DeclarationError, match=where):
            elementwise(function)(X)


def test_a_name_is_taken_once() -> None:
    elementwise(name="mine")(lambda x: x)
    with pytest.raises(DeclarationError, match=r"named 'mine' exists .*test_elementwise\.py:\d+"):
        elementwise(name="mine")(lambda x: x)
    with pytest.raises(DeclarationError, match="named 'exp' exists"):
        elementwise(name="exp")(lambda x: x)


def test_rules_are_carried() -> None:
    why = unsupported("is a step")
    step = elementwise(name="step", jvp=why, transpose=why)(lambda x: 1 if x > 0 else 0)
    assert step.primitive.jvp is step.primitive.transpose is why


def test_declaring_imports_no_compiler(tmp_path: Path) -> None:
    lines = ["import math", "from minijit.extend import elementwise", ""]
    for number in range(100):
        lines += ["@elementwise", f"def op_{number}(x):", f"    return x * {number} + math.exp(x)"]
    (tmp_path / "hundred.py").write_text("\n".join(lines))
    probe = "import sys, hundred; print([m for m in sys.modules if m in ('numba', 'llvmlite')])"
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", probe],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": f"{root}:{tmp_path}", "PATH": ""},
    )
    assert done.stdout == "[]\n"
