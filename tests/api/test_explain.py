"""Why a function was compiled: each cause is told with values and advice, printed and in HTML."""

from __future__ import annotations

import gc
import html.parser
import logging
import re
import warnings
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minijit
from minijit.backends.registry import get_backend
from minijit.graph.config import config
from minijit.runtime import explain
from minijit.runtime.changes import ADVICE
from minijit.runtime.report import CacheEntries, Explanation, Stats
from tests.conftest import Device

X = np.arange(8, dtype=np.float32)
HOSTILE = "<script>alert('&')</script>"


@pytest.fixture(autouse=True)
def no_earlier_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    """The code of a test is jitted for each device: let none know of the others."""
    monkeypatch.setattr(explain, "_families", weakref.WeakKeyDictionary())


def double(x: Any) -> Any:
    return x * 2


def made(function: Callable[..., Any] = double, **options: Any) -> Any:
    """A jitted function with a cache of its own."""
    return minijit.jit(lambda *args, **kwargs: function(*args, **kwargs), **options)


def last(f: Any) -> tuple[str, str]:
    """The cause and the text of the last miss."""
    (change,) = f.explain().misses[-1].changes
    return change.cause, str(change)


def test_the_first_call_has_no_cause(device: Device) -> None:
    f = made()
    assert str(f.explain()) == "<lambda> was not compiled yet"
    f(device.put(X))
    f(device.put(X))
    assert str(f.explain()).splitlines()[0] == "<lambda> was compiled once"
    (miss,) = f.explain().misses
    assert miss.signature == "args[0]: f32[8]"
    assert miss.traced


def test_what_was_new_is_told_against_the_nearest_signature(device: Device) -> None:
    f = made()
    put = device.put
    calls: list[tuple[Any, str, str]] = [
        (put(X[:3].copy()), "shape", "args[0]: f32[8] -> f32[3]"),
        (put(X.reshape(8, 1)), "rank", "args[0]: f32[3] -> f32[8,1]"),
        (put(X.astype(np.int32)), "dtype", "args[0]: f32[8] -> i32[8]"),
        (put(X.reshape(2, 4)), "shape", "args[0]: f32[8,1] -> f32[2,4]"),
    ]
    f(put(X))
    for argument, cause, text in calls:
        f(argument)
        assert last(f) == (cause, text)
    f(1.0)
    f(np.float64(1))
    assert last(f) == ("weak type", "args[0]: f64[]* -> f64[]")


def test_memory_layouts_are_told(device: Device) -> None:
    f = made()
    square = np.ones((3, 4), np.float32)
    f(device.put(square))
    f(device.put(np.ones((4, 3), np.float32).T))
    assert last(f) == ("layout", "args[0]: strides (4, 1) -> strides (1, 3)")
    assert (f.explain().compiles, f.stats()["traces"]) == (2, 1)


def test_structure_arguments_and_statics_are_told(device: Device) -> None:
    @minijit.jit(static_argnames="mode")
    def f(p: Any, scale: float = 1.0, mode: str = "a") -> Any:
        return p["w"] * scale

    x = device.put(X)
    f({"w": x})
    f({"w": x, "b": x})
    assert last(f) == ("structure", "the structure of p: {'w': *} -> {'b': *, 'w': *}")
    f({"w": x}, 2.0)
    assert last(f) == ("arguments", "the arguments given: p -> p, scale")
    f({"w": x}, 2.0, mode="b")
    assert last(f) == ("static value", "static mode: not given -> 'b'")
    f({"w": x}, 2.0, mode="c")
    assert last(f) == ("static value", "static mode: 'b' -> 'c'")


def test_options_devices_and_reads_are_told() -> None:
    scale = 2.0
    f = minijit.jit(lambda x: x * scale)
    f(X)
    with config.override(debug_nans=True):
        f(X)
    assert last(f) == ("option", "the option debug_nans: False -> True")
    with minijit.default_device("cuda-emulated"):
        f(X)
    assert last(f) == ("device", "the device: cpu -> cuda-emulated")
    scale = 3.0
    f(X)
    where = "test_options_devices_and_reads_are_told()"
    assert last(f) == ("read", f"variable 'scale' of {where}: 2.0 -> 3.0")
    assert ADVICE["read"] in str(f.explain())


def test_new_functions_of_old_code_are_told(device: Device) -> None:
    functions = [minijit.jit(lambda x: x + 1) for _ in range(3)]
    for f in functions:
        f(device.put(X))
    assert functions[0].explain().recurring == ()
    assert str(functions[0].explain().misses[0]) == "the first call: x: f32[8]"
    assert last(functions[1])[1] == "a new function, whose code was jitted once before"
    assert last(functions[2]) == (
        "function",
        "a new function, whose code was jitted 2 times before",
    )
    functions[0].clear_cache()
    functions[0](device.put(X))
    assert functions[0].explain().misses[-1].changes == ()


def test_evictions_are_told_and_counted(device: Device) -> None:
    f = made()
    with config.override(cache_entries=1):
        for n in (1, 2, 1):
            f(device.put(X[:n].copy()))
    assert last(f)[0] == "evicted"
    assert f.stats()["evictions"] == 2


def test_bytes_bound_the_cache(device: Device) -> None:
    f = made()
    f(device.put(X))
    one = f.stats()["bytes"]
    assert one > 4096
    with config.override(cache_bytes=3 * one):
        for n in range(1, 7):
            f(device.put(X[:n].copy()))
        assert 1 < f._cache_size() <= 3
        assert f.stats()["bytes"] <= 3 * one
    with config.override(cache_bytes=0):
        np.testing.assert_array_equal(device.get(f(device.put(X))), X * 2)
        assert f._cache_size() == 1  # what runs stays


def test_programs_on_disk_for_other_versions_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = get_backend("cpu")
    ours = dict(backend.environment())
    f = made(lambda x: x * 1.0625 + 0.5)
    with config.override(compilation_cache="rw", compilation_cache_dir=str(tmp_path / "kept")):
        with monkeypatch.context() as patch:
            patch.setattr(backend, "environment", lambda: {**ours, "numba": "0.1"}, raising=False)
            f(X)
        minijit.clear_caches()
        f(X)
        assert last(f) == ("version", f"numba: 0.1 -> {ours['numba']}")
        assert f"\n      numba: 0.1 -> {ours['numba']}\n" in str(f.explain())  # without a number
        minijit.clear_caches()
        misses = len(f.explain().misses)
        f(X)  # now it is there
    assert len(f.explain().misses) == misses + 1
    assert f.explain().misses[-1].changes == ()


def test_what_recurs_is_counted_with_advice(device: Device) -> None:
    f = made()
    for n in (8, 3, 4):
        f(device.put(X[:n].copy()))
    f(device.put(X.astype(np.int32)))
    explanation = f.explain()
    assert isinstance(explanation, Explanation)
    assert [(r.cause, r.what, r.times) for r in explanation.recurring if r.cause != "function"] == [
        ("shape", "args[0]", 2),
        ("dtype", "args[0]", 1),
    ]
    assert f"args[0] (shape, 2 times): {ADVICE['shape']}" in str(explanation)
    assert explanation.compiles == 4


def test_history_is_bounded_and_counts_are_not(device: Device) -> None:
    f = made()
    for n in range(1, 80):
        f.lower(minijit.ShapeDtypeStruct((n,), np.dtype(np.float32)))
    explanation = f.explain()
    assert len(explanation.misses) == 64
    assert explanation.recurring[0].times == 78


@pytest.fixture
def caught() -> Iterator[list[warnings.WarningMessage]]:
    with warnings.catch_warnings(record=True) as messages:
        warnings.simplefilter("always")
        yield messages


def test_many_compiles_are_warned_of(device: Device, caught: list[warnings.WarningMessage]) -> None:
    f = minijit.jit(lambda x: x * 2)
    with config.override(recompile_warning=2):
        for n in range(1, 9):
            f(device.put(np.ones(n, np.float32)))
            f(device.put(np.ones(n, np.float32)))
        assert len(caught) == 1
        for n in range(9, 18):
            f(device.put(np.ones(n, np.float32)))
    assert [message.category for message in caught] == [minijit.RecompileWarning] * 2
    assert caught[0].filename == __file__
    first, second = (str(message.message) for message in caught)
    assert first == (
        "<lambda> was compiled 2 times. Once for a new shape (x: f32[1] -> f32[2]). "
        f"To avoid it: {ADVICE['shape']}."
    )
    assert second.startswith("<lambda> was compiled 16 times. 15 times for a new shape (")


def test_a_function_made_anew_each_time_is_warned_of(
    device: Device, caught: list[warnings.WarningMessage]
) -> None:
    with config.override(recompile_warning=3):
        for _ in range(10):
            minijit.jit(lambda x: x - 1)(device.put(X))
            gc.collect()
    (message,) = caught
    assert "was jitted 3 times and compiled each time" in str(message.message)
    assert ADVICE["function"] in str(message.message)


def test_functions_that_are_kept_are_not_warned_of(
    device: Device, caught: list[warnings.WarningMessage]
) -> None:
    with config.override(recompile_warning=3):
        layers = [minijit.jit(lambda x, n=n: x - n) for n in range(6)]
        for layer in layers:
            layer(device.put(X))
    assert not caught


def test_compiles_asked_for_are_not_warned_of(caught: list[warnings.WarningMessage]) -> None:
    f = made()
    with config.override(recompile_warning=2, max_compiles=3):
        for n in range(1, 5):
            f.lower(minijit.ShapeDtypeStruct((n,), np.dtype(np.float32))).compile()
    assert not caught
    assert f.explain().compiles == 4


def test_a_limit_refuses_more(device: Device) -> None:
    f = made()
    with config.override(max_compiles=2):
        for n in (1, 2, 1, 2):
            f(device.put(X[:n].copy()))
        for _ in range(2):
            with pytest.raises(minijit.RecompileLimitError, match=r"compiled 2 times.*f32\[2\]"):
                f(device.put(X))
        with pytest.raises(minijit.RecompileLimitError):
            f(device.put(np.repeat(X, 2)[::2][:2]))  # a memory layout is a compile as well
    np.testing.assert_array_equal(device.get(f(device.put(X))), X * 2)


def test_entries_and_stats_can_be_read(device: Device) -> None:
    f = made(lambda x, n: x * n, static_argnames="n")
    for n in (2, 3, 2, 2, 2):
        f(device.put(X), n=n)
    entries = f.entries()
    assert isinstance(entries, CacheEntries)
    assert [(e.signature, e.hits, e.kernels, e.plans) for e in entries] == [
        ("args[0]: f32[8], n=3", 0, 1, 1),
        ("args[0]: f32[8], n=2", 3, 1, 1),
    ]
    assert all(e.compile_seconds > 0 and e.bytes > 0 and e.device == device.name for e in entries)
    header, *lines = str(entries).splitlines()
    assert header.split() == [
        "signature",
        "device",
        "hits",
        "compile",
        "seconds",
        "plans",
        "kernels",
        "bytes",
    ]
    assert len(lines) == 2
    stats = f.stats()
    assert isinstance(stats, Stats)
    assert (stats["hits"], stats["compiles"], stats["evictions"]) == (3, 2, 0)
    assert re.search(r"^hits +3$", str(stats), re.MULTILINE)


class Checked(html.parser.HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.text = ""
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        assert not attrs
        self.open.append(tag)
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_html_is_escaped() -> None:
    f = minijit.jit(lambda p, s: next(iter(p.values())) * 2, static_argnames="s")
    f._binder.name = HOSTILE
    f({HOSTILE: X}, HOSTILE)
    f({HOSTILE: X}, HOSTILE * 2)
    for shown in (f.explain(), f.entries(), f.stats()):
        page = Checked(shown._repr_html_())
        assert page.seen <= {"table", "caption", "thead", "tbody", "tr", "th", "td", "ul", "li"}
        assert isinstance(shown, Stats) or HOSTILE in page.text


def test_explanations_name_no_class_of_ours(device: Device) -> None:
    test_structure_arguments_and_statics_are_told(device)
    f = made()
    for argument in (X, X.reshape(2, 4), 1, 1.0, np.float32(1)):
        f(argument)
    for word in ("PyTreeSpec", "ShapedArray", "Signature", "Same", "Read(", "Layout"):
        assert word not in str(f.explain()) + str(f.entries()) + f.explain()._repr_html_()


def test_misses_of_layouts_are_logged(device: Device, caplog: pytest.LogCaptureFixture) -> None:
    f = made()
    with config.override(explain_cache_misses=True), caplog.at_level(logging.WARNING):
        f(device.put(np.ones((3, 4), np.float32)))
        f(device.put(np.ones((4, 3), np.float32).T))
    _, second = (record.getMessage() for record in caplog.records)
    assert second == (
        "<lambda> is compiled for another memory layout: args[0]: strides (4, 1) -> strides (1, 3)"
    )


def test_jax_names_of_the_options_work(caplog: pytest.LogCaptureFixture) -> None:
    before = config.settings
    try:
        config.update("jax_explain_cache_misses", True)
        config.update("jax_log_compiles", True)
        made()(X)
    finally:
        config.update("explain_cache_misses", before.explain_cache_misses)
        config.update("log_compiles", before.log_compiles)
    assert [r.getMessage().split()[:2] for r in caplog.records] == [
        ["<lambda>", "is"],
        ["compiled", "<lambda>(f32[8])"],
    ]


def test_methods_explain_for_all_instances(device: Device) -> None:
    class Layer:
        @minijit.jit
        def __call__(self, x: Any) -> Any:
            return x * 2

    layer = Layer()
    layer(device.put(X))
    layer(device.put(X[:2].copy()))
    assert layer.__call__.explain().recurring[0].what == "x"
    assert [entry.hits for entry in layer.__call__.entries()] == [0, 0]
