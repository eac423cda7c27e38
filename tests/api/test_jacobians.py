"""jacfwd, jacrev and hessian against written-out Jacobians."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import minijit
from minijit import lax
from tests.api.test_autodiff import close
from tests.conftest import Device

X = np.array([0.3, -1.2, 2.0], np.float32)
A = np.arange(12, dtype=np.float32).reshape(4, 3) / 5
BOTH = [minijit.jacfwd, minijit.jacrev]


@pytest.mark.parametrize("jacobian", BOTH)
def test_matrices(device: Device, jacobian: Any) -> None:
    x, a = device.put(X), device.put(A)
    close(device.get(jacobian(lambda x, a: a @ np.sin(x))(x, a)), A * np.cos(X))
    of_a = device.get(jacobian(lambda x, a: a @ x, argnums=1)(x, a))
    close(of_a, np.einsum("ik,j->ikj", np.eye(4, dtype=np.float32), X).reshape(4, 4, 3))


@pytest.mark.parametrize("jacobian", BOTH)
def test_trees(jacobian: Any) -> None:
    def f(p: Any, y: Any) -> Any:
        return {"a": p["x"] * y, "b": (p["x"] ** 2).sum()}, y + 1

    tree = {"x": X, "unused": np.ones((2, 1), np.float32)}
    found, aux = jacobian(f, argnums=(0, 1), has_aux=True)(tree, np.float32(2))
    close(aux, np.float32(3))
    of_tree, of_y = found["a"]
    close(of_tree["x"], 2 * np.eye(3, dtype=np.float32))
    close(of_tree["unused"], np.zeros((3, 2, 1), np.float32))
    close(of_y, X)
    close(found["b"][0]["x"], 2 * X)
    close(found["b"][1], np.float32(0))


def test_second_derivatives(device: Device) -> None:
    def f(x: Any) -> Any:
        return (x**3).sum() + x[0] * x[1]

    want = np.diag(6 * X)
    want[0, 1] = want[1, 0] = 1
    close(device.get(minijit.hessian(f)(device.put(X))), want)
    close(minijit.jit(minijit.hessian(f))(X), want)
    close(minijit.jacrev(minijit.jacrev(f))(X), want)
    close(minijit.jacfwd(minijit.grad(f))(X), want)


def test_forward_mode_goes_through_while_loops() -> None:
    def f(x: Any) -> Any:
        return lax.while_loop(lambda v: v.sum() < 20, lambda v: v * x, x)

    x = np.array([2.0, 3.0], np.float32)
    close(minijit.jacfwd(f)(x), np.diag(3 * x**2))  # two steps: x ** 3
    with pytest.raises(TypeError, match="while_loop"):
        minijit.jacrev(f)(x)


def test_a_jacobian_of_elements_is_one_kernel(device: Device) -> None:
    run = minijit.jit(minijit.jacfwd(lambda x: np.sin(x) * x))
    close(device.get(run(device.put(X))), np.diag(np.cos(X) * X + np.sin(X)))
    assert run.stats()["kernels"] == 1


@pytest.mark.parametrize("jacobian", BOTH)
def test_refusals(jacobian: Any) -> None:
    with pytest.raises(TypeError, match=r"returns int32\[3\] \(at test_jacobians.py.*has_aux"):
        jacobian(lambda x: x.astype(np.int32))(X)
    with pytest.raises(TypeError, match="only floats have derivatives"):
        jacobian(lambda x: x * 1.0)(np.arange(3))
