"""Rewrites: where they apply and where not, their types, their steps, their place in keys."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minijit
import minijit.numpy as mnp
from minijit.extend import elementwise, pattern, scope
from minijit.graph.config import config
from minijit.graph.errors import DeclarationError
from tests.conftest import Device

X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)


def log_of_exp() -> Any:
    return pattern(lambda x: np.log(np.exp(x)), name="log_of_exp")(lambda x: x)


def operations(function: Any, *args: Any) -> list[str]:
    """The primitives of the optimized program."""
    from minijit.runtime.pipeline import optimize

    jaxpr = optimize(minijit.make_jaxpr(function)(*args))
    return [eqn.primitive.name for eqn in jaxpr.eqns]


def test_a_formula_is_replaced(device: Device, counts: Counter[str]) -> None:
    log_of_exp()
    f = minijit.jit(lambda x: np.log(np.exp(x * 100)) + 1)
    np.testing.assert_array_equal(device.get(f(device.put(X))), X * 100 + 1)  # no overflow
    assert counts["rewrite"] == 1
    assert operations(lambda x: np.log(np.exp(x * 100)) + 1, X) == ["mul", "add"]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3, 4)])
def test_other_types_than_the_example(dtype: str, shape: tuple[int, ...]) -> None:
    log_of_exp()
    x = np.ones(shape, dtype)
    want = ["convert_element_type"] if dtype == "int32" else []
    found = operations(lambda x: np.log(np.exp(x)) * 1.5, x)
    assert "exp" not in found
    assert [name for name in found if name.startswith("conv")][: len(want)] == want


def test_inner_ones_first_and_in_bodies() -> None:
    log_of_exp()
    assert operations(lambda x: np.log(np.exp(np.log(np.exp(x)))) * 2, X) == ["mul"]
    f = minijit.jit(
        lambda x: minijit.lax.fori_loop(0, 3, lambda i, v: np.log(np.exp(v)) * np.float32(30), x)
    )
    np.testing.assert_array_equal(f(X), X * np.float32(30) * np.float32(30) * np.float32(30))


def test_what_is_used_elsewhere_stays() -> None:
    log_of_exp()

    def both(x: Any) -> Any:
        e = np.exp(x)
        return np.log(e) * 2, e

    assert operations(both, X) == ["exp", "mul"]


def test_literals_and_parameters_have_to_be_the_same() -> None:
    pattern(lambda x: x * 2.0 + 1.0, name="affine")(lambda x: (x + 0.5) * 2.0)
    assert operations(lambda x: x * 2 + 1, X) == ["add", "mul"]
    assert operations(lambda x: x * 2.001 + 1, X) == ["mul", "add"]
    pattern(lambda x: np.exp(x).sum(axis=-1), name="sums")(lambda x: np.exp2(x).sum(axis=-1))
    assert operations(lambda x: np.exp(x).sum(axis=-1), X) == ["exp2", "reduce_sum"]
    assert operations(lambda x: np.exp(x).sum(axis=0), X) == ["exp", "reduce_sum"]
    assert operations(lambda x: np.exp(x).sum(axis=2), X[None]) == ["exp2", "reduce_sum"]


def test_equal_arguments_have_to_be_the_same_array() -> None:
    pattern(lambda x, y: x * y + x * x, name="factored")(lambda x, y: x * (y + x))
    assert operations(lambda a, b: a * b + a * a, X, X) == ["add", "mul"]
    assert operations(lambda a, b: a * b + b * b, X, X) == ["mul", "mul", "add"]


def test_into_an_operation_of_ones_own(device: Device) -> None:
    fused = elementwise(name="scaled_tanh")(lambda x, s: s * x)
    pattern(lambda x, s: s * np.tanh(x / s), name="softcap")(lambda x, s: fused(x, s))
    f = minijit.jit(lambda x: 3.0 * np.tanh(x / 3.0))
    np.testing.assert_array_equal(device.get(f(device.put(X))), 3 * X)


def test_steps(counts: Counter[str]) -> None:
    pattern(lambda x: x + x, at="inline", name="doubled")(lambda x: x * 2)
    pattern(lambda x: x * 2, at="loops", name="halved")(lambda x: x / 0.5)
    assert operations(lambda x: x + x, X) == ["div"]
    assert counts["rewrite"] == 2
    with pytest.raises(DeclarationError, match=r"no step 'fuse' .*: rewrites run after inline"):
        pattern(lambda x: x, at="fuse")


def test_programs_are_not_shared_with_those_of_other_rewrites(
    tmp_path: Path, counts: Counter[str]
) -> None:
    f = minijit.jit(lambda x: np.log(np.exp(x)))
    large = X * 1000
    with config.override(compilation_cache="rw", compilation_cache_dir=str(tmp_path)):
        for _ in range(2):
            with np.errstate(all="ignore"):
                assert not np.isfinite(f(large)).all()
            with scope():
                log_of_exp()
                np.testing.assert_array_equal(f(large), large)
            minijit.clear_caches()
    assert counts["compile"] == counts["disk_hit"] > 0
    assert "extensions" in str(f.explain()) or f.stats()["traces"] >= 2


def test_a_rewrite_for_all_threads_is_one_of_the_options() -> None:
    """In a process of its own, since it stays."""
    import subprocess
    import sys

    code = (
        "import numpy as np, minijit\n"
        "from minijit.extend import pattern\n"
        "f = minijit.jit(lambda x: np.log(np.exp(x)))\n"
        "x = np.full(3, 1000, np.float32)\n"
        "before = f(x)\n"
        "pattern(lambda x: np.log(np.exp(x)), name='p')(lambda x: x)\n"
        "print(np.isinf(before).all(), (f(x) == x).all(), len(minijit.config.extensions))\n"
    )
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True, text=True, check=True, cwd=root,
    )  # fmt: skip
    assert done.stdout.split() == ["True", "True", "1"]


@pytest.mark.parametrize(
    ("looked_for", "replacement", "message"),
    [
        (lambda x: x * 2, lambda x: x.sum(), r"replaces f32\[4,4\] by f32\[\]"),
        (lambda x: x * 2, lambda x: x.astype(np.float64), r"replaces f32\[4,4\] by f64\[4,4\]"),
        (lambda x: x, lambda x: x * 1, "computes nothing"),
        (lambda x, y: x * 2, lambda x, y: x, "does not use all of its arguments"),
        (lambda x: x * 2, lambda x, y: x, "takes 1 arrays and its replacement 2"),
        (lambda x: x + X[0], lambda x: x, "reads an array from its surroundings"),
    ],
)
def test_what_is_no_rewrite_is_refused_at_once(
    looked_for: Any, replacement: Any, message: str
) -> None:
    with pytest.raises(DeclarationError, match=message):
        pattern(looked_for, name="wrong")(replacement)
    with pytest.raises(DeclarationError, match="example= has 2"):
        pattern(lambda x: x * 2, example=(X, X))


def test_types_are_checked_where_it_is_used() -> None:
    pattern(lambda x: x * x, name="narrowing")(lambda x: (x + x).astype(mnp.float32))
    with pytest.raises(DeclarationError, match=r"replaces f64\[2\] by f32\[2\] \(at test_pattern"):
        minijit.jit(lambda x: x * x)(np.ones(2))
