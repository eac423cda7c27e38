"""Views and joins by every name NumPy has for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import minijit.numpy as jnp
from tests.conftest import on_each_device
from tests.sampling import sampled

A = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
M = np.arange(12, dtype=np.int16).reshape(3, 4)
V = np.array([3.0, -1.0, 2.5, 0.0, 7.0])
S = np.float32(2.5)

CASES: dict[str, tuple[Any, ...]] = {
    "reshape": (lambda n, x: n.reshape(x, (4, 6)), A),
    "reshape-unknown": (lambda n, x: n.reshape(x, (3, -1)), A),
    "reshape-int": (lambda n, x: n.reshape(x, -1), A),
    "reshape-fortran": (lambda n, x: n.reshape(x, (4, -1), order="F"), A),
    "reshape-scalar": (lambda n, x: n.reshape(x, (1, 1)), S),
    "method-reshape": (lambda n, x: (x.reshape(6, 4), x.reshape((6, 4)), x.reshape(-1)), A),
    "ravel": (lambda n, x: (n.ravel(x), n.ravel(x, "F"), x.ravel(), x.flatten("F")), A),
    "transpose": (lambda n, x: (n.transpose(x), n.transpose(x, (1, 0, 2)), x.T), A),
    "permute_dims": (lambda n, x: n.permute_dims(x, (2, -3, 1)), A),
    "method-transpose": (
        lambda n, x: (
            x.transpose(),
            x.transpose(None),
            x.transpose(2, 0, 1),
            x.transpose((2, 0, 1)),
        ),
        A,
    ),
    "matrix_transpose": (lambda n, x: (n.matrix_transpose(x), x.mT), A),
    "swapaxes": (lambda n, x: (n.swapaxes(x, 0, -1), x.swapaxes(1, 2)), A),
    "moveaxis": (lambda n, x: (n.moveaxis(x, 0, -1), n.moveaxis(x, (0, 1), (-1, 0))), A),
    "rollaxis": (lambda n, x: (n.rollaxis(x, 2), n.rollaxis(x, 0, 3), n.rollaxis(x, 1, 0)), A),
    "expand_dims": (lambda n, x: (n.expand_dims(x, 0), n.expand_dims(x, (-1, 1))), M),
    "squeeze": (
        lambda n, x: (n.squeeze(x[:1]), n.squeeze(x[:, :1], 1), x[:1, :1].squeeze((0, 1))),
        A,
    ),
    "flip": (lambda n, x: (n.flip(x), n.flip(x, 1), n.flip(x, (0, -1))), A),
    "fliplr": (lambda n, x: (n.fliplr(x), n.flipud(x)), M),
    "rot90": (lambda n, x: tuple(n.rot90(x, k) for k in range(-1, 5)), M),
    "rot90-axes": (lambda n, x: n.rot90(x, 1, (2, 0)), A),
    "broadcast_to": (lambda n, x: n.broadcast_to(x, (2, 3, 4)), M),
    "broadcast_arrays": (lambda n, x, y: n.broadcast_arrays(x, y), M, np.ones((2, 1, 4))),
    "atleast": (lambda n, x: (n.atleast_1d(x), n.atleast_2d(x), n.atleast_3d(x)), S),
    "atleast-vector": (lambda n, x: (n.atleast_1d(x), n.atleast_2d(x), n.atleast_3d(x)), V),
    "atleast-matrix": (lambda n, x: (n.atleast_2d(x), n.atleast_3d(x)), M),
    "atleast-several": (lambda n, x, y: n.atleast_2d(x, y), V, S),
    "diagonal": (lambda n, x: (n.diagonal(x), n.diagonal(x, 1, 1, 2), x.diagonal(-1, 2, 0)), A),
    "diag": (lambda n, x: (n.diag(x), n.diag(x, 2), n.diag(x, -1), n.diag(x, 9)), M),
    "diag-vector": (lambda n, x: (n.diag(x), n.diag(x, 2), n.diag(x, -1), n.diagflat(x[:2])), V),
    "trace": (lambda n, x: (n.trace(x), n.trace(x, 1), x.trace()), M),
    "concatenate": (lambda n, x, y: n.concatenate([x, y, x]), M, M[:1]),
    "concatenate-axis": (lambda n, x, y: n.concatenate((x, y), axis=-1), M, np.ones((3, 2), "f4")),
    "concatenate-flat": (lambda n, x, y: n.concatenate([x, y], axis=None), M, V),
    "concatenate-empty": (lambda n, x, y: n.concatenate([y, x, y]), V, np.ones(0, "f4")),
    "concatenate-list": (lambda n, x: n.concatenate([x, [1, 2]]), V.astype("f4")),
    "concatenate-dtype": (lambda n, x: n.concatenate([x, x], dtype="f4"), V),
    "stack": (lambda n, x: (n.stack([x, x]), n.stack([x, -x], 1), n.stack((x, x), -1)), M),
    "stack-scalars": (lambda n, x: n.stack([x, x * 2]), S),
    "hstack": (lambda n, x: (n.hstack([x, x]), n.hstack([x[0], x[1]])), M),
    "vstack": (lambda n, x: (n.vstack([x, x]), n.vstack([x[0], x[1]])), M),
    "dstack": (lambda n, x: (n.dstack([x, x]), n.dstack([x[0], x[1]])), M),
    "column_stack": (lambda n, x: n.column_stack([x, x[:, 0]]), M),
    "append": (lambda n, x: (n.append(x, x), n.append(x, x, axis=1)), M),
    "split": (lambda n, x: n.split(x, 3), M),
    "split-at": (lambda n, x: n.split(x, [1, 3, -1, 9], axis=1), M),
    "array_split": (lambda n, x: n.array_split(x, 3), V),
    "splits": (lambda n, x: [*n.hsplit(x, 2), *n.vsplit(x, 3)], M),
    "dsplit": (lambda n, x: n.dsplit(x, 2), A),
    "tile": (lambda n, x: (n.tile(x, 2), n.tile(x, (2, 1)), n.tile(x, (2, 1, 3))), M),
    "tile-scalar": (lambda n, x: n.tile(x, (2, 2)), S),
    "repeat": (lambda n, x: (n.repeat(x, 2), n.repeat(x, 3, axis=0), x.repeat(2, 1)), M),
    "repeat-counts": (lambda n, x: n.repeat(x, [1, 0, 2], axis=0), M),
    "repeat-none": (lambda n, x: n.repeat(x, 0), M),
    "roll": (lambda n, x: (n.roll(x, 2), n.roll(x, -1, 0), n.roll(x, (1, 2), (0, 1))), M),
    "roll-both": (lambda n, x: (n.roll(x, 1, (0, 1)), n.roll(x, (1, 1), 0)), M),
    "take": (lambda n, x: (n.take(x, 5), n.take(x, [0, 3], axis=1), x.take([2, 0, 1], 0)), M),
    "take-shaped": (lambda n, x: n.take(x, np.array([[0, 1], [2, -1]]), axis=0), M),
    "diff": (lambda n, x: (n.diff(x), n.diff(x, axis=0), n.diff(x, 2), n.diff(x, 0)), M),
    "diff-ends": (lambda n, x: n.diff(x, prepend=0.0, append=x[:2]), V),
    "diff-bool": (lambda n, x: n.diff(x > 1), V),
    "pad": (lambda n, x: (n.pad(x, 1), n.pad(x, (1, 2)), n.pad(x, ((1, 0), (0, 2)))), M),
    "pad-value": (lambda n, x: n.pad(x, 2, constant_values=7), M),
    "pad-values": (lambda n, x: n.pad(x, 1, constant_values=((1, 2), (3, 4))), M),
    "pad-edge": (lambda n, x: n.pad(x, ((2, 1), (0, 3)), "edge"), M),
    "pad-reflect": (lambda n, x: n.pad(x, (2, 3), mode="reflect"), M),
    "pad-far": (lambda n, x: n.pad(x, 9, mode="reflect"), V),
    "pad-symmetric": (lambda n, x: n.pad(x, (3, 1), "symmetric"), M),
    "pad-wrap": (lambda n, x: n.pad(x, (3, 6), "wrap"), M),
    "tril": (lambda n, x: (n.tril(x), n.tril(x, 1), n.triu(x), n.triu(x, -1)), M),
    "tril-batch": (lambda n, x: n.tril(x), A),
    "tril-vector": (lambda n, x: n.triu(x), V),
    "meshgrid": (lambda n, x, y: n.meshgrid(x, y), V, M[0]),
    "meshgrid-ij": (lambda n, x, y: n.meshgrid(x, y, indexing="ij", sparse=True), V, M[0]),
    "likes": (lambda n, x: (n.zeros_like(x), n.ones_like(x, dtype=bool), n.full_like(x, 3)), M),
    "likes-shape": (lambda n, x: n.full_like(x, 2, shape=(2, 2)), V),
    "copy": (lambda n, x: (n.copy(x), x.copy()), M),
    "select": (lambda n, x: n.select([x > 2, x < 0], [x, -x], 9), V),
    "linspace": (lambda n, x: (n.linspace(x, 4.0, 5), n.linspace(0.0, x, 4, endpoint=False)), S),
    "linspace-arrays": (lambda n, x: n.linspace(x, x * 2, 4, axis=1), M.astype("f4")),
    "linspace-int": (lambda n, x: n.linspace(x, 7, 4, dtype=np.int32), S),
    "linspace-equal": (lambda n, x: n.linspace(x, x, 3), S),
}


@on_each_device("name", CASES, emulated=sampled(CASES, 2))
def test_function_gives_what_numpy_gives(name: str, same_as_numpy: Any) -> None:
    function, *arrays = CASES[name]
    # A NumPy scalar is not an array that has methods for lists; it is traced like one all the same.
    same_as_numpy(function, *arrays)


def test_empty_arrays_keep_their_shapes(same_as_numpy: Any) -> None:
    empty = np.ones((0, 3), np.float32)
    same_as_numpy(lambda n, x: (n.reshape(x, (3, 0)), n.roll(x, 1), n.flip(x), x.T), empty)
    same_as_numpy(lambda n, x: (n.tile(x, (2, 2)), n.repeat(x, 2, 1), n.pad(x, 1)), empty)
    same_as_numpy(lambda n, x: (n.concatenate([x, x]), n.stack([x, x], 1), n.ravel(x)), empty)


@pytest.mark.parametrize(
    ("function", "error"),
    [
        (lambda n, x: n.reshape(x, (5, 5)), ValueError),
        (lambda n, x: n.reshape(x, (-1, -1)), ValueError),
        (lambda n, x: n.transpose(x, (0, 0)), ValueError),
        (lambda n, x: n.transpose(x, (0,)), ValueError),
        (lambda n, x: n.squeeze(x, 0), ValueError),
        (lambda n, x: n.expand_dims(x, 5), ValueError),
        (lambda n, x: n.swapaxes(x, 0, 2), ValueError),
        (lambda n, x: n.broadcast_to(x, (3, 5)), ValueError),
        (lambda n, x: n.concatenate([x, x[:, :2]]), ValueError),
        (lambda n, x: n.concatenate([x, x[0]]), ValueError),
        (lambda n, x: n.concatenate([]), ValueError),
        (lambda n, x: n.stack([x, x.T]), ValueError),
        (lambda n, x: n.split(x, 2), ValueError),
        (lambda n, x: n.pad(x, -1), ValueError),
        (lambda n, x: n.take(x, 99), IndexError),
        (lambda n, x: n.repeat(x, -1), ValueError),
        (lambda n, x: n.diagonal(x[0]), ValueError),
        (lambda n, x: n.diff(x, -1), ValueError),
    ],
)
def test_errors_are_numpys(function: Any, error: type[Exception], traced: Any) -> None:
    for run in (lambda: function(np, M), lambda: function(jnp, M)):
        with pytest.raises(error):
            run()
    with pytest.raises(error):
        traced(lambda x: function(jnp, x), M)


def test_layout_orders_are_refused(traced: Any) -> None:
    with pytest.raises(ValueError, match=r"memory layout.*test_manipulation\.py"):
        traced(lambda x: x.ravel("K"), M)


def test_irregular_positions_are_gathered(traced: Any) -> None:
    positions = np.random.default_rng(0).permutation(400)
    got = traced(lambda x: np.take(x, positions), np.arange(400.0))
    np.testing.assert_array_equal(got, positions)
