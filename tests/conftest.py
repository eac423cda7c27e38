"""Fixtures for all tests: checks after every pipeline step, event counts, the `gpu` marker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from minijit.graph import events
from minijit.graph.config import config
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
