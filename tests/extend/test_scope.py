"""What is declared in a scope: gone at its end, known to one thread, part of every key."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minijit
from minijit.extend import all_primitives, elementwise, scope
from minijit.graph.config import config
from minijit.graph.errors import DeclarationError
from minijit.graph.primitive import find_primitive
from minijit.graph.registry import declare
from tests.conftest import Device

X = np.arange(4, dtype=np.float32)


def times(factor: float, **options: Any) -> Any:
    return elementwise(name="times", **options)(lambda x: x * factor)


def test_names_end_with_their_scope() -> None:
    with scope():
        times(2)
        assert find_primitive("times") in list(all_primitives())
        with scope(), pytest.raises(DeclarationError, match="named 'times' exists already"):
            times(3)
    with pytest.raises(KeyError):
        find_primitive("times")
    assert "times" not in {p.name for p in all_primitives()}


def test_a_name_that_is_used_again_is_another_operation(device: Device) -> None:
    x = device.put(X)
    for factor in (2.0, 3.0, 2.0):
        with scope():
            operation = times(factor)
            f = minijit.jit(lambda x, operation=operation: operation(x) + 1)
            np.testing.assert_array_equal(device.get(f(x)), X * factor + 1)
            np.testing.assert_array_equal(device.get(operation(x)), X * factor)


def test_a_global_that_is_declared_anew_is_seen(counts: Counter[str]) -> None:
    names: dict[str, Any] = {}

    def program(x: Any) -> Any:
        return operations["now"](x)

    operations = names
    f = minijit.jit(program)
    for factor in (2.0, 3.0):
        with scope():
            names["now"] = times(factor)
            np.testing.assert_array_equal(f(X), X * factor)
    assert counts["trace"] == 2


def test_what_answers_a_ufunc_does_so_in_its_scope_alone() -> None:
    f = minijit.jit(lambda x: np.spacing(x))
    for factor in (2.0, 3.0):
        with scope():
            times(factor, ufunc=np.spacing)
            np.testing.assert_array_equal(f(X), X * factor)
    with pytest.raises(TypeError, match="spacing cannot be traced"):
        f(X)
    with pytest.raises(DeclarationError, match="has a meaning for traced arrays already"):
        times(2, ufunc=np.exp)


def test_other_threads_know_nothing_of_a_scope() -> None:
    seen: list[Any] = []
    with scope():
        times(2)
        thread = threading.Thread(target=lambda: seen.append(config.extensions))
        thread.start()
        thread.join()
        assert [extension.name for extension in config.extensions] == ["times"]
    assert seen == [()]


def test_of_threads_that_declare_one_name_one_does() -> None:
    outcomes: list[str] = []
    start = threading.Barrier(8)

    def attempt() -> None:
        start.wait()
        try:
            declare("example", "contested", object())
            outcomes.append("declared")
        except DeclarationError:
            outcomes.append("refused")

    threads = [threading.Thread(target=attempt) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["declared"] + ["refused"] * 7


def test_kernels_on_the_disk_are_those_of_the_code(tmp_path: Path, counts: Counter[str]) -> None:
    """Another function under an earlier one's name has another entry; the same has the same."""

    def run(factor: float) -> Any:
        with scope():
            operation = times(factor)
            return minijit.jit(lambda x: operation(x))(X)

    with config.override(compilation_cache="rw", compilation_cache_dir=str(tmp_path)):
        for factor in (2.0, 3.0):
            np.testing.assert_array_equal(run(factor), X * factor)
        assert (counts["compile"], counts["disk_hit"]) == (2, 0)
        minijit.clear_caches()
        for factor in (3.0, 2.0):
            np.testing.assert_array_equal(run(factor), X * factor)
        assert (counts["compile"], counts["disk_hit"]) == (2, 2)
