"""Programs as text, in the form JAX prints them."""

from __future__ import annotations

from typing import Any

import numpy as np

import minijit
import minijit.numpy as jnp
from minijit.graph.pretty import canonical_text, format_eqn, format_jaxpr

X = np.ones((4, 6), np.float32)


def text(function: Any, *args: Any) -> str:
    return format_jaxpr(minijit.make_jaxpr(function)(*args), source=False)


def test_elementwise_and_literals() -> None:
    assert text(lambda x, s: (jnp.exp(x) * 2.0 + s, s), X, 3) == (
        "{ lambda ; a:f32[4,6] b:i64[]*. let\n"
        "    c:f32[4,6] = exp a\n"
        "    d:f32[4,6] = mul c 2.0:f32[]\n"
        "    e:f32[] = convert_element_type[dtype=float32 weak_type=False] b\n"
        "    f:f32[4,6] = add d e\n"
        "  in (f, b) }"
    )


def test_parameters() -> None:
    assert text(lambda x: x.T.sum(0), X) == (
        "{ lambda ; a:f32[4,6]. let\n"
        "    b:f32[6,4] = transpose[permutation=(1,0)] a\n"
        "    c:f32[4] = reduce_sum[axes=(0,)] b\n"
        "  in (c,) }"
    )


def test_captured_arrays_are_hidden_inputs() -> None:
    assert text(lambda x: x + X, X) == (
        "{ lambda a:f32[4,6]; b:f32[4,6]. let\n    c:f32[4,6] = add b a\n  in (c,) }"
    )


def test_calls_show_their_program() -> None:
    inner = minijit.jit(lambda v: v * 2.0)
    assert text(lambda x: inner(x) + 1.0, X) == (
        "{ lambda ; a:f32[4,6]. let\n"
        "    b:f32[4,6] = jit[name=<lambda>] a\n"
        "      jaxpr:\n"
        "        { lambda ; a:f32[4,6]. let\n"
        "            b:f32[4,6] = mul a 2.0:f32[]\n"
        "          in (b,) }\n"
        "    c:f32[4,6] = add b 1.0:f32[]\n"
        "  in (c,) }"
    )


def test_nothing_in_nothing_out() -> None:
    assert text(lambda: ()) == "{ lambda ; . let\n  in () }"


def test_each_equation_has_the_users_line() -> None:
    def stepped(x: Any) -> Any:
        y = x + 1
        return y * 2

    first = stepped.__code__.co_firstlineno
    jaxpr = minijit.make_jaxpr(stepped)(X)
    lines = str(jaxpr).splitlines()
    assert lines[1].endswith(f"  # test_pretty.py:{first + 1} (stepped)")
    assert lines[2].endswith(f"  # test_pretty.py:{first + 2} (stepped)")
    assert format_eqn(jaxpr.eqns[1]).startswith("b:f32[4,6] = mul a 2.0:f32[]  # test_pretty.py")


def test_the_canonical_text_is_of_the_program_and_not_of_its_lines() -> None:
    one = minijit.make_jaxpr(lambda x: jnp.sin(x) * 2)(X)
    other = minijit.make_jaxpr(
        lambda y: jnp.sin(y) * 2,
    )(X)
    assert canonical_text(one) == canonical_text(other)
    assert canonical_text(one) != canonical_text(minijit.make_jaxpr(lambda x: jnp.sin(x) * 3)(X))
    weak = minijit.make_jaxpr(lambda s: s)(2)
    strong = minijit.make_jaxpr(lambda s: s)(np.int64(2))
    assert canonical_text(weak) != canonical_text(strong)


def test_names_after_z_have_two_letters() -> None:
    printed = text(lambda *xs: xs[-1], *(X,) * 28)
    assert "z:f32[4,6] aa:f32[4,6] ab:f32[4,6]. let\n  in (ab,) }" in printed
