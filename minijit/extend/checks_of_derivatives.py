"""The check of derivatives: against differences, and reverse mode against forward mode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijit.api.autodiff import jvp, vjp
from minijit.api.jit import jit
from minijit.extend.checks import Subject, host
from minijit.extend.of_function import NotArithmetic
from minijit.extend.samples import signatures
from minijit.graph.aval import ShapedArray
from minijit.graph.primitive import Kind, Primitive, Unsupported
from minijit.graph.trace import bind

__all__ = ["check_derivatives"]

_TOLERANCE = {"float64": 1e-5, "float32": 3e-2, "float16": 1.0}
"""How far differences may be off, by dtype, as a part of the largest."""


def check_derivatives(subject: Subject) -> str:
    """Assert the derivatives along random directions; float64 where the operation takes it."""
    try:
        return _derivatives(subject)
    except NotArithmetic:
        return "none: its code is more than arithmetic, and it has no jvp="


def _derivatives(subject: Subject) -> str:
    primitive = subject.primitive
    rules = (primitive.jvp, primitive.vjp)
    if all(isinstance(rule, Unsupported) for rule in rules):
        return "none: no rule"
    operands, params = _operands(subject)
    floats = [place for place, x in enumerate(operands) if x.dtype.kind == "f"]
    aval = primitive.abstract_eval(*(ShapedArray(x.shape, x.dtype) for x in operands), **params)
    results = aval if primitive.multiple_results else (aval,)
    if not floats or not any(each.dtype.kind == "f" for each in results):
        return "none: no floats"

    def function(*given: Any) -> Any:
        own = dict(zip(floats, given, strict=True))
        arrays = (own.get(place, x) for place, x in enumerate(operands))
        result = bind(primitive, *arrays, **params)
        several = result if primitive.multiple_results else (result,)
        return [each for each in several if each.dtype.kind == "f"]

    given = [operands[place] for place in floats]
    rng = np.random.default_rng(3)
    along = [rng.uniform(0.5, 1.5, x.shape).astype(x.dtype) for x in given]
    change = _differences(jit(function), given, along)
    tried = []
    if not isinstance(primitive.jvp, Unsupported):
        tangent = list(map(host, jvp(function, given, along)[1]))
        for got, want in zip(tangent, change, strict=True):
            _assert_near("the tangent", got, want)
        tried.append("forward")
    values, pullback = vjp(function, *given)
    weights = [rng.uniform(0.5, 1.5, np.shape(v)).astype(v.dtype) for v in map(host, values)]
    cotangents = map(host, pullback(weights))
    total = sum(np.sum(np.asarray(c, float) * t) for c, t in zip(cotangents, along, strict=True))
    wanted = sum(np.sum(w * d) for w, d in zip(weights, change, strict=True))
    scale = sum(np.sum(np.abs(w * d)) for w, d in zip(weights, change, strict=True))
    limit = _TOLERANCE[given[0].dtype.name] * max(scale, 1.0)
    if not abs(total - wanted) <= limit:
        raise AssertionError(
            f"reverse mode: the cotangents times a direction are {total}, and the weighted change "
            f"of the results along it is {wanted}"
        )
    tried.append("reverse")
    return f"{given[0].dtype.name}, {' and '.join(tried)} against differences"


def _operands(subject: Subject) -> tuple[list[Any], dict[str, Any]]:
    """Return operands well inside the domain, and parameters."""
    primitive = subject.primitive
    rng = np.random.default_rng(5)
    if primitive.kind is Kind.ELEMENTWISE:
        found = signatures(primitive, subject.dtypes)
        dtypes = max(found, key=lambda each: [d.itemsize * (d.kind == "f") for d in each])
        domains = primitive.samples or ((-4.0, 4.0),) * len(dtypes)
        return [_inside(rng, d, ends) for d, ends in zip(dtypes, domains, strict=False)], {}
    if primitive.kind is Kind.REDUCTION:
        floats = [d for d in subject.dtypes if d.kind == "f" and _takes(primitive, d)]
        dtype = max(floats or list(subject.dtypes), key=lambda d: d.itemsize)
        return [rng.uniform(0.5, 2.0, (3, 5)).astype(dtype)], {"axes": (1,)}
    operands = [np.asarray(x) for x in subject.operands]
    return operands, dict(subject.params)


def _inside(rng: np.random.Generator, dtype: np.dtype[Any], ends: tuple[float, float]) -> Any:
    margin = 0.1 * (ends[1] - ends[0])
    values = rng.uniform(ends[0] + margin, ends[1] - margin, 6)
    return values > 0 if dtype.kind == "b" else values.astype(dtype)


def _takes(primitive: Primitive, dtype: np.dtype[Any]) -> bool:
    try:
        primitive.abstract_eval(ShapedArray((2, 2), dtype), axes=(1,))
    except TypeError:
        return False
    return True


def _differences(
    function: Callable[..., Sequence[Any]], operands: Sequence[Any], along: Sequence[Any]
) -> list[Any]:
    """Return how results change along a direction: central differences."""
    step = float(np.finfo(operands[0].dtype).eps) ** (1 / 3)
    ends = []
    for sign in (1, -1):
        moved = [
            (x + sign * step * t).astype(x.dtype) for x, t in zip(operands, along, strict=True)
        ]
        ends.append([np.asarray(host(y), np.float64) for y in function(*moved)])
    return [(high - low) / (2 * step) for high, low in zip(*ends, strict=True)]


def _assert_near(what: str, got: Any, want: Any) -> None:
    limit = _TOLERANCE[got.dtype.name] * max(float(np.max(np.abs(want), initial=0.0)), 1.0)
    if got.shape != want.shape or not np.all(np.abs(got - want) <= limit):
        raise AssertionError(f"{what} is {got}, and differences give {want}")
