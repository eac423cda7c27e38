"""Globals and closure variables: what is read is in the signature, what is written is not."""

from __future__ import annotations

import builtins
import functools
import gc
import sys
import types
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import minijit
import minijit.numpy as jnp
from minijit.api.arguments import Binder
from minijit.graph.config import config
from tests.conftest import Device

Counts = Counter[str]
X = np.arange(4, dtype=np.float32)


def module(name: str, source: str) -> types.ModuleType:
    """A user's module."""
    made = types.ModuleType(name)
    exec(compile(source, f"{name}.py", "exec"), vars(made))
    return made


@pytest.fixture
def cfg() -> Iterator[types.ModuleType]:
    made = module("cfg", "scale = 2.0\ncalls = 0\ndef helper(x): return x * scale")
    sys.modules["cfg"] = made
    yield made
    del sys.modules["cfg"]


def values(device: Device, f: Any) -> list[float]:
    """The second element of the result, twice: missed and hit."""
    return [float(device.get(f(device.put(X)))[1]) for _ in range(2)]


def test_a_changed_global_is_seen_and_the_old_one_is_kept(device: Device, counts: Counts) -> None:
    m = module("m", "scale = 2.0\ndef f(x): return x * scale")
    f = minijit.jit(m.f)
    for scale, traces in ((2.0, 1), (3.0, 2), (2.0, 2), (float("3"), 2), (3, 3)):
        m.scale = scale
        assert values(device, f) == [scale, scale]
        assert counts["trace"] == traces
    assert f._cache_size() == 3


def test_a_changed_closure_variable_is_seen(device: Device, counts: Counts) -> None:
    scale = 2.0

    @minijit.jit
    def f(x: Any) -> Any:
        return x * scale

    for scale in (2.0, 5.0, 2.0):
        assert values(device, f) == [scale, scale]
    assert counts["trace"] == 2


def test_hits_with_reads_bind_nothing(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    m = module("m", "a = b = c = 1.0\ndef f(x): return x * a + b + c")
    f = minijit.jit(m.f)
    x = device.put(X)
    f(x)

    def refused(*args: Any) -> Any:
        raise AssertionError("bound")

    with monkeypatch.context() as patch:
        patch.setattr(Binder, "bind", refused)
        f(x)
        f(x)
        m.b = 2.0
        with pytest.raises(AssertionError, match="bound"):
            f(x)
    assert device.get(f(x))[1] == 4


HELPERS: dict[str, str] = {
    "global": "def f(x): return helper(x)",
    "deep": "def g(x): return helper(x)\ndef f(x): return g(x) + 0",
    "partial": "import functools\ng = functools.partial(helper)\ndef f(x): return g(x)",
    "default": "def f(x, h=helper): return h(x)",
    "keyword default": "def f(x, *, h=helper): return h(x)",
    "wrapped": (
        "import functools\n"
        "def twice(h):\n"
        "    @functools.wraps(h)\n"
        "    def inner(x): return h(x)\n"
        "    return inner\n"
        "g = twice(helper)\n"
        "def f(x): return g(x)"
    ),
    "decorated in C": (
        "import functools\n"
        "def make():\n"
        "    @functools.lru_cache\n"
        "    def g(s): return helper(s)\n"
        "    return g\n"
        "def f(x): return x * make()(1.0)"
    ),
    "nested": "def f(x):\n    def inner(y): return y * scale\n    return inner(x)",
    "class body": "def f(x):\n    class C:\n        s = scale\n    return x * C.s",
    "comprehension": "def f(x): return sum([x * scale for _ in range(1)])",
    "method": ("class C:\n    def m(self, x): return helper(x)\nc = C()\ndef f(x): return c.m(x)"),
    "bound": "class C:\n    def m(self, x): return helper(x)\ng = C().m\ndef f(x): return g(x)",
    "called object": (
        "class C:\n    def __call__(self, x): return helper(x)\nc = C()\ndef f(x): return c(x)"
    ),
    "made object": ("class C:\n    def __init__(self): self.s = scale\ndef f(x): return x * C().s"),
    "property": (
        "class C:\n    @property\n    def s(self): return scale\nc = C()\ndef f(x): return x * c.s"
    ),
    "list": "layers = [helper]\ndef f(x):\n    for layer in layers: x = layer(x)\n    return x",
    "dict": "layers = {'a': helper}\ndef f(x): return layers['a'](x)",
    "attribute": "class C: pass\nc = C()\nc.act = helper\ndef f(x): return c.act(x)",
    "class method": (
        "class C:\n    @classmethod\n    def m(cls, x): return helper(x)\ndef f(x): return C.m(x)"
    ),
    "decorated by a library": (
        "import functools\ng = functools.singledispatch(helper)\ndef f(x): return g(x)"
    ),
    "jitted": "import minijit\ng = minijit.jit(helper)\ndef f(x): return g(x) + 0",
}


@pytest.mark.parametrize("name", HELPERS)
def test_callees_are_followed(device: Device, counts: Counts, name: str) -> None:
    m = module("m", "scale = 2.0\ndef helper(x): return x * scale\n" + HELPERS[name])
    f = minijit.jit(m.f)
    for scale in (2.0, 3.0, 2.0):
        m.scale = scale
        assert values(device, f) == [scale, scale]
    inner = 2 if name == "jitted" else 0
    assert counts["trace"] == 2 + inner


def test_a_redefined_callee_gives_the_new_result(device: Device) -> None:
    m = module("m", "def helper(x): return x * 2\ndef f(x): return helper(x)")
    f = minijit.jit(m.f)
    assert values(device, f) == [2, 2]
    exec("def helper(x): return x * 7", vars(m))
    assert values(device, f) == [7, 7]
    m.helper = minijit.jit(lambda x: x * 9)
    assert values(device, f) == [9, 9]


def test_attributes_of_modules_are_read(device: Device, cfg: types.ModuleType) -> None:
    functions: list[Callable[[Any], Any]] = [
        lambda x: x * cfg.scale,
        lambda x: cfg.helper(x),
    ]
    source = "def f(x):\n    import cfg\n    return x * cfg.scale"
    functions.append(module("m", source).f)
    functions.append(module("m", "def f(x):\n    from cfg import scale\n    return x * scale").f)
    for f in map(minijit.jit, functions):
        for scale in (2.0, 3.0, 2.0):
            cfg.scale = scale
            assert values(device, f) == [scale, scale]
        assert f.stats()["traces"] == 2


WRITES: dict[str, str] = {
    "global": "n = 0\ndef f(x):\n    global n\n    n += 1\n    return x * 2",
    "callee": (
        "n = 0\ndef count():\n    global n\n    n += 1\ndef f(x):\n    count()\n    return x * 2"
    ),
    "read elsewhere": (
        "n = 0\ndef count():\n    global n\n    n += 1\n    return n\n"
        "def f(x):\n    count()\n    n\n    return x * 2"
    ),
    "module": "import cfg\ndef f(x):\n    cfg.calls += 1\n    return x * 2",
    "module assigned": "import cfg\ndef f(x):\n    cfg.calls = cfg.calls + 1\n    return x * 2",
    "list": "n = []\ndef f(x):\n    n.append(1)\n    return x * 2",
}


@pytest.mark.parametrize("name", WRITES)
def test_what_functions_write_is_no_part_of_the_key(
    device: Device, counts: Counts, cfg: types.ModuleType, name: str
) -> None:
    m = module("m", WRITES[name])
    f = minijit.jit(m.f)
    for _ in range(3):
        assert values(device, f) == [2, 2]
    assert counts["trace"] == 1


def test_nonlocal_variables_that_are_written_are_no_part_of_the_key(
    device: Device, counts: Counts
) -> None:
    calls = 0

    @minijit.jit
    def f(x: Any) -> Any:
        nonlocal calls
        calls += 1
        return x * 2

    for _ in range(2):
        assert values(device, f) == [2, 2]
    assert (calls, counts["trace"]) == (1, 1)


def test_a_variable_of_the_same_name_in_between_is_another_one(device: Device) -> None:
    scale = 2.0

    def shadowed() -> Any:
        scale = 1.0

        def bump() -> float:
            nonlocal scale
            scale += 1
            return scale

        return bump()

    @minijit.jit
    def f(x: Any) -> Any:
        def shadow() -> Any:
            scale = 1.0

            def bump() -> float:
                nonlocal scale
                scale += 1
                return scale

            return bump()

        return x * scale + 0 * shadow() + 0 * shadowed()

    for scale in (2.0, 4.0):
        assert values(device, f) == [scale, scale]


def test_what_changes_while_tracing_is_not_kept(device: Device, counts: Counts) -> None:
    m = module("m", "n = 0\ndef f(x):\n    globals()['n'] += 1\n    return x * n")
    f = minijit.jit(m.f)
    assert [float(device.get(f(device.put(X)))[1]) for _ in range(3)] == [1, 2, 3]
    assert (counts["trace"], f._cache_size()) == (3, 0)


def test_builtins_may_be_hidden_later(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    m = module("m", "def f(x): return x * abs(-2.0)")
    f = minijit.jit(m.f)
    assert values(device, f) == [2, 2]
    m.abs = lambda x: 5.0
    assert values(device, f) == [5, 5]
    del m.abs
    assert values(device, f) == [2, 2]
    vars(m)["__builtins__"] = {"abs": lambda x: 6.0}
    # Functions take their builtins along; a new one looks at the new ones.
    assert values(device, f) == [2, 2]
    monkeypatch.setattr(builtins, "abs", lambda x: 7.0)
    assert values(device, f) == [7, 7]


def test_names_may_be_undefined_and_defined_later(device: Device) -> None:
    m = module("m", "def f(x):\n    try: return x * scale\n    except NameError: return x * 2")
    f = minijit.jit(m.f)
    assert values(device, f) == [2, 2]
    m.scale = 3.0
    assert values(device, f) == [3, 3]
    del m.scale
    assert values(device, f) == [2, 2]


def test_containers_count_by_identity(device: Device, counts: Counts) -> None:
    m = module("m", "p = {'a': 2.0}\ndef f(x): return x * p['a']")
    f = minijit.jit(m.f)
    assert values(device, f) == [2, 2]
    m.p["a"] = 3.0
    assert values(device, f) == [2, 2]
    m.p = {"a": 3.0}
    assert values(device, f) == [3, 3]
    assert counts["trace"] == 2


def test_tuples_and_numbers_count_by_value_and_type(device: Device, counts: Counts) -> None:
    m = module("m", "p = (2.0, 'a')\ndef f(x): return x * p[0]")
    f = minijit.jit(m.f)
    for p in ((2.0, "a"), tuple(p for p in (2.0, "a")), (2, "a"), (-0.0, "a"), (0.0, "a")):
        m.p = p
        got = device.get(f(device.put(X)))
        np.testing.assert_array_equal(got, X * p[0])
        np.testing.assert_array_equal(np.signbit(got), np.signbit(X * p[0]))
    assert counts["trace"] == 4


def test_arrays_bound_anew_are_read_anew(device: Device, counts: Counts) -> None:
    m = module("m", "w = None\ndef f(x): return x * w")
    f = minijit.jit(m.f)
    first, second = (device.put(np.full(4, n, np.float32)) for n in (2, 3))
    for w, traces in ((first, 1), (second, 2), (first, 2)):
        m.w = w
        want = float(device.get(w)[1])
        assert values(device, f) == [want, want]
        assert counts["trace"] == traces
    first *= 2  # the elements are no part of the program
    assert values(device, f) == [4, 4]


def test_inner_traces_look_as_well(device: Device, counts: Counts) -> None:
    m = module("m", "import minijit\nscale = 2.0\n@minijit.jit\ndef g(x): return x * scale")
    for scale in (2.0, 3.0, 2.0):
        m.scale = scale
        outer = minijit.jit(lambda x: m.g(x) + 0)
        assert values(device, outer) == [scale, scale]
    assert counts["trace"] == 3 + 2


def test_static_functions_and_methods_are_followed(device: Device) -> None:
    m = module("m", "scale = 2.0\ndef helper(x): return x * scale")
    f = minijit.jit(lambda x, h: h(x), static_argnames="h")

    class Layer:
        def scaled(self, x: Any) -> Any:
            return m.helper(x)

        @minijit.jit
        def __call__(self, x: Any) -> Any:
            return self.scaled(x)

    layer = Layer()
    for scale in (2.0, 3.0, 2.0):
        m.scale = scale
        assert values(device, lambda x: f(x, m.helper)) == [scale, scale]
        assert values(device, layer) == [scale, scale]
    assert f.stats()["traces"] == layer.__call__.stats()["traces"] == 2


def test_compiled_programs_refuse_other_surroundings(device: Device) -> None:
    m = module("m", "scale = 2.0\ndef f(x): return x * scale")
    compiled = minijit.jit(m.f).lower(device.put(X)).compile()
    assert device.get(compiled(device.put(X)))[1] == 2
    m.scale = 3.0
    with pytest.raises(TypeError, match=r"global 'scale' of module m: 2\.0 -> 3\.0"):
        compiled(device.put(X))


def test_old_values_go_with_their_entries(device: Device) -> None:
    m = module("m", "w = None\ndef f(x): return x * w")
    f = minijit.jit(m.f)
    with config.override(cache_entries=2):
        kept = []
        for n in range(5):
            m.w = device.put(np.full(4, n, np.float32))
            kept.append(weakref.ref(m.w))
            assert values(device, f) == [n, n]
    gc.collect()
    assert sum(ref() is not None for ref in kept) == 2


def test_redefined_functions_keep_no_closure_alive(device: Device) -> None:
    class Value:
        factor = 2.0

    def redefined() -> weakref.ref[Value]:
        value = Value()
        # It can be reached from what it reads.
        registry: dict[str, Any] = {}
        f = minijit.jit(lambda x: x * value.factor + len(registry))
        registry["f"] = f
        assert float(device.get(f(device.put(X)))[1]) == 3
        return weakref.ref(value)

    kept = [redefined() for _ in range(1000 if device.name == "cpu" else 10)]
    gc.collect()
    assert not [ref for ref in kept if ref() is not None]


def test_a_wrapper_does_not_take_the_cache_of_what_it_wraps(device: Device) -> None:
    def f(x: Any) -> Any:
        return x * 2

    assert values(device, minijit.jit(f)) == [2, 2]

    @functools.wraps(f)
    def wrapper(x: Any) -> Any:
        return f(x) + 1

    assert values(device, minijit.jit(wrapper)) == [3, 3]


def test_libraries_are_taken_as_they_are() -> None:
    f = minijit.jit(lambda x: jnp.exp(x) + np.tanh(x))
    f(X)
    ((signature,),) = [f._cache.signatures()]
    assert [read.name for read in signature.reads] == ["jnp", "np"]
