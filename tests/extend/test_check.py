"""The test kit: what passes, and that it finds each kind of fault."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest

from minijit import RecompileWarning, config
from minijit.extend import check_primitive, elementwise, library, plain, reduction
from minijit.graph.aval import ShapedArray
from minijit.ops.transcendental import tanh

FLOATS = ("float32", "float64")


def failures(*args: Any, **options: Any) -> dict[str, str]:
    """What the kit finds wrong, by the name of the check."""
    with pytest.raises(AssertionError) as caught:
        check_primitive(*args, **options)
    found: dict[str, str] = {}
    for line in str(caught.value).splitlines():
        if " FAILED" in line:
            name = line.partition(" FAILED")[0].strip()
            found[name] = ""
        elif line.startswith("      ") and found:
            found[name] += line.strip() + "\n"
    return found


def test_an_operation_of_minijits_own() -> None:
    report = check_primitive(tanh, ulp=4, dtypes=FLOATS)
    assert report.ok
    names = [result.name for result in report.results[:3]]
    assert names == ["types", "values, cpu", "broadcasting, cpu"]


def test_a_declared_function() -> None:
    mish = elementwise(name="mish")(lambda x: x * math.tanh(math.log1p(math.exp(x))))
    text = str(check_primitive(mish))
    assert text.startswith("mish (elementwise)\n  types ")
    assert "float16, float32, float64" in text
    assert "3 signatures against the function as Python" in text
    assert text.count("float64, forward and reverse against differences") == 2


def test_its_own_compiles_are_not_reported_as_the_authors() -> None:
    snake = elementwise(name="snake")(lambda x, a: x + math.sin(a * x) ** 2 / a)
    with config.override(recompile_warning=8), warnings.catch_warnings():
        warnings.simplefilter("error", RecompileWarning)
        report = check_primitive(
            snake, dtypes=("float64",), like=lambda x, a: x + np.sin(a * x) ** 2 / a
        )
    assert "1 signatures against like=" in str(report)


def test_overflow_of_single_precision_alone_is_told_from_a_fault() -> None:
    snake = elementwise(name="snake")(lambda x, a: x + math.sin(a * x) ** 2 / a)
    found = failures(snake, devices=("cpu",), dtypes=("float32",))
    assert list(found) == ["values, cpu"]
    assert "computes in double precision, where less overflows" in found["values, cpu"]
    assert check_primitive(
        snake,
        devices=("cpu",),
        dtypes=("float32",),
        like=lambda x, a: x + np.sin(a * x) ** 2 / a,
    ).ok


def test_a_reduction_with_several_results() -> None:
    ends = (lambda low, high: low, lambda low, high: high - low)
    options: dict[str, Any] = {"name": "extent", "only": FLOATS}
    extent = reduction(
        identity=(math.inf, -math.inf), element=lambda x: (x, x), finish=ends, **options
    )(lambda a, b, c, d: (min(c, a), max(d, b)))
    report = check_primitive(extent, devices=("cpu",))
    names = {result.name for result in report.results}
    assert {"extent_0: threads", "extent_1: disk, cpu"} <= names


def test_special_rows_are_shown_whole() -> None:
    options: dict[str, Any] = {"name": "smallest", "only": FLOATS}
    smallest = reduction(identity=math.inf, **options)(lambda a, b: min(a, b))
    check_primitive(smallest, devices=("cpu",))  # in Python's order: the one that is no NaN stays
    found = failures(
        smallest, devices=("cpu",), like=lambda x, *, axes: np.fmax.reduce(x, axis=axes[0])
    )
    assert (
        "the row [ 1. nan  3.] -> np.float32(1.0), not np.float32(3.0)"
        in found["special values, cpu"]
    )


def test_another_reference() -> None:
    softplus = elementwise(name="softplus")(lambda x: math.log1p(math.exp(-abs(x))) + (max(0, x)))
    options: dict[str, Any] = {"devices": ("cpu",), "dtypes": FLOATS}
    check_primitive(softplus, like=lambda x: np.logaddexp(x, x.dtype.type(0)), **options)
    assert "values, cpu" in failures(softplus, like=np.exp, **options)


def test_other_values_than_the_eager_code() -> None:
    wrong = elementwise(name="wrong", eager=lambda xp, x: x + x)(lambda x: x + x + 1)
    found = failures(wrong, devices=("cpu",), dtypes=FLOATS)
    assert set(found) == {"values, cpu", "broadcasting, cpu", "strides, cpu", "vmap, cpu"}
    assert "differ:" in found["values, cpu"]


def test_a_target_that_disagrees() -> None:
    wrong = elementwise(name="wrong", cuda=lambda x: x + 2)(lambda x: x + 1)
    found = failures(wrong, dtypes=FLOATS)
    assert all(name.endswith("cuda-emulated") for name in found)
    assert "values, cuda-emulated" in found


def test_a_rule_that_gives_other_dtypes() -> None:
    wrong = elementwise(name="wrong", eager=lambda xp, x: xp.asarray(x, np.float64))(lambda x: x)
    found = failures(wrong, devices=("cpu",), dtypes=FLOATS)
    assert "abstract_eval says f32" in found["types"]


def test_code_that_no_other_process_can_tell_apart() -> None:
    numbers = np.array([2.0, 3.0])
    looked_up = elementwise(
        "looked_up",
        scalar=plain(lambda x: x * numbers[1]),
        doc="An array is read.",
        dtypes=np.exp,
        eager=lambda xp, x: x * numbers[1],
    )
    found = failures(looked_up, devices=("cpu",), dtypes=("float64",))
    assert set(found) == {"disk, cpu"}
    assert "no text form" in found["disk, cpu"]


def test_an_operation_on_whole_arrays() -> None:
    def said(x: ShapedArray, *, times: int) -> ShapedArray:
        return ShapedArray((x.shape[0] * times,), x.dtype)

    repeated = library("repeated", lambda xp, x, *, times: xp.repeat(x, times), said, "Repeat.")
    x = np.arange(4, dtype=np.float32)
    report = check_primitive(repeated, x, params={"times": 3}, devices=("cpu",))
    assert report.results[1].detail == "2 kernels around 1 call"
    wrong = library("tiled", lambda xp, x, *, times: xp.tile(x, times + 1), said, "Tile.")
    found = failures(wrong, x, params={"times": 3}, devices=("cpu",))
    assert "abstract_eval says f32[12] and the result is f32[16]" in found["types"]
    assert "operands to try it on are needed" in failures(wrong, devices=("cpu",))["types"]


def test_dtypes_that_it_does_not_take() -> None:
    halves = elementwise(name="halves", only=("float64",))(lambda x: x / 2)
    found = failures(halves, dtypes=("float32",), devices=("cpu",))
    assert "computes with none of ['float32']" in found["types"]
