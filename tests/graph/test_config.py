"""Options: names, types, the environment, and blocks that restore what was before."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
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
        ("compilation_cache", "rx", ValueError),
        ("compilation_cache", False, TypeError),
        ("compilation_cache_dir", 1, TypeError),
        ("compilation_cache_max_size", -2, ValueError),
        ("persistent_cache_min_compile_time_secs", "1", TypeError),
        ("persistent_cache_min_compile_time_secs", True, TypeError),
        ("persistent_cache_min_compile_time_secs", float("nan"), ValueError),
    ],
)
def test_mistakes_are_refused(own: Config, name: str, value: Any, error: type[Exception]) -> None:
    before = own.settings
    with pytest.raises(error, match=name):
        own.update(name, value)
    assert own.settings == before


def test_none_is_no_folder_of_ones_own(own: Config) -> None:
    own.update("jax_compilation_cache_dir", "/somewhere")
    own.update("jax_compilation_cache_dir", None)
    assert own.compilation_cache_dir == ""


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


def in_thread(work: Callable[[], Any]) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result(30)


def test_a_block_is_for_the_thread_that_opens_it(own: Config) -> None:
    other = own.version
    with own.override(device="cpu", debug_nans=True):
        inside = own.version
        assert inside != other
        assert in_thread(lambda: (own.device, own.debug_nans, own.version)) == ("", False, other)

        def nested() -> tuple[bool, int]:
            with own.override(device="cpu", debug_nans=True):
                return own.debug_nans, own.version

        assert in_thread(nested) == (True, inside)
    assert own.version == other


def test_threads_that_switch_all_the_time_see_their_own_options(own: Config) -> None:
    seen: list[int] = []

    def switch(number: int) -> None:
        options = {"checks": number >= 2, "debug_nans": number % 2 == 1}
        for _ in range(2500):
            with own.override(**options):
                assert {"checks": own.checks, "debug_nans": own.debug_nans} == options
            assert (own.checks, own.debug_nans) == (False, False)
        seen.append(number)

    before = own.settings
    threads = [threading.Thread(target=switch, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == [0, 1, 2, 3]
    assert own.settings == before


def test_an_update_is_for_all_threads_and_stays(own: Config) -> None:
    with own.override(debug_nans=True):
        in_thread(lambda: own.update("checks", True))
        assert (own.checks, own.debug_nans) == (True, True)
        own.update("debug_nans", False)
        own.update("default_int", "int64")
        assert (own.debug_nans, in_thread(lambda: own.debug_nans)) == (True, False)
        inside = own.version
    assert (own.checks, own.debug_nans, own.default_int) == (True, False, "int64")
    assert inside != own.version


def test_blocks_that_overlap_leave_nothing(own: Config) -> None:
    before = own.settings
    first = own.override(checks=True, num_threads=2)
    second = own.override(debug_nans=True, num_threads=3)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert (own.checks, own.debug_nans, own.num_threads) == (False, True, 3)
    second.__exit__(None, None, None)
    assert own.settings == before


def test_what_threads_share_changes_for_all_of_them(own: Config) -> None:
    seen: list[int] = []
    own.observe("num_threads", lambda: seen.append(own.num_threads))
    with own.override(num_threads=3, cache_entries=5, checks=True):
        both = in_thread(lambda: (own.num_threads, own.cache_entries, own.checks))
        assert both == (3, 5, False)
        own.update("num_threads", 7)  # the block keeps what it sets
    own.update("num_threads", 7)
    own.update("checks", True)
    own.update("num_threads", 0)
    assert seen == [3, 7, 0]


def test_tasks_that_take_turns_keep_their_options(own: Config) -> None:
    async def task(device: str, turns: int) -> list[str]:
        seen = []
        with own.override(device=device):
            for _ in range(turns):
                await asyncio.sleep(0)
                seen.append(own.device)
        return [*seen, own.device]

    async def both() -> list[list[str]]:
        return await asyncio.gather(task("cpu", 2), task("cuda", 4))

    assert asyncio.run(both()) == [["cpu"] * 2 + [""], ["cuda"] * 4 + [""]]
    assert own.device == ""


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
    monkeypatch.setenv("MINIJIT_CACHE_BYTES", "")  # as good as none
    own = Config()
    assert (own.checks, own.cache_entries, own.device) == (value, 7, "cpu")


@pytest.mark.parametrize(
    ("name", "text"),
    [("CHECKS", "yes"), ("CACHE_ENTRIES", "many"), ("DEVICE", "tpu"), ("CACHE", "yes")],
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


def test_the_disk_cache_has_short_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    modes = {"0": "off", "off": "off", "1": "rw", "rw": "rw", "": "rw", "ro": "ro"}
    for text, mode in modes.items():
        monkeypatch.setenv("MINIJIT_CACHE", text)
        monkeypatch.setenv("MINIJIT_CACHE_DIR", "~/kept here")
        monkeypatch.setenv("MINIJIT_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.25")
        own = Config()
        assert (own.compilation_cache, own.compilation_cache_dir) == (mode, "~/kept here")
        assert own.persistent_cache_min_compile_time_secs == 0.25


def test_jax_names_of_the_disk_cache_are_accepted(own: Config) -> None:
    for name, value in (
        ("jax_compilation_cache_dir", "/somewhere"),
        ("jax_compilation_cache_max_size", -1),
        ("jax_persistent_cache_min_entry_size_bytes", -1),
        ("jax_persistent_cache_min_compile_time_secs", 1),
    ):
        version = own.version
        own.update(name, value)
        found = getattr(own, name.removeprefix("jax_"))
        assert found == value
        assert type(found) is type(getattr(Config(), name.removeprefix("jax_")))
        assert own.version == version, "what is compiled does not depend on it"


def test_the_disk_cache_is_shared_by_all_threads(own: Config) -> None:
    with own.override(compilation_cache="ro", compilation_cache_dir="/a"):
        assert in_thread(lambda: (own.compilation_cache, own.compilation_cache_dir)) == ("ro", "/a")
    assert (own.compilation_cache, own.compilation_cache_dir) == ("rw", "")


def test_tests_run_with_checks() -> None:
    assert config.checks


@pytest.mark.parametrize(
    ("name", "value"), [("num_threads", -1), ("num_threads", 100_000), ("cache_entries", 0)]
)
def test_numbers_out_of_range_are_refused(name: str, value: int) -> None:
    with pytest.raises(ValueError, match=f"option '{name}' is between"):
        config.update(name, value)
