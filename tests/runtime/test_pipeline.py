"""The steps of a compile, the layouts it is made for, and the plan that it gives."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Any

import numpy as np
import pytest

import minijit
import minijit.numpy as jnp
from minijit import extend
from minijit.backends.cpu.backend import CpuBackend
from minijit.backends.registry import get_backend
from minijit.graph.aval import ShapedArray
from minijit.graph.config import config
from minijit.graph.jaxpr import Jaxpr
from minijit.graph.layout import Layout
from minijit.graph.primitive import Kind, Primitive
from minijit.runtime import pipeline
from minijit.runtime.placement import Placed, layout_of
from minijit.runtime.steps import EagerStep, KernelStep
from tests.conftest import Device

X = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.mark.parametrize(
    ("value", "layout"),
    [
        (X, Layout((4, 1))),
        (X.T, Layout((1, 4))),
        (X[::-1, ::2], Layout((-4, 2))),
        (X[:1], Layout((0, 1))),  # the stride of an axis of one element says nothing
        (np.broadcast_to(X[0], (3, 4)), Layout((0, 1))),
        (np.float32(1), Layout((), by_value=True)),
        (2.5, Layout((), by_value=True)),
        (np.array(1.0), Layout(())),
    ],
)
def test_layouts(value: Any, layout: Layout) -> None:
    assert layout_of(value) == layout


def test_strides_that_are_no_elements_are_refused() -> None:
    with pytest.raises(TypeError, match=r"strides \(5,\) of a 4-byte dtype.*ascontiguousarray"):
        layout_of(np.zeros(3, "i1,f4")["f1"])


def test_every_step_is_announced_once(device: Device, counts: Counter[str]) -> None:
    minijit.jit(lambda x: (jnp.exp(x) * 7.25).sum(0))(device.put(X))
    steps = (
        "trace",
        "inline",
        "simplify",
        "loops",
        "products",
        "blocks",
        "own_outputs",
        "partition",
        "lower",
        "plan",
        "launch",
    )
    assert [counts[step] for step in steps] == [1] * len(steps)
    assert counts["compile"] == counts["load"] == 1


def test_equal_kernels_are_compiled_once_a_process(device: Device, counts: Counter[str]) -> None:
    def named(x: Any) -> Any:
        return x * 3.375 - 1

    def other(x: Any) -> Any:
        return named(x)

    f = minijit.jit(named)
    f(device.put(X))
    kept = f.lower(device.put(X)).compile()  # kernels live as long as a plan uses them
    f.clear_cache()
    f(device.put(X))
    assert (counts["trace"], counts["compile"]) == (2, 1)
    del kept
    minijit.clear_caches()
    f(device.put(X))
    assert (counts["trace"], counts["compile"]) == (3, 2)
    minijit.jit(other)(device.put(X))  # its kernel has another name
    assert counts["compile"] == 3


def test_kernels_of_equal_text_that_run_otherwise_are_compiled_apart(
    counts: Counter[str],
) -> None:
    backend = get_backend("cpu")
    plan = plan_of(lambda x: x * 2.625, np.ones(1 << 16, np.float32))
    (source,) = plan.sources
    other = dataclasses.replace(
        source, launch=dataclasses.replace(source.launch, work=source.launch.work + 1)
    )
    launchers = [
        pipeline._launcher(backend, backend.compile, s) for s in (source, other, source, other)
    ]
    assert launchers[0] is launchers[2] is not launchers[1]
    assert launchers[1] is launchers[3]
    assert counts["load"] == 2  # one of them for the plan, which keeps it


def test_functions_of_one_name_are_compiled_apart(device: Device) -> None:
    def made(factor: float) -> Primitive:
        def times(x: Any) -> Any:
            return x * factor

        return Primitive(
            name="times",
            kind=Kind.ELEMENTWISE,
            doc="Multiply.",
            abstract_eval=lambda x: x,
            eager=lambda xp, x: x * factor,
            scalar=extend.typed(lambda dtype: times),
        )

    two, three = made(2.0), made(3.0)
    functions = [lambda x, p=p: extend.bind(p, x) for p in (two, three)]  # on one line
    x = device.put(X)
    first, second = (minijit.jit(function) for function in functions)
    kept = [device.get(f(x)) for f in (first, second, first, second)]
    for got, factor in zip(kept, (2, 3, 2, 3), strict=True):
        np.testing.assert_array_equal(got, X * factor)


def test_copies_to_the_device_come_before_their_layout() -> None:
    backend = CpuBackend()
    there = X.T
    placed = Placed.on(backend, (there, 2.0, Foreign(), ShapedArray((2, 3), np.dtype("f4"))))
    assert placed.values[0] is there
    assert placed.copies == 1
    assert placed.layouts == (
        Layout((1, 4)),
        Layout((), by_value=True),
        Layout((4, 1)),
        Layout((3, 1)),
    )


class Foreign:
    """Its own strides are others than those of its copy."""

    shape, strides, dtype = X.shape, (4, 12), X.dtype
    __cuda_array_interface__ = None

    def get(self) -> Any:
        return X.copy()


def test_checks_look_at_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr(pipeline, "check_jaxpr", lambda jaxpr: seen.append("jaxpr"))
    monkeypatch.setattr(pipeline, "check_kernel", lambda kernel: seen.append("kernel"))
    minijit.jit(lambda x: x * 1.625)(X)
    assert seen == ["jaxpr"] * 6 + ["kernel"]
    seen.clear()
    with config.override(checks=False):
        minijit.jit(lambda x: x * 1.75)(X)
    assert not seen


def test_optimizing_a_program_twice_changes_nothing_more() -> None:
    jaxpr = minijit.make_jaxpr(lambda x: (x + 1, x.T, jnp.exp(x)))(X)
    once = pipeline.optimize(jaxpr)
    assert isinstance(once, Jaxpr)
    assert len(pipeline.optimize(once).eqns) == len(once.eqns)


def plan_of(function: Any, *args: Any) -> Any:
    return minijit.jit(function).lower(*args).compile()._plan


def test_intermediate_values_are_released_after_their_last_use() -> None:
    plan = plan_of(lambda x: jnp.tanh(jnp.tanh(x @ x.T) @ x) + 1, X)
    kinds = [type(step) for step in plan.steps]
    assert kinds.count(KernelStep) == 2
    assert kinds.count(EagerStep) >= 2
    released = [slot for step in plan.steps for slot in step.released]
    assert len(released) == len(set(released))
    assert 0 not in released  # the argument is the caller's
    written = {slot for step in plan.steps for slot in step.outputs}
    assert len(written - set(released)) == 1  # all but the result


def test_arguments_are_never_written_to(device: Device) -> None:
    """Whatever the shape of the plan: one kernel, several, scalars between arrays, unused ones."""
    kept = X.copy()
    programs = [
        lambda a, s, b: a * 2,
        lambda a, s, b: b + 1,
        lambda a, s, b: s * 2,
        lambda a, s, b: a.shape[0],
        lambda a, s, b: (a, b, s),
        lambda a, s, b: (b.T @ a, a),
        lambda a, s, b: a.reshape(6, 2),
        lambda a, s, b: a * s + b,
        lambda s, a, b: a * s + b,
    ]
    for program in programs:
        f = minijit.jit(program)
        args = [device.put(X), 3.0, device.put(X)]
        if program is programs[-1]:
            args = [args[1], args[0], args[2]]
        for _ in range(3):
            f(*args)
        np.testing.assert_array_equal(X, kept)
        for arg in args:
            if not isinstance(arg, float):
                np.testing.assert_array_equal(device.get(arg), kept)
