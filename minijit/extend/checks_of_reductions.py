"""The checks of the test kit that are of reductions."""

from __future__ import annotations

from typing import Any

import numpy as np

from minijit.api.jit import jit
from minijit.extend.checks import Subject, assert_types, host, one_kernel, round_trip
from minijit.graph.aval import ShapedArray
from minijit.graph.config import config
from minijit.graph.trace import bind, trace_function

__all__ = ["REDUCTION", "REDUCTION_ON", "apply_along", "draw_array", "promoted"]


def _rows(subject: Subject) -> list[Any]:
    """Return arrays of each dtype that the reduction takes, special values among the floats."""
    rng = np.random.default_rng(11)
    found = []
    for dtype in subject.dtypes:
        try:
            subject.primitive.abstract_eval(ShapedArray((3,), dtype), axes=(0,))
        except (TypeError, ValueError):
            continue
        if dtype.kind == "b":
            found.append(rng.integers(0, 2, (5, 37)).astype(bool))
        else:
            low = 0 if dtype.kind == "u" else -4
            found.append(rng.uniform(low, 4, (5, 37)).astype(dtype))
    if not found:
        raise AssertionError(f"it takes none of {[d.name for d in subject.dtypes]}")
    return found


def draw_array(subject: Subject, shape: tuple[int, ...]) -> Any:
    """Return an array of a float that the reduction takes, or of the first dtype."""
    dtypes = [array.dtype for array in _rows(subject)]
    floats = [dtype for dtype in dtypes if dtype.kind == "f" and dtype.itemsize >= 4]
    return np.random.default_rng(2).uniform(0.5, 4, shape).astype((floats or dtypes)[0])


def promoted(subject: Subject, array: Any) -> Any:
    """Return an operand as the operation hands it to its primitive."""
    jaxpr = trace_function(
        lambda xs: [apply_along(subject, xs[0], -1)],
        [ShapedArray(array.shape, array.dtype)],
        ["x"],
        "f",
        alone=True,
    ).jaxpr
    return array.astype(jaxpr.eqns[-1].invars[0].aval.dtype)


def apply_along(subject: Subject, x: Any, axis: int | None) -> Any:
    """Reduce an array along one axis, or all for None."""
    axes = tuple(range(x.ndim)) if axis is None else (axis % x.ndim,)
    if subject.operation is subject.primitive:
        return bind(subject.primitive, x, axes=axes)
    result = subject.operation(x, axes)
    if not isinstance(result, tuple):
        return result
    return result[subject.operation.primitives.index(subject.primitive)]


def _reduced_types(subject: Subject) -> str:
    arrays = [promoted(subject, array) for array in _rows(subject)]
    for array in arrays:
        for axes in ((0,), (1,), (0, 1)):
            assert_types(subject.primitive, [array], axes=axes)
    return ", ".join(dict.fromkeys(array.dtype.name for array in arrays))


def _reduced_values(subject: Subject) -> str:
    arrays = _rows(subject)
    choices: list[tuple[int | None, tuple[int, ...]]] = [(0, (0,)), (1, (1,)), (None, (0, 1))]

    def apply(xs: list[Any]) -> list[list[Any]]:
        return [[apply_along(subject, x, axis) for axis, _ in choices] for x in xs]

    for array, results in zip(arrays, jit(apply)(arrays), strict=True):
        operand = promoted(subject, array)
        for (_, axes), result in zip(choices, results, strict=True):
            want = subject.like(operand, axes=axes)
            biggest = np.abs(operand.astype(np.float64)).max(axis=axes)
            subject.compare(host(result), np.ma.asarray(want), [biggest])
    return f"{len(arrays)} dtypes over {len(choices)} choices of axes"


def _special_rows(subject: Subject) -> str:
    floats = [x.dtype for x in _rows(subject) if x.dtype.kind == "f" and x.dtype.itemsize >= 4]
    if not floats:
        return "it takes no floats"
    rows = np.array(
        [[1, np.nan, 3], [np.inf, 1, 2], [-np.inf, 0.0, 1], [-0.0, 0.0, -0.0]], floats[0]
    )
    got = host(jit(lambda x: apply_along(subject, x, 1))(rows))
    want = subject.like(promoted(subject, rows), axes=(1,))
    wrong = []
    for row, one, other in zip(rows, got, np.ma.asarray(want), strict=True):
        try:
            subject.compare(one[None], np.ma.asarray(other)[None], [np.ones(1)])
        except AssertionError:
            wrong.append(f"the row {row} -> {one!r}, not {other!r}")
    if wrong:
        raise AssertionError(f"{len(wrong)} of {len(rows)} differ:\n" + "\n".join(wrong))
    return "NaN, infinities, zeros of both signs"


def _same_bits(subject: Subject) -> str:
    long = draw_array(subject, (2, 40_000))
    kept = set()
    for threads in (1, 2, 3):
        with config.override(num_threads=threads):
            kept.add(host(jit(lambda x: apply_along(subject, x, 1))(long)).tobytes())
    if len(kept) != 1:
        raise AssertionError("the number of threads decides the bits of the result")
    return "1, 2 and 3 threads"


def _reduced_fusion(subject: Subject) -> str:
    array = draw_array(subject, (4, 33))
    compiled = jit(lambda x: x + apply_along(subject, x + x, 1)[:, None]).lower(array).compile()
    one_kernel(len(compiled.kernels()))
    return "between a sum and what uses its result: 1 kernel"


def _reduced_disk(subject: Subject) -> str:
    array = draw_array(subject, (4, 33))
    return round_trip(lambda x: apply_along(subject, x, 1), [array])


REDUCTION = {"types": _reduced_types, "threads": _same_bits}
REDUCTION_ON = {
    "values": _reduced_values,
    "special values": _special_rows,
    "fusion": _reduced_fusion,
    "disk": _reduced_disk,
}
