"""Products of arrays against NumPy: exact for the integers that these arrays hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import minijit.numpy as jnp

RNG = np.random.default_rng(7)


def ints(*shape: int, dtype: Any = np.float32) -> Any:
    return RNG.integers(-4, 5, shape).astype(dtype)


A, B, C = ints(3, 4), ints(4, 5), ints(5, 3)
V, W = ints(4), ints(4)
T, U = ints(2, 3, 4), ints(2, 4, 5)

CASES: dict[str, tuple[Any, ...]] = {
    "matmul": (lambda n, a, b: (n.matmul(a, b), a @ b), A, B),
    "matmul-batch": (lambda n, a, b: a @ b, T, U),
    "matmul-broadcast": (lambda n, a, b: a @ b, T, B),
    "matmul-vectors": (lambda n, a, v, w: (a @ v, v @ w, v @ a.T), A, V, W),
    "matmul-int": (lambda n, a, b: a @ b, ints(3, 4, dtype=np.int32), ints(4, 2, dtype=np.int16)),
    "matmul-mixed": (lambda n, a, b: a @ b, ints(3, 4, dtype=np.int32), ints(4, 2)),
    "matmul-half": (
        lambda n, a, b: a @ b,
        ints(3, 4, dtype=np.float16),
        ints(4, 2, dtype=np.float16),
    ),
    "matmul-bool": (lambda n, a, b: (a > 0) @ (b > 0), A, B),
    "matmul-dtype": (lambda n, a, b: n.matmul(a, b, dtype=np.float64), A, B),
    "matmul-empty": (lambda n, a, b: a @ b, np.ones((2, 0)), np.ones((0, 3))),
    "dot": (lambda n, a, b: (n.dot(a, b), a.dot(b)), A, B),
    "dot-scalar": (lambda n, a: (n.dot(a, 2), n.dot(3, a)), A),
    "dot-deep": (lambda n, a, b: n.dot(a, b), T, ints(6, 4, 2)),
    "dot-vector": (lambda n, a, v: n.dot(a, v), T, V),
    "vdot": (lambda n, a: n.vdot(a, a), T),
    "inner": (lambda n, a, b: (n.inner(a, b), n.inner(b[0], b[1]), n.inner(a, 2)), T, A),
    "outer": (lambda n, v, a: (n.outer(v, v), n.outer(a, v)), V, A),
    "tensordot": (lambda n, a, b: n.tensordot(a, b), T, ints(3, 4, 6)),
    "tensordot-one": (lambda n, a, b: (n.tensordot(a, b, 1), n.tensordot(a, b, axes=0)), A, B),
    "tensordot-axes": (lambda n, a, b: n.tensordot(a, b, ((0, 2), (1, 0))), T, ints(4, 2, 3)),
    "tensordot-axis": (lambda n, a, b: n.tensordot(a, b, (1, 0)), A, B),
    "vecdot": (lambda n, a, v: (n.vecdot(a, v), n.linalg.vecdot(a, v)), T, V),
    "matvec": (lambda n, a, v: (n.matvec(a, v), n.vecmat(v[:3], a)), T, V),
    "kron": (lambda n, a, b: (n.kron(a, b), n.kron(a, b[0])), A, B),
    "linalg": (
        lambda n, a: (n.linalg.diagonal(a), n.linalg.trace(a), n.linalg.matrix_transpose(a)),
        T,
    ),
}
EINSUMS: dict[str, tuple[Any, ...]] = {
    "ij,jk->ik": (A, B),
    "ij,jk": (A, B),
    "ij,jk->ki": (A, B),
    "bij,bjk->bik": (T, U),
    "bij,bjk->ik": (T, U),
    "bij,jk->bik": (T, B),
    "i,i": (V, W),
    "i,i->i": (V, W),
    "i,j->ij": (V, C[:, 0]),
    "ij->ji": (A,),
    "ij->j": (A,),
    "ij->": (A,),
    "ii->i": (A[:3, :3],),
    "ii": (A[:3, :3],),
    "iij->j": (T[:, :2],),
    "ij,ij->": (A, A),
    "ij,jk,kl->il": (A, B, C),
    "ij,i->j": (A, C[0]),
    "...ij,...jk->...ik": (T, U),
    "...i,...i": (T, V),
    "b...,b->...": (T, T[:, 0, 0]),
    "ij,kj->ik": (A, A),
    "ij,kl->": (A, B),
    "bhqd,bhkd->bhqk": (ints(2, 3, 4, 5), ints(2, 3, 6, 5)),
    ",ij->ij": (np.float32(2), A),
    "ij, jk -> i k": (A, ints(4, 5, dtype=np.int32)),
}


@pytest.mark.parametrize("name", CASES)
def test_product_is_numpys(name: str, same_as_numpy: Any) -> None:
    function, *arrays = CASES[name]
    same_as_numpy(function, *arrays)


@pytest.mark.parametrize("subscripts", EINSUMS)
def test_einsum_is_numpys(subscripts: str, same_as_numpy: Any) -> None:
    same_as_numpy(lambda n, *arrays: n.einsum(subscripts, *arrays), *EINSUMS[subscripts])


NORMS: list[tuple[Any, Any]] = [
    (None, None),
    (None, 0),
    (2, -1),
    (1, 1),
    (np.inf, 0),
    (-np.inf, 0),
    (0, 0),
    (3, 1),
    ("fro", (0, 1)),
    (1, (0, 1)),
    (-1, (1, 0)),
    (np.inf, (0, 1)),
    (-np.inf, None),
]


@pytest.mark.parametrize(("order", "axis"), NORMS, ids=str)
@pytest.mark.parametrize("keepdims", [False, True])
def test_norm_is_numpys(order: Any, axis: Any, keepdims: bool, traced: Any) -> None:
    x = np.random.default_rng(1).normal(size=(3, 4))
    wanted = np.linalg.norm(x, order, axis, keepdims)
    for got in (
        jnp.linalg.norm(x, order, axis, keepdims),
        traced(lambda t: jnp.linalg.norm(t, order, axis, keepdims), x),
        traced(lambda t: np.linalg.norm(t, order, axis, keepdims), x),
    ):
        assert np.shape(got) == np.shape(wanted)
        np.testing.assert_allclose(got, wanted, rtol=1e-14)


def test_vector_and_matrix_norms(traced: Any) -> None:
    x = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    for n in (jnp, np):
        got = traced(lambda t, n=n: n.linalg.vector_norm(t, axis=(0, 1)), x)
        np.testing.assert_allclose(got, np.linalg.vector_norm(x, axis=(0, 1)))
        got = traced(lambda t, n=n: n.linalg.matrix_norm(t, ord=1), x)
        np.testing.assert_allclose(got, np.linalg.matrix_norm(x, ord=1))


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda n, x: x @ x, "inner extents 4 and 3 differ"),
        (lambda n, x: n.dot(x, x), "inner extents 4 and 3 differ"),
        (lambda n, x: x @ 2.0, "for scalars"),
        (lambda n, x: n.tensordot(x, x, 1), "do not fit"),
        (lambda n, x: n.tensordot(x, x, ((0, 1), (0,))), "pairs"),
        (lambda n, x: n.einsum("ij,jk->ik", x, x), "extents 4 and 3"),
        (lambda n, x: n.einsum("ij,jk->ik", x), "2 terms for 1 operands"),
        (lambda n, x: n.einsum("ijk->k", x), "does not fit an operand of 2 axes"),
        (lambda n, x: n.einsum("ij->ik", x), "not well formed"),
        (lambda n, x: n.linalg.norm(x, 2, (0, 1)), "needs a decomposition"),
        (lambda n, x: np.zeros((5, 3, 4)) @ n.zeros((2, 4, 3)), "do not broadcast"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(function: Any, words: str, traced: Any) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        traced(lambda x: function(jnp, x), A)
    assert "test_products.py:" in str(caught.value)


def test_a_chain_of_two_products_is_two_library_calls(jaxpr_of: Any) -> None:
    jaxpr = jaxpr_of(lambda a, b, c: np.einsum("ij,jk,kl->il", a, b, c), A, B, C)
    assert [str(eqn.primitive) for eqn in jaxpr.eqns] == ["matmul", "matmul"]
