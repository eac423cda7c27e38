"""What is a new signature and what is not: counted traces, compiles and cache entries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import optree
import pytest

import minijit
from minijit.api.arguments import Binder
from minijit.graph.config import config
from minijit.graph.tree import flatten
from tests.conftest import Device

Counts = Counter[str]
F8 = np.arange(8, dtype=np.float32)


def test_sizes_of_the_cache(device: Device, counts: Counts) -> None:
    f = minijit.jit(lambda x: x + 1)
    sizes = [f._cache_size()]
    for x in (F8, F8 + 1, F8.reshape(2, 4)):
        np.testing.assert_array_equal(device.get(f(device.put(x))), x + 1)
        sizes.append(f._cache_size())
    assert sizes == [0, 1, 1, 2]
    assert (counts["trace"], counts["program"], counts["launch"]) == (2, 2, 3)
    f.clear_cache()
    assert f._cache_size() == 0
    f(device.put(F8))
    assert counts["trace"] == 3


@pytest.mark.parametrize(
    "other",
    [
        np.ones(9, np.float32),
        np.ones((8, 1), np.float32),
        np.ones((), np.float32),
        np.ones(8, np.float64),
        np.ones(8, np.int32),
        np.ones(8, bool),
        np.ones(0, np.float32),
    ],
    ids=lambda x: f"{x.dtype}{x.shape}",
)
def test_shape_and_dtype_are_in_the_key(device: Device, counts: Counts, other: Any) -> None:
    f = minijit.jit(lambda x: x + x)
    for x in (F8, other, F8, other):
        got = device.get(f(device.put(x)))
        np.testing.assert_array_equal(got, x + x)
        assert got.dtype == (x + x).dtype
    assert counts["trace"] == f._cache_size() == 2


def test_values_of_scalars_are_not_in_the_key(device: Device, counts: Counts) -> None:
    f = minijit.jit(lambda x, s: x * s)
    for s in (2.0, -3.5, 0.0, np.inf):
        with np.errstate(invalid="ignore"):
            np.testing.assert_array_equal(device.get(f(device.put(F8), s)), F8 * np.float32(s))
    assert counts["trace"] == 1


def test_types_of_scalars_are_in_the_key(device: Device, counts: Counts) -> None:
    f = minijit.jit(lambda x, s: x + s)
    x = np.array([1, 2], np.int8)
    for _ in range(2):
        for s in (1, True, 1.0, np.int8(1), np.int32(1), np.float32(1), np.bool_(1)):
            got = device.get(f(device.put(x), s))
            want = x + s
            assert got.dtype == want.dtype
            np.testing.assert_array_equal(got, want)
    assert counts["trace"] == 6  # a bool has one type, whoever made it


def test_array_scalar_and_length_one_are_three_things(device: Device) -> None:
    f = minijit.jit(lambda x: x * 2)
    for _ in range(2):
        for x in (np.float32(3), np.array(3, np.float32), np.full(1, 3, np.float32), 3.0):
            got = device.get(f(device.put(x)))
            assert got.shape == np.shape(x)
            assert (got == 6).all()


def test_positional_keyword_and_default_are_alike(device: Device, counts: Counts) -> None:
    f = minijit.jit(lambda a, b, scale=10.0: (a - b) * scale)
    a, b = map(device.put, (F8 * 2, F8))
    calls: list[Callable[[], Any]] = [
        lambda: f(a, b),
        lambda: f(a, b=b),
        lambda: f(b=b, a=a),
    ]
    for call in calls:
        np.testing.assert_array_equal(device.get(call()), F8 * 10)
    assert counts["trace"] == 1
    np.testing.assert_array_equal(device.get(f(a, b, 10.0)), F8 * 10)
    np.testing.assert_array_equal(device.get(f(a, b, scale=3.0)), F8 * 3)
    np.testing.assert_array_equal(device.get(f(a, b)), F8 * 10)
    assert counts["trace"] == 2


def test_the_order_of_dict_keys_is_not_in_the_key(device: Device, counts: Counts) -> None:
    f = minijit.jit(lambda d: d["a"] - d["b"])
    a, b = device.put(F8 * 3), device.put(F8)
    for tree in ({"a": a, "b": b}, {"b": b, "a": a}):
        np.testing.assert_array_equal(device.get(f(tree)), F8 * 2)
    assert counts["trace"] == 1


def test_structure_is_in_the_key(device: Device, counts: Counts) -> None:
    f = minijit.jit(lambda t: [leaf * 2 for leaf in t if leaf is not None])
    x = device.put(F8)
    for tree in ((x,), [x], (x, None), (x, x)):
        for _ in range(2):
            assert len(f(tree)) == len([leaf for leaf in tree if leaf is not None])
    assert counts["trace"] == 4


STRIDES: dict[str, Callable[[Any], Any]] = {
    "transposed": lambda a: a.T,
    "negative": lambda a: a[::-1, ::-1],
    "stepped": lambda a: np.repeat(a, 2, 1)[:, ::2],
    "broadcast": lambda a: np.broadcast_to(a[0], a.shape),
    "offset": lambda a: np.pad(a, 1)[1:-1, 1:-1],
    "fortran": np.asfortranarray,
}


@pytest.mark.parametrize("name", STRIDES)
def test_strides_are_not_traced_again(device: Device, counts: Counts, name: str) -> None:
    f = minijit.jit(lambda x: (x * 2 + 1, x.sum(0), x.max()))
    square = np.arange(36, dtype=np.float32).reshape(6, 6)
    view = STRIDES[name](square)
    for x in (square, view, square + 1, view):
        got = device.get(f(device.put(x)))
        for a, b in zip(got, (x * 2 + 1, x.sum(0), x.max()), strict=True):
            np.testing.assert_array_equal(a, b)
    assert counts["trace"] == 1


def test_strides_of_unit_axes_do_not_matter(device: Device, counts: Counts) -> None:
    f = minijit.jit(lambda x: x + 1)
    base = np.arange(24, dtype=np.float32).reshape(4, 3, 2)
    for x in (base[::4], base[:1], base[1:2].copy()):
        np.testing.assert_array_equal(device.get(f(device.put(x))), x + 1)
    assert (counts["trace"], counts["program"]) == (1, 1)


def test_strides_of_nothing_do_not_matter(device: Device, counts: Counts) -> None:
    f = minijit.jit(lambda x: x + 1)
    base = np.ones((5, 6), dtype=np.float32)
    for x in (base[:0, :3], base[:0, ::2], np.ones((0, 3), dtype=np.float32)):
        assert device.get(f(device.put(x))).shape == (0, 3)
    assert (counts["trace"], counts["program"]) == (1, 1)


def test_options_are_in_the_key(device: Device, counts: Counts) -> None:
    f = minijit.jit(lambda x: x + 1)
    x = device.put(F8)
    f(x)
    with config.override(debug_nans=True):
        f(x)
        f(x)
    f(x)
    assert counts["trace"] == 2
    with config.override(log_compiles=True):
        f(x)
    assert counts["trace"] == 2


def test_the_least_recently_used_entry_goes_first(device: Device, counts: Counts) -> None:
    f = minijit.jit(lambda x: x * 2)
    a, b, c = (device.put(np.ones(n, np.float32)) for n in (2, 3, 4))
    with config.override(cache_entries=2):
        for x in (a, b, a, c):  # b is the oldest when c comes
            f(x)
        assert (f._cache_size(), counts["trace"]) == (2, 3)
        f(a)
        f(c)
        assert counts["trace"] == 3
        np.testing.assert_array_equal(device.get(f(b)), np.full(3, 2))
        assert counts["trace"] == 4
        assert f._cache_size() == 2


def test_many_shapes_with_a_small_cache_stay_right(device: Device) -> None:
    f = minijit.jit(lambda x: (x * 2).sum())
    with config.override(cache_entries=3):
        for _ in range(2):
            for n in range(1, 9):
                assert device.get(f(device.put(np.ones(n, np.float32)))) == 2 * n
        assert f._cache_size() == 3


def test_jitting_one_function_again_shares_its_entries(device: Device, counts: Counts) -> None:
    def g(x: Any, n: Any = 1) -> Any:
        return x + n

    for _ in range(3):
        minijit.jit(g)(device.put(F8))
    assert counts["trace"] == 1
    minijit.jit(g, static_argnums=1)(device.put(F8), 2)
    assert counts["trace"] == 2


def test_clear_caches_forgets_every_function_also_nested_ones(device: Device) -> None:
    factor = [2.0]
    inner = minijit.jit(lambda x: x * factor[0])
    outer = minijit.jit(lambda x: inner(x) + 0.0)
    builtin = minijit.jit(abs)
    x = device.put(F8)
    assert device.get(outer(x))[1] == 2
    assert builtin(x) is not None
    factor[0] = 5.0
    assert device.get(outer(x))[1] == 2  # a scalar that was captured is part of the program
    minijit.clear_caches()
    assert [f._cache_size() for f in (inner, outer, builtin)] == [0, 0, 0]
    assert device.get(outer(x))[1] == 5


def test_callables_that_equal_each_other_do_not_share(device: Device) -> None:
    class Scale:
        def __init__(self, factor: float) -> None:
            self.factor = factor

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Scale)

        def __hash__(self) -> int:
            return 1

        def __call__(self, x: Any) -> Any:
            return x * self.factor

    functions = [minijit.jit(Scale(factor)) for factor in (1.0, 2.0)]
    assert [device.get(f(device.put(F8)))[1] for f in functions] == [1, 2]


def test_stats_count_what_ran(device: Device) -> None:
    f = minijit.jit(lambda x: (x @ x.T).sum())
    x = np.ones((3, 3), np.float32)
    f(device.put(x))
    f(device.put(x.T[::-1]))
    stats = f.stats()
    assert (stats["signatures"], stats["traces"], stats["plans"]) == (1, 1, 2)
    assert stats["kernels"] >= 2
    assert stats["eager_steps"] >= 2


def without_binding(patch: pytest.MonkeyPatch) -> None:
    def refused(*args: Any) -> Any:
        raise AssertionError("bound")

    patch.setattr(Binder, "bind", refused)


def both(a: Any, tree: Any = None, *rest: Any, n: int = 1, b: Any = 0.0, **more: Any) -> Any:
    total = a * n + 2 * b
    for place, leaf in enumerate(flatten((tree, rest, more))[0]):
        total = total + (place + 3) * leaf
    return total


HITS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "positions": ((F8, F8 + 1, F8 + 2), {}),
    "keywords": ((), {"b": F8 + 1, "a": F8}),
    "keywords in another order": ((), {"a": F8, "b": F8 + 1}),
    "keywords before positions": ((F8,), {"b": 1.5, "tree": F8 + 2}),
    "static": ((F8,), {"n": 3}),
    "static among others": ((F8,), {"tree": F8 + 3, "n": 2, "b": F8}),
    "containers": (({"z": 1, "a": 2}["a"] * F8, {"z": F8, "a": (F8 + 5, None)}), {}),
    "containers by keyword": ((F8,), {"b": 2.0, "tree": [F8, {"y": F8 + 1, "x": F8 + 2}]}),
    "rest": ((F8, (), F8 + 1, (F8 + 2, [F8 + 3])), {"zeta": F8, "beta": F8 + 7, "n": 4}),
}


@pytest.mark.parametrize("name", HITS)
def test_hits_bind_nothing_and_keep_the_order(
    device: Device, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    args, kwargs = (optree.tree_map(device.put, part) for part in HITS[name])
    f = minijit.jit(both, static_argnames="n")
    wants = [both(*HITS[name][0], **HITS[name][1])]
    np.testing.assert_allclose(device.get(f(*args, **kwargs)), wants[0], rtol=1e-6)
    without_binding(monkeypatch)
    for _ in range(2):
        np.testing.assert_allclose(device.get(f(*args, **kwargs)), wants[0], rtol=1e-6)


def test_calls_of_other_forms_do_not_share_short_cuts(device: Device) -> None:
    f = minijit.jit(both, static_argnames="n")
    for _ in range(3):
        for args, kwargs in HITS.values():
            got = f(*optree.tree_map(device.put, args), **optree.tree_map(device.put, kwargs))
            np.testing.assert_allclose(device.get(got), both(*args, **kwargs), rtol=1e-6)


def test_static_values_of_hits_are_told_apart_by_type(device: Device) -> None:
    f = minijit.jit(lambda x, n: x * 0 + (10 if n is True else n), static_argnums=1)
    for _ in range(2):
        assert [float(device.get(f(device.put(F8), n))[0]) for n in (1, True, 2)] == [1, 10, 2]


def test_numbers_beyond_int64_are_refused_at_every_call(device: Device) -> None:
    f = minijit.jit(lambda x, s: x * s)
    g = minijit.jit(lambda tree: tree["x"] * tree["s"])
    x = device.put(F8)
    for number in (2, 1 << 70, 3, -(1 << 63) - 1, 1 << 63):
        if abs(number) < 10:
            np.testing.assert_array_equal(device.get(f(x, number)), F8 * number)
            np.testing.assert_array_equal(device.get(g({"x": x, "s": number})), F8 * number)
            np.testing.assert_array_equal(device.get(f(x, s=number)), F8 * number)
            continue
        for call in (lambda n: f(x, n), lambda n: f(x, s=n)):
            with pytest.raises(OverflowError, match=f"argument s: .*{number}.*out of bounds"):
                call(number)
        with pytest.raises(OverflowError, match=r"argument tree\['s'\]: .*out of bounds"):
            g({"x": x, "s": number})
    limit = -(1 << 63)
    np.testing.assert_array_equal(device.get(f(x, limit)), F8 * np.float32(limit))


def test_plans_of_one_signature_are_bounded(device: Device) -> None:
    f = minijit.jit(lambda x: x + 1)
    base = np.arange(64, dtype=np.float32)
    with config.override(cache_entries=2):
        for _ in range(2):
            for step in (1, 2, 3, 4):
                view = device.put(base)[: 8 * step : step]
                for _ in range(2):
                    np.testing.assert_array_equal(device.get(f(view)), device.get(view) + 1)
        assert f.stats()["plans"] == 2
        assert len(f._hits) <= 4
    assert f.stats()["traces"] == 1
