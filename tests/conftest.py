"""Fixtures for all tests: checks after every pipeline step, event counts, the `gpu` marker."""

from __future__ import annotations

import ctypes
import dataclasses
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pytest

from minijit.backends.registry import default_device, get_backend
from minijit.graph import events
from minijit.graph.config import config
from minijit.graph.tree import flatten, unflatten
from minijit.tools.machine import find_driver
from tests.sampling import DEEP

_ALIGNMENT = 16  # of the widest access

# At import, so that what test modules trace while they are collected is checked as well.
config.update("checks", True)
# Many tests compile one function for many types; tests of the warning ask for it.
config.update("recompile_warning", 0)
# Tests count compiles, and must not see what others left in the user's folder; a process that a
# test starts inherits it. Tests of the disk cache name a folder of their own.
config.update("compilation_cache", "off")
os.environ["MINIJIT_CACHE"] = "0"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    gpu_tests = [item for item in items if item.get_closest_marker("gpu")]
    if not gpu_tests:
        return
    driver = find_driver()
    if isinstance(driver, str) or not driver.gpus:
        why = driver if isinstance(driver, str) else "the NVIDIA driver shows no GPU"
        for item in gpu_tests:
            item.add_marker(pytest.mark.skip(reason=f"needs a GPU: {why}"))


@pytest.fixture
def counts() -> Iterator[Counter[str]]:
    """Events by name from here to the end of the test: "trace", "compile", "launch" ..."""
    with events.count() as counter:
        yield counter


@dataclasses.dataclass(frozen=True)
class Device:
    """Where a test runs: the same test for each device that can run here.

    Attributes:
        name: What `minijit.default_device` calls it.
    """

    name: str

    @property
    def most_buffers(self) -> int:
        """How many arrays one kernel may read and write."""
        return get_backend(self.name).most_buffers

    def put(self, value: Any) -> Any:
        """The array on the device, in its strides and as aligned; everything else as it is."""
        if self.name == "cpu" or not isinstance(value, np.ndarray):
            return value
        backend = get_backend(self.name)
        if value.ndim == 0 or value.size == 0:
            return backend.asarray(value)
        # A copy of the view alone would be contiguous and aligned: its neighbours come along.
        low, high = np.lib.array_utils.byte_bounds(value)
        spanned = (ctypes.c_uint8 * (high - low)).from_address(low)
        before = low % _ALIGNMENT
        memory = backend.asarray(np.concatenate([np.zeros(before, np.uint8), spanned]))
        start = before + value.ctypes.data - low
        if isinstance(memory, np.ndarray):
            view = np.ndarray(value.shape, value.dtype, memory, start, value.strides)
            return view.view(type(memory))
        pointer = memory.data + start
        return backend.xp.ndarray(value.shape, value.dtype, pointer, value.strides)

    def get(self, tree: Any) -> Any:
        """The pytree with NumPy arrays."""
        leaves, treedef = flatten(tree)
        return unflatten(treedef, [x.get() if hasattr(x, "get") else np.asarray(x) for x in leaves])


_DEVICES: dict[str, tuple[pytest.MarkDecorator, ...]] = {
    "cpu": (),
    "cuda-emulated": (),
    "cuda": (pytest.mark.gpu,),
}


def on_each_device(
    name: str, cases: Iterable[Any], emulated: Iterable[Any], ids: Callable[[Any], str] = str
) -> pytest.MarkDecorator:
    """Parametrize a test by ``device`` and a case, most of which the emulated device leaves out.

    It compiles as slowly as a GPU does, and runs more slowly; ``MINIJIT_TEST_DEEP=1`` gives it
    every case as well.

    Args:
        name: Of the argument that takes the case.
        cases: All of them.
        emulated: Those for the emulated device.
        ids: What a case is called.
    """
    every, few = list(cases), list(emulated)
    return pytest.mark.parametrize(
        ("device", name),
        [
            pytest.param(device, case, marks=marks, id=f"{device}-{ids(case)}")
            for device, marks in _DEVICES.items()
            for case in (few if device == "cuda-emulated" and not DEEP else every)
        ],
        indirect=["device"],
    )


@pytest.fixture(params=[pytest.param(name, marks=marks) for name, marks in _DEVICES.items()])
def device(request: pytest.FixtureRequest) -> Iterator[Device]:
    """Each device in turn, as the one on which everything runs."""
    with default_device(request.param):
        yield Device(request.param)
