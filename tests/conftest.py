"""Fixtures for all tests: checks after every pipeline step, event counts, the `gpu` marker."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from minijit.backends.registry import default_device, devices
from minijit.graph import events
from minijit.graph.config import config
from minijit.graph.tree import flatten, unflatten
from minijit.tools.machine import find_driver

# At import, so that what test modules trace while they are collected is checked as well.
config.update("checks", True)


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
        name: What `minijit.devices()` calls it.
    """

    name: str

    def put(self, value: Any) -> Any:
        """The array on the device, in its strides; everything else as it is."""
        if self.name == "cpu" or not isinstance(value, np.ndarray):
            return value
        import cupy

        return cupy.asarray(value)

    def get(self, tree: Any) -> Any:
        """The pytree with NumPy arrays."""
        leaves, treedef = flatten(tree)
        return unflatten(treedef, [x.get() if hasattr(x, "get") else np.asarray(x) for x in leaves])


_DEVICES = [
    pytest.param(name, marks=pytest.mark.gpu) if name == "cuda" else name for name in devices()
]


@pytest.fixture(params=_DEVICES)
def device(request: pytest.FixtureRequest) -> Iterator[Device]:
    """Each device in turn, as the one on which everything runs."""
    with default_device(request.param):
        yield Device(request.param)
