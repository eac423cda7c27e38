"""Plans from the disk: nothing is lowered, all is as after a compile, and what is wrong heals."""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import minijit
import minijit.numpy as jnp
from minijit import lax
from minijit.backends import environment
from minijit.backends.registry import get_backend
from minijit.graph.config import config
from minijit.graph.portable import NotPortable
from minijit.graph.tree import flatten
from minijit.runtime import plans
from minijit.runtime.captured import Captured
from minijit.runtime.disk import Entry, Record, Store, default_store
from minijit.runtime.disk.key import canonical
from minijit.runtime.report import CacheEntry
from tests.conftest import Device, on_each_device
from tests.runtime.host_programs import f32, multiplied, rnn, rolled
from tests.sampling import DEEP
from tests.transforms.random_bodies import random_loop_program
from tests.transforms.random_programs import random_program

ROOT = Path(__file__).parents[2]
X = np.linspace(-1, 1, 4 * 33, dtype=np.float32).reshape(4, 33)
W = np.linspace(-2, 2, 33 * 5, dtype=np.float32).reshape(5, 33).T  # captured, not in C order
pytestmark = pytest.mark.usefixtures("folder")
LOWERING = ("inline", "simplify", "partition", "lower", "source")


def store() -> Store:
    found = default_store()
    assert found is not None
    return found


def entries_of(kind: str) -> list[Record]:
    """What is stored: plans have a graph in their keys, kernels have code."""
    found = (record for record in store() if record.key is not None)
    return [record for record in found if kind in record.key.program]


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def branched(x: Any) -> Any:
    return lax.cond(x.sum() > 0, lambda v: jnp.cumsum(multiplied(v, v.T), 0), lambda v: v @ v.T, x)


def searched(x: Any) -> Any:
    return lax.while_loop(lambda v: (v * v).sum() < 50, lambda v: multiplied(v, v.T) + 1, x)


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "one kernel": (softmax, (X,)),
    "scalars": (lambda x, a, b: x * a + b, (X, 2.5, np.float32(3))),
    "a split reduction": (lambda x: x.sum() + 1, (f32(70_000),)),
    "captured arrays": (lambda x: jnp.matmul(x, W) + np.float32(1), (X,)),
    "a nested function": (lambda x: minijit.jit(softmax)(x) + minijit.jit(softmax)(x * 2), (X,)),
    "the library between kernels": (
        lambda x: jnp.tanh(multiplied(jnp.tanh(x), x.T)).sum(0),
        (X,),
    ),
    "a tree": (lambda x: {"sums": jnp.cumsum(x * 2, axis=0), "same": (x, None)}, (X,)),
    "a scan of the host": (rnn, (f32(1, 4), f32(4, 4), f32(6, 1, 4))),
    "a counted loop": (functools.partial(rolled, steps=40), (f32(5, 300),)),
    "a while loop": (searched, (f32(3, 3),)),
    "a branch": (branched, (f32(4, 4),)),
    "nothing to do": (lambda x: x.reshape(33, 4), (X,)),
    "no elements": (lambda x: x * 2, (X[:0],)),
}
SUBTLE = ("captured arrays", "a split reduction", "a scan of the host", "a while loop", "a branch")


def assert_same(one: Any, other: Any) -> None:
    leaves, tree = flatten(one)
    others, same = flatten(other)
    assert tree == same
    for a, b in zip(map(np.asarray, leaves), map(np.asarray, others), strict=True):
        assert (a.shape, a.dtype, a.tobytes()) == (b.shape, b.dtype, b.tobytes())


@on_each_device("name", PROGRAMS, PROGRAMS)
def test_a_plan_from_the_disk_does_the_same(device: Device, name: str) -> None:
    cold, warm = _counted(device, *PROGRAMS[name])
    assert_same(cold.result, warm.result)
    assert cold.stats == warm.stats
    names = ("signature", "device", "plans", "kernels", "bytes")
    assert [getattr(cold.entry, n) for n in names] == [getattr(warm.entry, n) for n in names]


class Run(NamedTuple):
    """What a function returned, and what it says of itself afterwards."""

    result: Any
    stats: dict[str, int]
    entry: CacheEntry


def _counted(device: Device, function: Callable[..., Any], args: Any) -> list[Run]:
    """A run that compiles, and one that finds the plan."""
    given = [device.put(arg) for arg in args]
    found = []
    for number in range(2):
        minijit.clear_caches()
        jitted = minijit.jit(lambda *values: function(*values))
        with minijit.debug.count() as events:
            result = device.get(jitted(*given))
        assert (events["plan_hit"], events["program"]) == (number, 1)
        if number:
            assert events["compile"] == events["plan_not_used"] == 0
            if device.name == "cpu":  # the emulated device shows the source beside its code
                assert not [step for step in LOWERING if events[step]]
        found.append(Run(result, jitted.stats(), jitted.entries()[0]))
    return found


SEEDS = range(60 if DEEP else 12)


@on_each_device("seed", SEEDS, SEEDS[::6])
@pytest.mark.parametrize("make", [random_program, random_loop_program])
def test_random_programs_do_the_same(device: Device, seed: int, make: Any) -> None:
    cold, warm = _counted(device, *make(seed))
    assert_same(cold.result, warm.result)


@pytest.mark.parametrize("name", ["one kernel", *SUBTLE])
def test_what_is_asked_of_a_compiled_program_is_the_same(name: str, device: Device) -> None:
    function, args = PROGRAMS[name]
    given = [device.put(arg) for arg in args]
    shown = []
    for _ in range(2):
        minijit.clear_caches()
        compiled = minijit.jit(lambda *values: function(*values)).lower(*given).compile()
        costs = compiled.cost_analysis()
        assert costs.pop("compile seconds") > 0
        shown.append((compiled.kernels(), compiled.as_text(), costs, compiled.memory_analysis()))
    assert shown[0] == shown[1]
    assert shown[0][0]


def test_sources_are_lowered_when_they_are_asked_for_and_nothing_is_compiled(
    counts: Counter[str],
) -> None:
    minijit.jit(softmax).lower(X).compile()
    minijit.clear_caches()
    f = minijit.jit(softmax)
    compiled = f.lower(X).compile()
    before = counts["lower"], counts["compile"]
    store().clear()  # the program has its machine code
    (kernel,) = compiled.kernels()
    assert kernel.name == "softmax_kernel"
    assert "e = np.exp" not in kernel.source
    assert f"{Path(__file__).name}:" in kernel.source  # lines of today
    compiled.kernels()
    assert (counts["lower"], counts["compile"]) == (before[0] + 1, before[1])


def test_what_captures_arrays_reads_them_where_they_are(device: Device) -> None:
    for _ in range(2):
        minijit.clear_caches()
        table = device.put(np.arange(6, dtype=np.float32).reshape(2, 3).T)
        f = minijit.jit(lambda x, table=table: x + jnp.multiply(table, 2))
        x = device.put(np.ones((3, 2), np.float32))
        np.testing.assert_array_equal(device.get(f(x)), 1 + 2 * device.get(table))
        table[0] = 7
        np.testing.assert_array_equal(device.get(f(x)), 1 + 2 * device.get(table))


def test_other_layouts_have_other_plans(counts: Counter[str]) -> None:
    square = np.arange(9, dtype=np.float32).reshape(3, 3)
    for inside in (square, square.T, square[::-1]):
        for x in (square, square.T, square[:, ::-1]):
            minijit.clear_caches()
            f = minijit.jit(lambda x, inside=inside: x - jnp.multiply(inside, 2))
            np.testing.assert_array_equal(f(x), x - inside * 2)
    assert counts["plan_hit"] == 0
    assert len(entries_of("graph")) == 9


def test_a_captured_array_that_was_resized_is_traced_again(counts: Counter[str]) -> None:
    for _ in range(2):
        minijit.clear_caches()
        table = np.arange(4, dtype=np.float32)
        f = minijit.jit(lambda table=table: jnp.multiply(table, 2))
        np.testing.assert_array_equal(f(), table * 2)
        table.resize(2, refcheck=False)
        np.testing.assert_array_equal(f(), table * 2)
    assert counts["plan_hit"] == 2


def test_results_are_searched_for_nan_as_configured() -> None:
    f = minijit.jit(lambda x: jnp.log(x - 2))
    assert np.isnan(np.asarray(f(X))).all()
    with config.override(debug_nans=True), pytest.raises(FloatingPointError, match="holds NaN"):
        f(X)


def test_views_that_are_not_aligned_have_a_kernel_of_their_own(counts: Counter[str]) -> None:
    with minijit.default_device("cuda-emulated"):
        memory = get_backend("cuda-emulated").asarray(np.arange(33, dtype=np.float32))
        for start in (0, 0, 1, 1):
            minijit.clear_caches()
            f = minijit.jit(lambda x: x * 2 + 1)
            got = f(memory[:32]) if start == 0 else (f(memory[:32]), f(memory[1:]))[1]
            np.testing.assert_array_equal(got, np.arange(start, start + 32) * 2 + 1)
    assert counts["compile"] == 2
    assert counts["plan_hit"] == 3


# What is missing or wrong.


def test_a_missing_kernel_is_compiled_and_the_rest_is_used(counts: Counter[str]) -> None:
    f = minijit.jit(lambda x: (jnp.exp(x.sum(0)), jnp.cumsum(x, 0) * 2))
    want = [np.array(each) for each in f(X)]
    kernels = entries_of("code")
    assert len(kernels) > 1
    Path(kernels[0].path).unlink()
    compiled = counts["compile"]
    for hits in (0, 1):
        minijit.clear_caches()
        for one, other in zip(f(X), want, strict=True):
            np.testing.assert_array_equal(one, other)
        assert counts["plan_hit"] == hits
    assert (counts["compile"], counts["plan_not_used"]) == (compiled + 1, 1)


def test_a_damaged_plan_is_made_again(counts: Counter[str]) -> None:
    f = minijit.jit(softmax)
    want = np.array(f(X))
    (plan,) = entries_of("graph")
    path = Path(plan.path)
    data = bytearray(path.read_bytes())
    data[-60] ^= 1
    path.write_bytes(data)
    minijit.clear_caches()
    with pytest.warns(minijit.errors.CacheWarning, match="was not used"):
        np.testing.assert_array_equal(f(X), want)
    assert (counts["plan_hit"], counts["compile"]) == (0, 1)
    minijit.clear_caches()
    np.testing.assert_array_equal(f(X), want)
    assert (counts["plan_hit"], counts["compile"]) == (1, 1)


def spoilt(data: dict[str, Any]) -> Iterator[bytes]:
    """The text of a plan with each of its values in turn left out or of another type."""
    yield b""
    yield b"[]"
    yield b"\xff"
    step = data["plan"]["steps"][0]
    for holder in (data, data["plan"], step, step["interface"]):
        for name, value in list(holder.items()):
            if name in ("name", "text"):  # said to people
                continue
            for other in (None, "x", [["x"]]):
                holder[name] = other
                yield canonical(data)
            del holder[name]
            yield canonical(data)
            holder[name] = value


def test_what_is_no_plan_is_not_used_whatever_its_checksum() -> None:
    f = minijit.jit(softmax)
    want = np.array(f(X))
    (plan,) = entries_of("graph")
    assert plan.key is not None
    entry = store().get(plan.key)
    assert entry is not None
    for text in spoilt(json.loads(entry.sections["plan"])):
        store().put(plan.key, Entry(entry.meta, {"plan": text}))
        minijit.clear_caches()
        with minijit.debug.count() as events:
            np.testing.assert_array_equal(f(X), want)
        assert (events["plan_not_used"], events["compile"]) == (1, 0), text
    store().put(plan.key, Entry(entry.meta, {}))
    minijit.clear_caches()
    np.testing.assert_array_equal(f(X), want)
    healed = store().get(plan.key)
    assert healed is not None
    assert json.loads(healed.sections["plan"])["kernels"]


def test_other_code_that_lowers_finds_the_kernels_alone(
    counts: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    f = minijit.jit(softmax)
    f(X)
    monkeypatch.setattr(plans, "lowering_digest", lambda: "another")
    minijit.clear_caches()
    f(X)
    assert (counts["plan_hit"], counts["compile"], counts["disk_hit"]) == (0, 1, 1)


def test_the_digest_of_what_lowers_changes_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def digest() -> str:
        environment._digest.cache_clear()
        return environment.lowering_digest()

    for name in ("graph", "ops", "transforms", "lowering", "runtime"):
        (tmp_path / name / "inner").mkdir(parents=True)
        (tmp_path / name / "inner" / "module.py").write_text("x = 1\n")
    monkeypatch.setattr(environment, "_PACKAGE", tmp_path)
    found = [digest(), digest()]
    for name in ("graph", "ops", "transforms", "lowering", "runtime"):
        (tmp_path / name / "inner" / "module.py").write_text("x = 2\n")
        found.append(digest())
    (tmp_path / "ops" / "inner" / "module.py").rename(tmp_path / "ops" / "inner" / "other.py")
    found.append(digest())
    environment._digest.cache_clear()
    assert found[0] == found[1]
    assert len(set(found[1:])) == len(found) - 1


def test_a_plan_that_is_read_keeps_no_array_alive(device: Device) -> None:
    """What lowers it again needs types and layouts alone."""
    backend = get_backend(device.name)
    jaxpr = minijit.make_jaxpr(lambda x: x + jnp.multiply(W, 2))(np.ones((33, 5), np.float32))
    wanted = plans.Wanted.of(jaxpr, [], backend, Captured.of(jaxpr))
    bare = wanted.without_values()
    assert not [v for v in (*bare.jaxpr.consts, *bare.consts.values) if hasattr(v, "data")]
    assert bare.consts.layouts == wanted.consts.layouts
    assert not bare.captured
    with pytest.raises(NotPortable, match="no plan"):
        plans.link_plan({}, wanted, lambda key, kernel: pytest.fail(kernel), backend.compile)
