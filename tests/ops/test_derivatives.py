"""The derivative rule of every operation, on both targets."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minijit
import minijit.numpy as jnp
from minijit import lax
from minijit.graph.aval import ShapedArray
from minijit.graph.primitive import Kind, Primitive, Unsupported, all_primitives
from minijit.graph.trace import bind
from tests.conftest import Device, on_each_device
from tests.derivatives import assert_differentiable
from tests.ops.samples import elementwise_primitives

Array = np.ndarray[Any, Any]
FLOAT = np.dtype(np.float64)


def _dtypes(primitive: Primitive) -> list[np.dtype[Any]] | None:
    """Operand dtypes, float64 wherever it takes them; None where the result is no float64."""
    given = {"select": "?dd", "ldexp": "di"}.get(primitive.name, "d" * len(primitive.samples))
    dtypes = list(map(np.dtype, given))
    try:
        result = primitive.abstract_eval(*(ShapedArray((), dtype) for dtype in dtypes))
    except TypeError:
        return None
    return dtypes if result.dtype == FLOAT else None


def _samples(primitive: Primitive, dtypes: list[np.dtype[Any]]) -> list[Array]:
    """Random operands well inside the domain."""
    rng = np.random.default_rng(zlib.crc32(primitive.name.encode()))
    domains = primitive.samples or ((-4.0, 4.0),) * len(dtypes)
    operands = []
    for (low, high), dtype in zip(domains, dtypes, strict=True):
        margin = 0.1 * (high - low)
        values = rng.uniform(low + margin, high - margin, 6)
        operands.append(values > 0 if dtype.kind == "b" else values.astype(dtype))
    return operands


PRIMITIVES = tuple(all_primitives())
"""Before any test has declared another one."""
DIFFERENTIABLE = [p for p in elementwise_primitives() if _dtypes(p) is not None]


@on_each_device("primitive", DIFFERENTIABLE, DIFFERENTIABLE[::8])
def test_elementwise(device: Device, primitive: Primitive) -> None:
    operands = _samples(primitive, _dtypes(primitive) or [])

    def function(*floats: Any) -> Any:
        given = iter(floats)
        return bind(primitive, *(next(given) if x.dtype == FLOAT else x for x in operands))

    assert_differentiable(device, function, [x for x in operands if x.dtype == FLOAT])


def test_every_operation_on_floats_has_a_rule() -> None:
    followed = (Kind.CALL, Kind.BRANCH, Kind.LOOP, Kind.INDEX)
    missing = [
        p.name
        for p in PRIMITIVES
        if isinstance(p.jvp, Unsupported)
        and isinstance(p.vjp, Unsupported)
        and p.kind not in followed
        and (p.kind is not Kind.ELEMENTWISE or _dtypes(p) is not None)
    ]
    # The others give no floats; nobody asks a pullback for its own derivative.
    no_floats = ["argmax", "argmin", "argsort", "print", "pullback", "reduce_all", "reduce_any"]
    assert sorted(missing) == no_floats


def _rows(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).uniform(-2, 2, shape)


def _unlike(*shape: int) -> Array:
    """Numbers that are far from each other, so that no step makes another one the largest."""
    count = int(np.prod(shape))
    return np.random.default_rng(count).permutation(np.linspace(-2, 2, count)).reshape(shape)


ZEROS = np.array([[2.0, 0.0, -3.0, 1.5], [0.0, 1.2, 0.0, 2.0], [1.0, -2.0, 0.5, 3.0]])

STRUCTURAL: dict[str, tuple[Callable[..., Any], list[Array]]] = {
    "cast": (lambda x: np.sin(x.astype(np.float64)), [_rows(3)]),
    "broadcast_to": (lambda x: np.broadcast_to(x * x, (2, 3, 4)), [_rows(3, 1)]),
    "broadcast-scalar": (lambda x, y: x * y + x, [np.float64(1.5) + np.zeros(()), _rows(3, 2)]),
    "broadcast-unit": (lambda x, y: x * y, [_rows(3, 1), _rows(1, 4)]),
    "reshape": (lambda x: x.reshape(3, 4) ** 2, [_rows(2, 6)]),
    "transpose": (lambda x: np.exp(x.transpose(2, 0, 1)), [_rows(2, 3, 4)]),
    "squeeze": (lambda x: x.squeeze(1) ** 3, [_rows(3, 1, 2)]),
    "expand": (lambda x: x[:, None] * x[None], [_rows(4)]),
    "rev": (lambda x: x[::-1, ::-1] * x, [_rows(3, 4)]),
    "slice": (lambda x: x[1:, 1:-1] * x[:-1, 2:], [_rows(4, 5)]),
    "slice-steps": (lambda x: x[::2] * x[1::2], [_rows(6, 2)]),
    "slice-steps-cut": (lambda x: np.sin(x[1:9:3]), [_rows(10)]),
    "slice-negative": (lambda x: x[-2:0:-2] ** 2, [_rows(7)]),
    "slice-empty": (lambda x: x[2:2] * 2, [_rows(4)]),
    "integers": (lambda x: x[np.array([3, 0, 0, 1])] ** 2, [_rows(4)]),
    "diagonal": (lambda x: np.diagonal(x) ** 2, [_rows(3, 4)]),
    "diagonal-below": (lambda x: np.diagonal(x, -1, 1, 2) ** 2, [_rows(2, 4, 3)]),
    "diagonal-turned": (lambda x: np.diagonal(x, 1, 2, 0) ** 2, [_rows(4, 2, 3)]),
    "concatenate": (lambda x, y: np.concatenate([x, y, x], 1) ** 2, [_rows(2, 3), _rows(2, 1)]),
    "pad": (
        lambda x, v: jnp.pad(x * x, ((1, 2), (0, 1)), constant_values=v),
        [_rows(2, 3), _rows()],
    ),
    "pad-between": (lambda x: lax.pad(x * x, 0.0, [(1, -1, 2)]), [_rows(4)]),
    "sum": (lambda x: (x * x).sum((0, 2)), [_rows(2, 3, 4)]),
    "mean": (lambda x: np.mean(np.exp(x), axis=1, keepdims=True), [_rows(3, 4)]),
    "var": (lambda x: np.var(x, axis=0), [_rows(5, 3)]),
    "max": (lambda x: x.max(1) ** 2, [_unlike(3, 5)]),
    "min": (lambda x: x.min() * x, [_unlike(3, 4)]),
    "prod": (lambda x: x.prod((0, 2)), [_rows(2, 3, 3)]),
    "prod-one": (lambda x: (x * x).prod(1), [_rows(4, 1)]),
    "prod-zeros": (lambda x: x.prod(1), [ZEROS]),
    "gather": (lambda x: (x * x)[lax.iota(np.int64, 5) % 3 * 2], [_rows(5, 3)]),
    "gather-two": (
        lambda x: x[lax.iota(np.int32, 4) % 3, 1 - lax.iota(np.int32, 4) % 2] * x[0, 0],
        [_rows(3, 2)],
    ),
    "take-along": (lambda x: np.take_along_axis(x, np.argsort(x, 1)[:, :2], 1), [_unlike(3, 5)]),
    "sort": (lambda x: np.sort(x, axis=0) * x, [_unlike(5, 3)]),
    "scatter-add": (
        lambda x, y: (x * x).at[lax.iota(np.int64, 4) % 3].add(np.sin(y)),
        [_rows(3, 2), _rows(4, 2)],
    ),
    "scatter-set": (
        lambda x, y: (x * x).at[:, lax.iota(np.int64, 4) % 3].set(y * y),
        [_rows(2, 5), _rows(2, 4)],
    ),
    "set-slice": (lambda x, y: (x * x).at[1::2, 0].set(np.sin(y)), [_rows(5, 2), _rows(2)]),
    "dynamic-slice": (
        lambda x, y: lax.dynamic_update_slice_in_dim(x * x, y, (x[0] > 9).sum() + 1, 0),
        [_rows(5, 2), _rows(2, 2)],
    ),
    "cumsum": (lambda x: np.cumsum(x * x, axis=1), [_rows(3, 4)]),
    "cumprod": (lambda x: np.cumprod(x, axis=0), [_rows(4, 2)]),
    "cumprod-zeros": (lambda x: np.cumprod(x, axis=1), [ZEROS]),
    "where": (lambda x, y: np.where(x > y, x * y, np.sin(y)), [_rows(3, 4), _rows(4)]),
    "clip": (lambda x: np.clip(x, -1, 1) * x, [_rows(9)]),
    "matmul": (lambda x, y: x @ y, [_rows(3, 4), _rows(4, 2)]),
    "matmul-vectors": (lambda x, y: (x @ y) * x, [_rows(4), _rows(4, 1)[:, 0]]),
    "matmul-row": (lambda x, y: x @ np.sin(y), [_rows(4), _rows(4, 3)]),
    "matmul-column": (lambda x, y: np.sin(x) @ y, [_rows(3, 4), _rows(4)]),
    "matmul-batches": (lambda x, y: x @ y, [_rows(2, 3, 4), _rows(2, 4, 3)]),
    "matmul-shared": (lambda x, y: np.sin(x) @ y, [_rows(2, 3, 4), _rows(4, 3)]),
    "matmul-shared-left": (lambda x, y: x @ np.sin(y), [_rows(3, 4), _rows(2, 4, 2)]),
    "matmul-broadcast": (lambda x, y: x @ y, [_rows(2, 1, 3, 4), _rows(5, 4, 2)]),
    "matmul-batch-vector": (lambda x, y: x @ y, [_rows(2, 3, 4), _rows(4)]),
    "matmul-vector-batch": (lambda x, y: x @ y, [_rows(4), _rows(2, 4, 3)]),
    "einsum": (lambda x, y: np.einsum("bij,bkj->bik", x, y), [_rows(2, 3, 4), _rows(2, 2, 4)]),
    "tensordot": (lambda x, y: np.tensordot(x, y, ([0, 1], [1, 0])), [_rows(2, 3, 4), _rows(3, 2)]),
    "softmax": (lambda x: np.exp(x) / np.exp(x).sum(1, keepdims=True), [_rows(3, 4)]),
    "norm": (lambda x: np.linalg.norm(x, axis=1), [_rows(3, 4)]),
    "associative_scan": (lambda x: lax.associative_scan(lambda a, b: a * b, x), [_rows(5)]),
    "map": (lambda x: lax.map(lambda row: row.sum() * row, x), [_rows(3, 4)]),
}
FEW = [
    name for name in STRUCTURAL if name in ("slice-steps", "softmax", "pad", "matmul", "cumprod")
]


@on_each_device("name", STRUCTURAL, FEW)
def test_structural(device: Device, name: str) -> None:
    function, operands = STRUCTURAL[name]
    assert_differentiable(device, function, operands)


@pytest.mark.parametrize(
    ("function", "x", "slope"),
    [
        (abs, 0.0, 0.0),
        (np.sign, 0.0, 0.0),
        (lambda x: x**0, 0.0, 0.0),
        (lambda x: x**0.0, 0.0, 0.0),
        (lambda x: x**1, 0.0, 1.0),
        (lambda x: x**2, 0.0, 0.0),
        (lambda x: x**3, 0.0, 0.0),
        (lambda x: x**5, 0.0, 0.0),
        (lambda x: x * x, 0.0, 0.0),
        (lambda x: np.maximum(x, 0.0), 0.0, 0.5),
        (lambda x: np.minimum(x, x), 1.0, 1.0),
        (lambda x: np.hypot(x, 0.0), 0.0, 0.0),
        (lambda x: np.logaddexp(x, -np.inf), 2.0, 1.0),
        (np.sqrt, 0.0, np.inf),
        (lambda x: np.floor(x) + np.rint(x), 0.5, 0.0),
    ],
)
def test_slopes_where_they_are_a_matter_of_convention(
    function: Any, x: float, slope: float
) -> None:
    got = minijit.grad(function)(np.float32(x))
    assert (float(got), got.dtype) == (slope, np.float32)


def test_equal_extrema_share_the_slope() -> None:
    x = np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]], np.float32)
    want = [[0, 0.5, 0.5], [1 / 3, 1 / 3, 1 / 3]]
    np.testing.assert_allclose(minijit.grad(lambda x: x.max(1).sum())(x), want, rtol=1e-6)


def test_what_is_no_extremum_has_no_part_in_its_slope() -> None:
    x = np.array([[3.0, 1.0, 2.0], [1.0, np.inf, -np.inf]], np.float32)
    moved = np.array([[1.0, np.nan, np.inf], [np.nan, 5.0, -np.inf]], np.float32)
    _, tangent = minijit.jvp(lambda x: x.max(1), (x,), (moved,))
    np.testing.assert_array_equal(tangent, np.array([1, 5], np.float32))
    slope = minijit.grad(lambda x: np.log(x.min(1)).sum())(np.array([[0.0, 2.0]], np.float32))
    np.testing.assert_array_equal(slope, np.array([[np.inf, 0]], np.float32))


def test_a_root_that_a_mask_hides_has_to_be_hidden_from_the_root_as_well() -> None:
    x = np.array([4.0, 0.0, -1.0], np.float32)
    once = minijit.grad(lambda x: np.where(x > 0, np.sqrt(x), 0).sum())(x)
    twice = minijit.grad(lambda x: np.where(x > 0, np.sqrt(np.where(x > 0, x, 1)), 0).sum())(x)
    assert np.isnan(once[1:]).all()
    np.testing.assert_array_equal(twice, np.array([0.25, 0, 0], np.float32))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_gradients_have_the_dtype_of_what_they_belong_to(dtype: Any) -> None:
    x = np.array([0.5, 1.0], dtype)
    got = minijit.grad(lambda x: (np.exp(x) * x.astype(np.float64)).sum())(x)
    assert got.dtype == dtype
    np.testing.assert_allclose(got, np.exp(x) * (1 + x), rtol=1e-3)


def test_integers_on_the_way_have_no_derivative() -> None:
    x = np.array([0.7, 1.6, 2.2], np.float32)
    got = minijit.grad(lambda x: (x * x.astype(np.int32) + (x > 1) + x.argmax()).sum())(x)
    np.testing.assert_array_equal(got, np.array([0, 1, 2], np.float32))
