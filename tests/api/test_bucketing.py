"""``bucketed``: as many programs as sizes, the results of the unpadded call; what is refused."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections import Counter
from typing import Any

import numpy as np
import pytest

import minijit
from minijit.api.recipe import Recipe
from minijit.bucketing import Bucketed, bucketed
from tests.conftest import Device, on_each_device


def normal(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def same(device: Device, actual: Any, expected: Any) -> None:
    """Equal in dtype and shape, and in value to float32's rounding."""
    actual = device.get(actual)
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


@on_each_device("calls", [1000], emulated=[200])
def test_many_lengths_are_as_many_programs_as_sizes(
    device: Device, counts: Counter[str], calls: int
) -> None:
    @bucketed(axis=-1, sizes=(32, 64, 96))
    @minijit.jit
    def centred(x: Any, mask: Any) -> Any:
        return x - x.mean(where=mask)

    lengths = np.random.default_rng(0).integers(0, 97, calls).tolist()
    for n in lengths:
        x = normal(n)
        result = device.get(centred(device.put(x)))
        if n:
            np.testing.assert_allclose(result, x - x.mean(), atol=1e-6)
        assert result.shape == (n,)
    assert counts["trace"] == counts["compile"] == centred._cache_size() == 3
    assert centred.stats()["copies"] == 0
    (report,) = centred.reports()
    assert report.lengths == Counter(lengths)
    assert sum(report.buckets.values()) == calls


@pytest.mark.parametrize("n", [0, 1, 5, 8, 9])
def test_powers_of_two(device: Device, n: int) -> None:
    double = bucketed()(minijit.jit(lambda x: x * 2))
    x = normal(n, 3)
    same(device, double(device.put(x)), x * 2)
    same(device, double.exact(device.put(x)), x * 2)


def test_a_length_that_is_a_size_is_passed_on(device: Device, counts: Counter[str]) -> None:
    seen: list[Any] = []

    def f(x: Any) -> Any:
        seen.append(x.shape)
        return x + 1

    x = device.put(normal(8))
    same(device, bucketed(sizes=(4, 8))(minijit.jit(f))(x), device.get(x) + 1)
    assert seen == [(8,)]  # nothing to crop, so that no other size was asked
    assert counts["launch"] == 1


def test_reductions_with_the_mask_the_length_and_neutral_fills(device: Device) -> None:
    @bucketed(axis={"x": 1, "y": 0, "z": 0}, sizes=16, fill={"y": -np.inf, "z": 0})
    @minijit.jit
    def reduced(x: Any, y: Any, z: Any, length: Any, *, mask: Any) -> Any:
        return {
            "mean": x.mean(1, where=mask),
            "max": x.max(1, where=mask, initial=-np.inf),
            "by length": np.where(np.arange(x.shape[1]) < length, x, 0).sum(1) / length,
            "neutral": y.max() + z.sum(),
            "softmax": np.exp(y - y.max()) / np.exp(y - y.max()).sum(),
        }

    x, y, z = normal(3, 11), normal(11, seed=1), normal(11, seed=2)
    got = reduced(device.put(x), device.put(y), z=device.put(z))
    e = np.exp(y - y.max())
    expected = {
        "mean": x.mean(1),
        "max": x.max(1),
        "by length": x.mean(1),
        "neutral": y.max() + z.sum(),
        "softmax": e / e.sum(),
    }
    assert list(got) == list(expected)
    for name, value in expected.items():
        same(device, got[name], value)
    exact = reduced.exact(device.put(x), device.put(y), device.put(z))
    for name, value in expected.items():
        same(device, exact[name], value)
    assert str(inspect.signature(reduced)) == "(x: 'Any', y: 'Any', z: 'Any') -> 'Any'"


def test_every_axis_that_follows_the_size_is_cropped_and_no_other(device: Device) -> None:
    # Eight columns for a size of eight: extents alone would not tell them apart.
    @bucketed(axis=0, sizes=(8, 16))
    @minijit.jit
    def f(x: Any) -> Any:
        return x, x.T, (x.sum(0), [x @ x.T, None]), x[:8]

    x = normal(5, 8)
    a, b, (c, (d, none)), e = f(device.put(x))
    assert none is None
    same(device, a, x)
    same(device, b, x.T)
    same(device, c, x.sum(0))
    same(device, d, x @ x.T)
    assert e.shape == (8, 8)


def test_the_program_that_was_asked_for_axes_serves_its_own_size(
    device: Device, counts: Counter[str]
) -> None:
    f = bucketed(sizes=(4, 8, 16))(minijit.jit(lambda x: x * 2))
    for n, traces in ((3, 2), (2, 2), (7, 2), (12, 3), (16, 3)):
        f(device.put(normal(n)))
        assert counts["trace"] == traces
    assert f.stats()["plans"] == 3


def test_how_to_pad_is_worked_out_once_for_each_kind_of_call(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds: list[Any] = []
    of = Recipe.of

    def counted(*args: Any) -> Recipe:
        kinds.append(args[-1])
        return of(*args)

    monkeypatch.setattr(Recipe, "of", counted)
    f = bucketed(axis=-1, sizes=(8, 16))(minijit.jit(lambda x, mask: np.where(mask, x * 2, 0)))
    for n in (3, 5, 8, 11, 16, 3):
        for x in (normal(n), normal(2, n), normal(n).astype("float64")):
            same(device, f(device.put(x)), x * 2)
    assert len(kinds) == 2  # of arrays with one axis, and with two
    same(device, f(x=device.put(normal(3))), normal(3) * 2)
    assert len(kinds) == 3


def test_out_axes_spare_the_second_trace(device: Device, counts: Counter[str]) -> None:
    axes = {"same": 0, "turned": -1, "rest": None}

    @bucketed(sizes=(4, 8), out_axes=axes)
    @minijit.jit
    def f(x: Any) -> Any:
        return {"same": x, "turned": x.T, "rest": (x.sum(), x[0])}

    x = normal(3, 4)
    got = f(device.put(x))
    same(device, got["same"], x)
    same(device, got["turned"], x.T)
    same(device, got["rest"][1], x[0])
    assert counts["trace"] == 1


@pytest.mark.parametrize(
    ("out_axes", "message"),
    [
        (1, r"axis 1 for the result\[0\] of shape \(4,\)"),
        ((0, 0), r"axis 0 for the result\[1\] of shape \(\)"),
        ((0, None, None), "out_axes does not fit the result"),
        ({"a": 0}, "out_axes does not fit the result"),
    ],
)
def test_out_axes_that_are_not_there(device: Device, out_axes: Any, message: str) -> None:
    f = bucketed(sizes=4, out_axes=out_axes)(minijit.jit(lambda x: (x, x.sum())))
    with pytest.raises(ValueError, match=message):
        f(device.put(normal(3)))


def test_an_axis_that_only_depends_on_the_size_is_refused(device: Device) -> None:
    differences = minijit.jit(lambda x: x[1:] - x[:-1])
    x = device.put(normal(5))
    with pytest.raises(ValueError, match=r"extent 7 for the size 8 and 15 for 16.*out_axes=None"):
        bucketed()(differences)(x)
    assert bucketed(out_axes=None)(differences)(x).shape == (7,)


def test_pytrees_with_axes_that_differ(device: Device, counts: Counter[str]) -> None:
    @bucketed(
        axis={"batch": {"ids": 1, "more": (0, None)}, "labels": 0},
        fill={"batch": {"ids": -1, "more": 0}},
        sizes=(4, 8),
    )
    @minijit.jit
    def f(batch: Any, labels: Any = None, scale: Any = 1) -> Any:
        first, second = batch["more"]
        return batch["ids"] * scale, first + second, labels

    for n in (2, 3, 5):
        ids = np.arange(2 * n).reshape(2, n)
        batch = {"more": (device.put(normal(n)), 2.0), "ids": device.put(ids)}
        a, b, c = f(batch, labels=device.put(normal(n)), scale=3)
        same(device, a, ids * 3)
        same(device, b, normal(n) + np.float32(2))
        same(device, c, normal(n))
        assert f(batch)[2] is None
        assert batch["ids"].shape == (2, n)
    assert counts["trace"] == f.stats()["plans"] == 4


def test_two_lengths(device: Device, counts: Counter[str]) -> None:
    """Attention of queries to keys, both of any number."""

    @bucketed(axis={"q": 0}, sizes=(4, 8), mask="unused")
    @bucketed(axis={"k": 0, "v": 0}, sizes=(8, 16))
    @minijit.jit
    def attend(q: Any, unused: Any, k: Any, v: Any, mask: Any) -> Any:
        scores = np.where(mask, q @ k.T, -np.inf)
        e = np.exp(scores - scores.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True) @ v, scores

    for queries, keys in ((3, 5), (4, 5), (3, 8), (6, 11), (2, 16), (8, 1)):
        q, k, v = normal(queries, 4), normal(keys, 4, seed=1), normal(keys, 2, seed=2)
        out, scores = attend(*map(device.put, (q, k, v)))
        e = np.exp(q @ k.T - (q @ k.T).max(-1, keepdims=True))
        same(device, out, e / e.sum(-1, keepdims=True) @ v)
        same(device, scores, q @ k.T)
    assert attend._cache_size() == counts["trace"] == 4
    assert [report.sizes.values for report in attend.reports()] == [(8, 16), (4, 8)]


def test_batch_and_length_of_one_array(device: Device) -> None:
    @bucketed(axis=0, sizes=(2, 4), mask="rows")
    @bucketed(axis=1, sizes=(4, 8))
    @minijit.jit
    def f(x: Any, mask: Any, rows: Any) -> Any:
        return x - x.mean(1, where=mask, keepdims=True), x.sum(where=mask & rows[:, None])

    for shape in ((1, 3), (2, 4), (3, 4), (3, 7)):
        x = normal(*shape)
        a, total = f(device.put(x))
        same(device, a, x - x.mean(1, keepdims=True))
        same(device, total, x.sum())


def test_static_arguments_stay_static(device: Device, counts: Counter[str]) -> None:
    @bucketed(sizes=(4, 8))
    @minijit.jit(static_argnames=("power", "turn"))
    def f(x: Any, length: Any, power: int, *, turn: bool = False) -> Any:
        y = x**power + length
        return y.T if turn else y

    for n in (2, 3, 6, 7):
        x = normal(n, n)
        x = np.pad(x, ((0, 0), (0, 4)))[:, :4]
        same(device, f(device.put(x), 2), x**2 + n)
        same(device, f(device.put(x), power=2), x**2 + n)
        same(device, f(device.put(x), 2, turn=True), (x**2 + n).T)
    assert counts["trace"] == f._cache_size() == 4


class Model:
    def __init__(self, scale: float) -> None:
        self.scale = scale

    @bucketed(sizes=(4, 8))
    @minijit.jit
    def apply(self, x: Any, mask: Any) -> Any:
        """Scale."""
        return x * self.scale * mask

    @staticmethod
    @bucketed(sizes=8)
    @minijit.jit
    def twice(x: Any) -> Any:
        return x * 2


def test_methods(device: Device, counts: Counter[str]) -> None:
    for scale in (2.0, 3.0):
        model = Model(scale)
        for n in (2, 5, 3):
            x = normal(n)
            same(device, model.apply(device.put(x)), x * np.float32(scale))
            same(device, model.apply(x=device.put(x)), x * np.float32(scale))
            same(device, Model.twice(device.put(x)), x * 2)
    assert counts["trace"] == 2 * 2 + 2  # and that of a size which `twice` has not got
    assert model.apply.stats()["signatures"] >= 2
    assert model.apply.__doc__ == "Scale."


@bucketed(sizes=(4, 8))
@minijit.jit
def module_level(x: Any) -> Any:
    return x + 1


def test_pickles_and_copies_are_the_function_itself() -> None:
    assert pickle.loads(pickle.dumps(module_level)) is module_level
    assert copy.deepcopy(module_level) is module_level
    assert isinstance(module_level, Bucketed)
    assert module_level.__name__ == "module_level"
    assert "(4, 8)" in repr(module_level)


def test_too_long(device: Device, counts: Counter[str]) -> None:
    f = minijit.jit(lambda x, mask: x.sum(where=mask))
    strict = bucketed(sizes=(4, 8))(f)
    with pytest.raises(ValueError, match="length 9 of x is more than the largest size 8"):
        strict(device.put(normal(9)))
    assert counts["trace"] == 0
    exact = bucketed(sizes=(4, 8), overflow="exact")(f)
    for n in (9, 10, 9, 3):
        same(device, exact(device.put(normal(n))), normal(n).sum())
    assert f._cache_size() == 3  # of 9, 10 and 4, to which 9 was compared
    assert exact.reports()[0].too_long == 3
    assert strict.reports()[0].too_long == 1


def test_compiled_before_the_first_call(device: Device, counts: Counter[str]) -> None:
    f = bucketed(axis=1, sizes=(4, 8))(minijit.jit(lambda x, mask, length: x * mask + length))
    for size in (4, 8):
        f.lower(minijit.ShapeDtypeStruct((2, size - 1), np.float32)).compile()
    before = counts["trace"], counts["compile"]
    for n in (1, 4, 5):
        same(device, f(device.put(normal(2, n))), normal(2, n) + np.float32(n))
    assert (counts["trace"], counts["compile"]) == before == (2, 2)


def test_without_jit_the_function_sees_what_it_is_given(device: Device) -> None:
    seen = []

    def f(x: Any, mask: Any) -> Any:
        seen.append((x.shape, bool(mask.all())))
        return x + 1

    with minijit.disable_jit():
        bucketed(sizes=8)(minijit.jit(f))(normal(5))
    assert seen == [((5,), True)]


def test_arrays_of_numpy_are_padded_where_they_are_and_copied_once(device: Device) -> None:
    f = bucketed(sizes=8)(minijit.jit(lambda x: x * 2))
    same(device, f(normal(5)), normal(5) * 2)
    assert f.stats()["copies"] == (0 if device.name == "cpu" else 1)


def test_a_new_dtype_and_a_cleared_cache(device: Device, counts: Counter[str]) -> None:
    f = bucketed(sizes=(4, 8))(minijit.jit(lambda x: x * 2))
    for dtype in ("float32", "int32", "float32"):
        for n in (3, 7):
            same(device, f(device.put(normal(n).astype(dtype))), normal(n).astype(dtype) * 2)
    assert counts["trace"] == 4
    f.clear_cache()
    assert f._cache_size() == 0
    f(device.put(normal(3)))
    assert counts["trace"] == 6


def test_an_error_for_the_other_size_says_why_it_was_traced(device: Device) -> None:
    def f(x: Any) -> Any:
        if x.shape[0] > 4:
            raise RuntimeError("large")
        return x

    with pytest.raises(RuntimeError, match="large") as caught:
        bucketed(sizes=(4, 8))(minijit.jit(f))(device.put(normal(3)))
    assert "traced for the size 8" in caught.value.__notes__[0]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda f, x: f(), TypeError, "missing a required argument: 'x'"),
        (lambda f, x: f(None), TypeError, "no array to take the length from"),
        (lambda f, x: f(np.float32(1)), ValueError, "f: x: a number .* has no axis 0"),
        (lambda f, x: f(x, x, x), TypeError, "f\\(\\): too many positional arguments|takes from"),
        (lambda f, x: f(x, mask=x), TypeError, "gets the argument 'mask' from bucketed"),
        (lambda f, x: f({"a": x, "b": x[1:]}), ValueError, r"x\['a'\] has length 3 .*x\['b'\] ha"),
        (lambda f, x: f([x, 1.0]), ValueError, r"x\[1\]: a number \(float\) has no axis 0"),
        (lambda f, x: minijit.jit(f)(x), TypeError, "write @bucketed above @minijit.jit"),
        (lambda f, x: minijit.make_jaxpr(f)(x), TypeError, "write @bucketed above @minijit.jit"),
    ],
)
def test_calls_that_are_refused(call: Any, error: type[Exception], message: str) -> None:
    @bucketed(sizes=(4, 8))
    @minijit.jit
    def f(x: Any, mask: Any, y: Any = 1) -> Any:
        return x

    with pytest.raises(error, match=message):
        call(f, normal(3))
    same(Device("cpu"), f(normal(3)), normal(3))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"axis": {"y": 0}}, ValueError, "axis: f\\(\\) has no argument 'y'"),
        ({"axis": {"n": 0}}, ValueError, "argument 'n' of f\\(\\) is static"),
        ({"axis": {"rest": 0}}, ValueError, "has no argument 'rest'"),
        ({"axis": {"x": (0, 1)}}, ValueError, "axis or fill does not fit x"),
        ({"fill": {"mask": 0}}, ValueError, "'mask' is not padded"),
        ({"fill": "a"}, TypeError, "is no number"),
        ({"fill": 0.5}, ValueError, "fill=0.5 is no value of int64"),
        ({"mask": "valid"}, ValueError, "has no such argument"),
        ({"length": "n"}, ValueError, "argument 'n' of f\\(\\) is static: each length would be"),
        ({"sizes": ()}, ValueError, "there must be one"),
        ({"overflow": "cut"}, ValueError, "neither 'error' nor 'exact'"),
    ],
)
def test_options_that_are_refused(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    def f(x: Any, n: int, mask: Any, *rest: Any) -> Any:
        return x

    with pytest.raises(error, match=message):
        bucketed(**options)(minijit.jit(f, static_argnames="n"))(np.arange(3), 1)


def test_a_function_that_is_not_jitted_is_refused() -> None:
    with pytest.raises(TypeError, match=r"write @minijit\.jit below @bucketed"):
        bucketed()(lambda x: x)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no first argument that could be padded"):
        bucketed()(minijit.jit(lambda *xs: xs))
