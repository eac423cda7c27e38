"""custom_jvp and custom_vjp: rules of users in every transformation, and what is refused."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minijit
import minijit.numpy as jnp
from minijit import lax
from minijit.graph.config import config
from tests.api.test_autodiff import close
from tests.conftest import Device

X = np.array([0.3, -1.2, 2.0], np.float32)
ONE = np.ones(3, np.float32)


def _cubed() -> Any:
    """A cube whose derivative says that it is tenfold: so it is known where it comes from."""

    @minijit.custom_jvp
    def cubed(x: Any) -> Any:
        return x**3

    @cubed.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        (x,), (moved,) = primals, tangents
        return cubed(x), 10 * x * x * moved

    return cubed


def _clipped() -> Any:
    @minijit.custom_vjp
    def clipped(x: Any, limit: Any) -> Any:
        return x * 1

    def forward(x: Any, limit: Any) -> Any:
        return clipped(x, limit), {"limit": limit}

    def backward(kept: Any, cotangent: Any) -> Any:
        return jnp.clip(cotangent, -kept["limit"], kept["limit"]), None

    clipped.defvjp(forward, backward)
    return clipped


def test_forward_rules_in_all_transformations(device: Device) -> None:
    f, x = _cubed(), device.put(X)
    close(device.get(minijit.jit(f)(x)), X**3)
    close(device.get(minijit.jvp(f, (x,), (device.put(ONE),))[1]), 10 * X**2)
    slope = minijit.grad(lambda x: f(x).sum())
    close(device.get(slope(x)), 10 * X**2)
    close(device.get(minijit.grad(lambda x: slope(x).sum())(x)), 20 * X)
    each = minijit.vmap(minijit.grad(f))
    close(device.get(each(x)), 10 * X**2)
    close(device.get(minijit.grad(lambda x: minijit.vmap(f)(x).sum())(x)), 10 * X**2)


def test_outside_of_programs_it_is_the_function_itself() -> None:
    f = _cubed()
    assert type(f(X)) is np.ndarray
    close(f(X), X**3)
    assert (f.__name__, f.__wrapped__(2)) == ("cubed", 8)
    assert repr(f).startswith("<custom_jvp of <function")


def test_reverse_rules_in_all_transformations(device: Device) -> None:
    f, x = _clipped(), device.put(X)
    limit = np.float32(0.5)
    close(device.get(minijit.jit(f)(x, limit)), X)
    slope = minijit.grad(lambda x: (f(x, limit) * x).sum())
    close(device.get(slope(x)), X + np.clip(X, -0.5, 0.5))
    both = minijit.grad(lambda x, limit: (f(x, limit) * x).sum(), (0, 1))
    close(device.get(both(x, limit)[1]), np.float32(0))
    over = minijit.grad(lambda x: (minijit.vmap(f, (0, None))(x, limit) * x).sum())
    close(device.get(over(x)), X + np.clip(X, -0.5, 0.5))
    close(device.get(minijit.vmap(slope)(x)), X + np.clip(X, -0.5, 0.5))
    # The gradient, f(x) + clip(x), is differentiated by the rule again.
    want = np.float32(0.5) + (np.abs(X) < 0.5)
    close(device.get(minijit.grad(lambda x: slope(x).sum())(x)), want.astype(np.float32))


def test_reverse_rules_refuse_forward_mode() -> None:
    f = _clipped()
    with pytest.raises(TypeError, match=r"clipped has a reverse rule alone \(at test_custom"):
        minijit.jvp(lambda x: f(x, 1.0), (X,), (X,))


def test_rules_in_loops_and_branches() -> None:
    f, g = _cubed(), _clipped()

    def looped(x: Any) -> Any:
        return lax.scan(lambda c, _: (f(c) * 0.1, None), x, None, length=2)[0].sum()

    first = 0.1 * X**3
    close(minijit.grad(looped)(X), (10 * X**2 * 0.1) * (10 * first**2 * 0.1))

    def branched(x: Any) -> Any:
        return lax.cond(x[0] > 0, lambda x: (g(x, 0.5) * x).sum(), lambda x: x.sum(), x)

    close(minijit.grad(branched)(X), X + np.clip(X, -0.5, 0.5))
    close(minijit.grad(branched)(-X), ONE)


def test_a_rule_for_each_argument() -> None:
    @minijit.custom_jvp
    def scaled(x: Any, n: Any, y: Any) -> Any:
        return x * n * y

    scaled.defjvps(lambda t, out, x, n, y: 2 * t * y, None, lambda t, out, x, n, y: t * out)
    total = minijit.grad(lambda x, n, y: scaled(x, n, y).sum(), (0, 2))
    of_x, of_y = total(X, np.int32(3), 2 * ONE)
    close(of_x, 4 * ONE)
    close(of_y, 6 * X)


def test_arguments_that_are_handed_through() -> None:
    @minijit.custom_jvp
    def plain(x: Any) -> Any:
        return x

    def run(function: Any, x: Any, times: int) -> Any:
        return function(x) * times

    applied = minijit.custom_jvp(run, nondiff_argnums=(0, 2))

    @applied.defjvp
    def rule(function: Any, times: int, primals: Any, tangents: Any) -> Any:
        return applied(function, *primals, times), 5 * tangents[0] * times

    close(minijit.grad(lambda x: applied(np.sin, x, 2).sum())(X), 10 * ONE)

    reverse = minijit.custom_vjp(run, nondiff_argnums=(0, 2))
    reverse.defvjp(
        lambda function, x, times: (run(function, x, times), ()),
        lambda function, times, kept, cotangent: (7 * times * cotangent,),
    )
    close(minijit.grad(lambda x: reverse(np.sin, times=2, x=x).sum())(X), 14 * ONE)


def test_trees_and_integers() -> None:
    @minijit.custom_vjp
    def f(tree: Any, n: Any) -> Any:
        return {"y": tree["a"] * n, "n": n + 1}

    f.defvjp(
        lambda tree, n: (f(tree, n), n),
        lambda n, cotangent: ({"a": 3 * cotangent["y"] * n, "b": jnp.ones(2, np.float32)}, None),
    )
    tree = {"a": X, "b": np.zeros(2, np.float32)}
    slope = minijit.grad(lambda tree, n: f(tree, n)["y"].sum())(tree, np.int8(2))
    close(slope["a"], 6 * ONE)
    close(slope["b"], np.ones(2, np.float32))


def test_a_rule_fuses_as_other_code_does(counts: Counter[str]) -> None:
    f = _cubed()
    close(minijit.grad(lambda x: (f(np.sin(x)) * 2).sum())(X), 20 * np.sin(X) ** 2 * np.cos(X))
    assert counts["compile"] == 1


def test_programs_with_rules_are_kept_on_the_disk(tmp_path: Path, counts: Counter[str]) -> None:
    f = _cubed()
    with config.override(compilation_cache="rw", compilation_cache_dir=str(tmp_path)):
        for _ in range(2):
            minijit.clear_caches()
            close(minijit.jit(lambda x: f(lax.stop_gradient(x)))(X), X**3)
    assert (counts["plan_not_kept"], counts["plan_hit"]) == (0, 1)


def test_what_is_read_from_outside_must_not_be_differentiated() -> None:
    weights = 2 * ONE

    def outer(x: Any, y: Any) -> Any:
        @minijit.custom_jvp
        def f(z: Any) -> Any:
            return z * weights * y

        f.defjvps(lambda t, result, z: 3 * t * y)
        return f(x).sum()

    close(minijit.grad(outer)(X, X), 3 * X)
    with pytest.raises(TypeError, match=r"f\(\) has a derivative of its own and reads a value"):
        minijit.grad(outer, 1)(X, X)


def _vjp_of(fwd: Any, bwd: Any) -> Any:
    f = minijit.custom_vjp(lambda x, y: x * y)
    f.defvjp(fwd, bwd)
    return minijit.grad(lambda x: f(x, x).sum())


def _jvp_of(rule: Any) -> Any:
    f = minijit.custom_jvp(lambda x: x * 2)
    f.defjvp(rule)
    return minijit.grad(lambda x: f(x).sum())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: minijit.grad(minijit.custom_jvp(lambda x: x.sum()))(X), "without a rule.*defjvp"),
        (lambda: minijit.grad(minijit.custom_vjp(lambda x: x.sum()))(X), "without a rule.*defvjp"),
        (lambda: _vjp_of(lambda x, y: x * y, lambda k, c: (c, c))(X), r"return \(result, resid"),
        (lambda: _vjp_of(lambda x, y: (x, 1), lambda k, c: (c,))(X), "tuple of 2 cotangents"),
        (lambda: _vjp_of(lambda x, y: (x, 1), lambda k, c: c)(X), "of 2 cotangents"),
        (
            lambda: _vjp_of(lambda x, y: (x, 1), lambda k, c: (c, c[:2]))(X),
            r"^bwd of \S+: y is float32",
        ),
        (lambda: _vjp_of(lambda x, y: (x, 1), lambda k, c: (c, (c, c)))(X), "another structure"),
        (lambda: _vjp_of(lambda x, y: (x[:2], 1), lambda k, c: (c, c))(X), "different things"),
        (lambda: _jvp_of(lambda p, t: p[0])(X), r"return \(result, tangent\)"),
        (lambda: _jvp_of(lambda p, t: (p[0], t[0][:2]))(X), r"^the jvp rule.*tangent float32\[2\]"),
        (lambda: _jvp_of(lambda p, t: (p[0], (t[0],)))(X), "another structure"),
        (lambda: _jvp_of(lambda p, t: (p[0][0], t[0]))(X), "different things"),
        (
            lambda: _jvp_of(lambda p, t: (p[0] * t[0], t[0]))(X),
            r"result from tangents \(at test_custom_derivatives.py.*primals alone",
        ),
        (lambda: minijit.custom_jvp(3), "custom_jvp takes a function"),
        (lambda: _cubed().defjvp(3), "defjvp takes a function"),
    ],
)
def test_refusals(call: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message) as caught:
        call()
    assert "test_custom_derivatives.py:" in str(caught.value)
