"""What a kernel is kept under: everything that decides its code, and nothing else."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np
import pytest

import minijit
from minijit.api import load_operations
from minijit.graph.primitive import all_primitives
from minijit.lowering.source import KernelSource
from minijit.ops.literals import Formula
from minijit.runtime.describe import Indescribable, describe_function, describe_source
from minijit.runtime.disk.key import canonical
from tests.conftest import Device

SIZE = 5.0
X = np.ones((4, 6), np.float32)


def source_of(function: Callable[..., Any], *args: Any) -> KernelSource:
    lowered = minijit.jit(function).lower(*args)
    lowered.compile()
    (source,) = lowered._compile().sources
    return source


def described(function: Callable[..., Any], *args: Any) -> bytes:
    return canonical(describe_source(source_of(function, *args)))


def _is_ours(make: Any) -> bool:
    """Whether no test declared it: those of other tests may stay in the registry."""
    make = make.function if isinstance(make, Formula) else make
    inner = [cell.cell_contents for cell in make.__closure__ or ()]
    functions = [make, *(value for value in inner if isinstance(value, FunctionType))]
    return all(function.__module__.startswith("minijit.") for function in functions)


def test_every_scalar_function_and_every_monoid_can_be_described() -> None:
    load_operations()
    makers = [p.scalar.make for p in all_primitives() if p.scalar is not None]
    makers += [p.monoid.combine for p in all_primitives() if p.monoid is not None]
    makers = [make for make in makers if _is_ours(make)]
    assert len(makers) > 80
    for make in makers:
        assert isinstance(make, FunctionType)
        canonical(describe_function(make))


def test_names_comments_and_lines_have_no_part(device: Device) -> None:
    def f(x: Any) -> Any:
        return np.tanh(x) * 2 + x.sum(-1, keepdims=True)

    def another(  # the same on other lines
        values: Any,
    ) -> Any:
        doubled = np.tanh(values) * 2
        return doubled + values.sum(-1, keepdims=True)

    x = device.put(X)
    assert described(f, x) == described(another, x)


@pytest.mark.parametrize(
    "other",
    [
        lambda x: np.exp(x) * 3,
        lambda x: np.exp(x) + 2,
        lambda x: np.exp2(x) * 2,
        lambda x: x * np.exp(x),
        lambda x: (np.exp(x) * 2).astype(np.float64),
        lambda x: (np.exp(x) * 2).max(0),
        lambda x: np.exp(x.T) * 2,
        lambda x: np.exp(-x) * 2,
    ],
)
def test_what_decides_the_code_has_a_part(device: Device, other: Callable[[Any], Any]) -> None:
    x = device.put(X)
    assert described(lambda x: np.exp(x) * 2, x) != described(other, x)


@pytest.mark.parametrize("x", [X.astype(np.float64), X[:2], X.T, X[:, ::2], X.astype(np.float16)])
def test_so_do_types_and_layouts(x: Any) -> None:
    assert described(lambda x: np.exp(x).sum(0), X) != described(lambda x: np.exp(x).sum(0), x)


@pytest.mark.parametrize(
    "name", ["a\nimport os", "1", "class", "é", "f(x):\n  pass #", '"', "𝒇", ""]
)
def test_a_name_cannot_put_code_into_a_kernel(device: Device, name: str) -> None:
    def f(x: Any) -> Any:
        return np.sqrt(x) - 1

    x = device.put(X)
    plain = described(f, x)
    f.__name__ = f.__qualname__ = name
    f.__code__ = f.__code__.replace(co_name=name, co_filename=name)
    np.testing.assert_array_equal(device.get(minijit.jit(f)(x)), np.sqrt(X) - 1)
    source = source_of(f, x)
    assert source.kernel.name.isascii()
    assert source.kernel.name.isidentifier()
    compile(source.text, "generated", "exec")
    assert canonical(describe_source(source)) == plain


def test_a_function_is_described_by_what_it_reads() -> None:
    def made(size: float, power: int = 2) -> Callable[[float], float]:
        def scaled(x: float) -> float:
            """A docstring does nothing."""
            return math.sqrt(x) * size**power

        return scaled

    def of(function: Callable[..., Any]) -> bytes:
        assert isinstance(function, FunctionType)
        return canonical(describe_function(function))

    def documented(x: float) -> float:
        """One text."""
        return x + SIZE

    def redocumented(x: float) -> float:
        """Another text."""
        return x + SIZE

    assert of(made(1.0)) == of(made(1.0))
    assert len({of(made(1.0)), of(made(2.0)), of(made(1)), of(made(1.0, 3))}) == 4
    assert of(documented) == of(redocumented)


def test_a_changed_global_is_another_description(monkeypatch: pytest.MonkeyPatch) -> None:
    def reads(x: float) -> float:
        return x + SIZE

    assert isinstance(reads, FunctionType)
    before = canonical(describe_function(reads))
    monkeypatch.setitem(globals(), "SIZE", 6.0)
    assert canonical(describe_function(reads)) != before


def test_recursion_ends() -> None:
    def factorial(n: int) -> int:
        return 1 if n < 2 else n * factorial(n - 1)

    assert canonical(describe_function(factorial))


def test_an_object_without_a_text_form_is_refused() -> None:
    thing = object()

    def reads(x: float) -> float:
        return x if thing else -x

    with pytest.raises(Indescribable, match="no description that holds in another process"):
        describe_function(reads)
