"""Which products of matrices kernels compute, and that these have NumPy's values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import minijit
from minijit.graph.evaluate import evaluate
from minijit.transforms.sums_of_products import sums_of_products
from tests.conftest import Device
from tests.transforms.random_programs import trace

RANDOM = np.random.default_rng(7)


def draw(*shape: int, dtype: Any = np.float32) -> Any:
    return (4 * RANDOM.standard_normal(shape)).astype(dtype)


SUMMED = {
    "stack": (draw(5, 3, 4), draw(5, 4, 2)),
    "stack of one": (draw(1, 3, 4), draw(1, 4, 2)),
    "stack and matrix": (draw(5, 3, 4), draw(4, 2)),
    "matrix and stack": (draw(3, 4), draw(5, 4, 2)),
    "stack and vector": (draw(5, 3, 4), draw(4)),
    "vector and stack": (draw(4), draw(5, 4, 2)),
    "repeated": (draw(2, 1, 3, 4), draw(6, 4, 2)),
    "rows of 16": (draw(3, 16, 16), draw(3, 16, 16)),
    "float64": (draw(5, 3, 4, dtype=np.float64), draw(5, 4, 2, dtype=np.float64)),
    "int32": (draw(30, 40, dtype=np.int32), draw(40, 50, dtype=np.int32)),
    "int8, which wraps": (50 * draw(3, 40, dtype=np.int8), draw(40, 5, dtype=np.int8)),
    "vectors of int64": (draw(40, dtype=np.int64), draw(40, dtype=np.int64)),
    "matrix and vector of uint8": (draw(3, 4).astype(np.uint8), draw(4).astype(np.uint8)),
    "vector and matrix of int16": (draw(3, dtype=np.int16), draw(3, 4, dtype=np.int16)),
    "bools": (draw(3, 4) > 3, draw(4, 5) > 3),
}
LIBRARY = {
    "matrices": (draw(3, 4), draw(4, 5)),
    "rows of 17": (draw(3, 17, 17), draw(3, 17, 17)),
    "vectors": (draw(9), draw(9)),
    "float16": (draw(3, 4, dtype=np.float16), draw(4, 5, dtype=np.float16)),
    "stack of float16": (draw(2, 3, 4, dtype=np.float16), draw(2, 4, 5, dtype=np.float16)),
    "no terms": (draw(2, 3, 0), draw(2, 0, 4)),
    "no integers": (draw(0, 3, dtype=np.int32), draw(3, 4, dtype=np.int32)),
}


def check(name: str, device: Device, kernels: int, eager_steps: int) -> None:
    left, right = (SUMMED | LIBRARY)[name]
    f = minijit.jit(lambda a, b: a @ b)
    got, wanted = device.get(f(device.put(left), device.put(right))), left @ right
    assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
    tolerance = 2e-3 if wanted.dtype == np.float16 else 1e-5
    np.testing.assert_allclose(
        got.astype(np.float64), wanted.astype(np.float64), rtol=tolerance, atol=tolerance
    )
    stats = f.stats()
    assert (stats["kernels"], stats["eager_steps"]) == (kernels, eager_steps)


@pytest.mark.parametrize("name", SUMMED)
def test_kernels_multiply(name: str, device: Device) -> None:
    check(name, device, 1, 0)


@pytest.mark.parametrize("name", LIBRARY)
def test_the_library_multiplies(name: str, device: Device) -> None:
    check(name, device, 0, 1)


@pytest.mark.parametrize("name", SUMMED)
def test_the_program_keeps_its_meaning(name: str) -> None:
    arguments = SUMMED[name]
    before = trace(lambda a, b: [a @ b, (a @ b) * 2], arguments)
    after = sums_of_products(before)
    assert "matmul" not in str(after)
    for old, new in zip(evaluate(before, arguments), evaluate(after, arguments), strict=True):
        np.testing.assert_allclose(new, old, rtol=1e-5, atol=1e-5)
        assert new.dtype == old.dtype


def test_what_has_no_such_product_stays_as_it_is() -> None:
    program = trace(lambda a, b: [a @ b], LIBRARY["matrices"])
    assert sums_of_products(program) is program


def test_products_share_a_kernel_with_what_is_around_them(device: Device) -> None:
    a, b = SUMMED["stack"]
    f = minijit.jit(lambda a, b: np.tanh((a + 1) @ b) * 2)
    got = device.get(f(device.put(a), device.put(b)))
    np.testing.assert_allclose(got, np.tanh((a + 1) @ b) * 2, rtol=1e-5)
    assert (f.stats()["kernels"], f.stats()["eager_steps"]) == (1, 0)


def test_sums_of_products_have_derivatives(device: Device) -> None:
    a, b = SUMMED["stack"]
    da, db = minijit.jit(minijit.grad(lambda a, b: (a @ b).sum(), argnums=(0, 1)))(
        device.put(a), device.put(b)
    )
    ones = np.ones((5, 3, 2), np.float32)
    np.testing.assert_allclose(device.get(da), ones @ b.transpose(0, 2, 1), rtol=1e-5)
    np.testing.assert_allclose(device.get(db), a.transpose(0, 2, 1) @ ones, rtol=1e-5, atol=1e-5)
