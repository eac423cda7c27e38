"""A pytest plug-in: modules of numba-cuda's suite under their own names, outcomes to a file."""

from __future__ import annotations

import gc
import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


class _Installed(pytest.Module):
    """A module that is imported as part of its package, not by its path."""

    def _getobj(self) -> ModuleType:
        path = self.path.with_suffix("")
        top = next(folder for folder in path.parents if folder.name == "numba_cuda")
        return importlib.import_module(".".join(path.relative_to(top).parts))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--outcomes", help="file that gets a line for each test")
    parser.addoption("--dump-failed-filechecks", action="store_true")


def pytest_collect_directory(path: Path, parent: Any) -> pytest.Dir:
    # A package would be imported a second time, by its path.
    return pytest.Dir.from_parent(parent, path=path)


def pytest_pycollect_makemodule(module_path: Path, parent: Any) -> pytest.Module:
    return _Installed.from_parent(parent, path=module_path)


def pytest_collection_finish() -> None:
    # The suite collects garbage often; what was imported need not be looked at each time.
    gc.collect()
    gc.freeze()


@pytest.fixture
def initialize_from_pytest_config(request: pytest.FixtureRequest) -> None:
    """What the suite's own conftest sets, which is not installed."""
    if request.cls is not None:
        request.cls._dump_failed_filechecks = False


class _Outcomes:
    """Writes what became of each test; the worst of its phases and subtests counts."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.found: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = report.nodeid
        before = self.found.get(name, "passed")
        if report.outcome == "failed" or before == "passed":
            self.found[name] = report.outcome

    def pytest_unconfigure(self) -> None:
        lines = [f"{outcome} {name}\n" for name, outcome in self.found.items()]
        self.path.write_text("".join(lines))


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption("--outcomes")
    if path:
        config.pluginmanager.register(_Outcomes(Path(path)))
