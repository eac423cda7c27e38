"""What docs/reference/limits.md says is not noticed: it is pinned, so that the page stays true."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minijit
from tests.conftest import Device

X = np.arange(4, dtype=np.float32)

LIST = ("numbers = [1.0]", "x * numbers[0]", "numbers[0] = 2.0")
DICT = ("numbers = {'k': 1.0}", "x * numbers['k']", "numbers['k'] = 2.0")
INSTANCE = ("class C: pass\nc = C()\nc.k = 1.0", "x * c.k", "c.k = 2.0")
CODE = (
    "def g(x): return x * 1.0\ndef h(x): return x * 2.0",
    "g(x)",
    "g.__code__ = h.__code__",
)
DEFAULTS = ("def g(x, k=1.0): return x * k", "g(x)", "g.__defaults__ = (2.0,)")
KEYWORDS = ("def g(x, *, k=1.0): return x * k", "g(x)", "g.__kwdefaults__ = {'k': 2.0}")


@pytest.mark.parametrize(
    ("before", "result", "change"), [LIST, DICT, INSTANCE, CODE, DEFAULTS, KEYWORDS]
)
def test_changes_inside_of_objects_are_seen_by_the_next_trace_only(
    device: Device, before: str, result: str, change: str
) -> None:
    names = vars(types.ModuleType("m"))
    exec(f"{before}\ndef f(x): return {result}", names)
    f: Callable[[Any], Any] = minijit.jit(names["f"])
    x = device.put(X)
    np.testing.assert_array_equal(device.get(f(x)), X)
    exec(change, names)
    np.testing.assert_array_equal(device.get(f(x)), X)
    minijit.clear_caches()
    np.testing.assert_array_equal(device.get(f(x)), 2 * X)
