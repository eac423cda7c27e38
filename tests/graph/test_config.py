"""Options: names, types, the environment, and blocks that restore what was before."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from minijit.graph.config import Config, config


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> Config:
    for name in os.environ:
        if name.startswith("MINIJIT_"):
            monkeypatch.delenv(name)
    return Config()


def test_defaults_and_updates(own: Config) -> None:
    assert (own.device, own.checks, own.cache_entries) == ("", False, 4096)
    own.update("cache_entries", 3)
    own.update("jax_debug_nans", True)
    own.update("minijit_device", "cpu")
    assert (own.cache_entries, own.debug_nans, own.device) == (3, True, "cpu")


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("no_such_option", True, AttributeError),
        ("debug_nans", 1, TypeError),
        ("cache_entries", "3", TypeError),
        ("cache_entries", True, TypeError),
        ("device", "tpu", ValueError),
    ],
)
def test_mistakes_are_refused(own: Config, name: str, value: Any, error: type[Exception]) -> None:
    before = own.settings
    with pytest.raises(error, match=name):
        own.update(name, value)
    assert own.settings == before


def test_an_unknown_option_lists_those_that_exist(own: Config) -> None:
    with pytest.raises(AttributeError, match="debug_nans, log_compiles"):
        own.update("debug_nan", True)
    with pytest.raises(AttributeError):
        _ = own.debug_nan


def test_assignment_is_refused_for_it_would_hide_the_option(own: Config) -> None:
    with pytest.raises(AttributeError, match=r"config\.update\('debug_nans', True\)"):
        own.debug_nans = True
    assert own.debug_nans is False


def test_override_restores_also_after_an_error(own: Config) -> None:
    before = own.settings
    with own.override(debug_nans=True, cache_entries=2):
        assert own.debug_nans
        with own.override(cache_entries=1):
            assert (own.debug_nans, own.cache_entries) == (True, 1)
        assert own.cache_entries == 2
    assert own.settings == before
    with pytest.raises(KeyError), own.override(checks=True):
        raise KeyError
    with pytest.raises(AttributeError), own.override(checks=True, nonsense=1):
        raise AssertionError
    assert own.settings == before


def test_the_version_stands_for_what_programs_depend_on(own: Config) -> None:
    first = own.version
    own.update("log_compiles", True)
    assert own.version == first
    own.update("debug_nans", True)
    assert own.version != first
    own.update("debug_nans", False)
    assert own.version == first
    own.update("device", "cpu")
    assert own.version != first


@pytest.mark.parametrize(
    ("text", "value"), [("1", True), ("true", True), ("0", False), ("False", False)]
)
def test_environment(monkeypatch: pytest.MonkeyPatch, text: str, value: bool) -> None:
    monkeypatch.setenv("MINIJIT_CHECKS", text)
    monkeypatch.setenv("MINIJIT_CACHE_ENTRIES", "7")
    monkeypatch.setenv("MINIJIT_DEVICE", "cpu")
    own = Config()
    assert (own.checks, own.cache_entries, own.device) == (value, 7, "cpu")


@pytest.mark.parametrize(
    ("name", "text"), [("CHECKS", "yes"), ("CACHE_ENTRIES", "many"), ("DEVICE", "tpu")]
)
def test_nonsense_in_the_environment(name: str, text: str) -> None:
    environment = {**os.environ, f"MINIJIT_{name}": text}
    done = subprocess.run(
        [sys.executable, "-c", "import minijit"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode
    assert f"MINIJIT_{name}" in done.stderr


def test_tests_run_with_checks() -> None:
    assert config.checks
