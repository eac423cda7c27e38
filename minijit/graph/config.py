"""The settings: one frozen record, read from the environment, changed for all or in a block."""

from __future__ import annotations

import dataclasses
import math
import os
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal

from minijit.graph.locks import process_lock

__all__ = ["Settings", "View", "config"]


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """Every option with its default.

    Attributes:
        device: ``"cpu"``, ``"cuda"``, ``"cuda-emulated"``, or ``""`` to follow the inputs.
        default_float: Dtype that creation functions give floating-point data.
        default_int: Dtype that creation functions give integer data.
        checks: Verify the graph and the kernels after every step of the pipeline.
        autotune: Measure several schedules of a kernel when it is compiled, and take the fastest.
        debug_nans: Raise ``FloatingPointError`` when an output holds NaN.
        log_compiles: Log one line for each compile.
        explain_cache_misses: Log why a call had to be traced again.
        recompile_warning: Compiles of one function after which to warn, and at each eightfold. 0:
            never.
        max_compiles: Most compiles of one function; a call that needs more raises. 0: no limit.
        cache_entries: Most signatures kept in memory; the least recently used goes first.
        cache_bytes: Most bytes of a function's programs in memory, as estimated, and of arrays that
            its globals stood for earlier; the same.
        num_threads: CPU threads; 0 takes one for each available core.
        compilation_cache: Compiled kernels and plans on disk: ``"rw"``, ``"ro"`` to write none,
            ``"off"``.
        compilation_cache_dir: Their folder; ``""`` is the user's cache folder.
        compilation_cache_max_size: Most bytes of them; the least recently used go first. -1: all.
        persistent_cache_min_entry_size_bytes: Smaller ones are not written.
        persistent_cache_min_compile_time_secs: Ones that took less to compile are not written.
        extensions: What open scopes of ``minijit.extend`` have declared, and rewrites; set there.
    """

    device: str = ""
    default_float: str = "float32"
    default_int: str = "int32"
    checks: bool = False
    autotune: bool = False
    debug_nans: bool = False
    log_compiles: bool = False
    explain_cache_misses: bool = False
    recompile_warning: int = 8
    max_compiles: int = 0
    cache_entries: int = 4096
    cache_bytes: int = 2**30
    num_threads: int = 0
    compilation_cache: Literal["rw", "ro", "off"] = "rw"
    compilation_cache_dir: str = ""
    compilation_cache_max_size: int = 2**30
    persistent_cache_min_entry_size_bytes: int = 0
    persistent_cache_min_compile_time_secs: float = 0.0
    extensions: tuple[Any, ...] = ()

    @property
    def fingerprint(self) -> tuple[tuple[str, object], ...]:
        """The options that change what a function compiles to, by name."""
        names = ("default_float", "default_int", "checks", "autotune", "debug_nans")
        options = tuple((name, getattr(self, name)) for name in names)
        # By their texts, which no two have in common: a version must not keep them alive.
        return (*options, ("extensions", tuple(map(repr, self.extensions))))


_FIELDS = {field.name: field for field in dataclasses.fields(Settings)}
_SHARED = frozenset(
    {"cache_entries", "cache_bytes", "num_threads"}
    | {name for name in _FIELDS if name.startswith(("compilation_cache", "persistent_cache"))}
)
"""Options of what all threads share, caches and the pool: a block sets them for all."""
_VARIABLES = {name: f"MINIJIT_{name.upper()}" for name in _FIELDS if name != "extensions"} | {
    "compilation_cache": "MINIJIT_CACHE",
    "compilation_cache_dir": "MINIJIT_CACHE_DIR",
}
"""Variables of the environment: two that everybody sets are short."""
_versions: dict[tuple[str, object], int] = {}
_Block = Mapping[str, Any]


class View:
    """The settings as one thread (or one task of ``asyncio``) sees them.

    Attributes:
        blocks: What the open ``override`` blocks set, the outermost first.
        settings: All options.
        version: A number that stands for the options that a compiled program depends on.
    """

    __slots__ = ("__weakref__", "blocks", "settings", "version")

    settings: Settings
    version: int

    def __init__(self, blocks: tuple[_Block, ...]) -> None:
        """Hold nothing yet: the configuration fills it in."""
        self.blocks = blocks


class Config:
    """The current settings; options are read as attributes, written by :meth:`update`.

    Attributes:
        view: Returns what the calling thread sees; ``view().version`` is read at every call.
    """

    view: Callable[[], View]
    _base: Settings
    _blocks: tuple[_Block, ...]
    _shared: View
    _own: ContextVar[View]
    _views: weakref.WeakSet[View]
    _observers: dict[str, list[Callable[[], None]]]
    _lock: threading.RLock

    def __init__(self) -> None:
        """Read the options' variables from the environment."""
        shared = View(())
        own = ContextVar("minijit_view", default=shared)
        self._assign(_lock=process_lock(), _views=weakref.WeakSet({shared}), _observers={})
        self._assign(_shared=shared, _own=own, view=own.get)
        self._change(Settings(), ())
        for name, variable in _VARIABLES.items():
            text = os.environ.get(variable)
            if text:  # an empty one is as good as none
                try:
                    self.update(name, _parse(text, _FIELDS[name].default))
                except ValueError as error:
                    raise ValueError(f"{variable}: {error}") from None

    def __getattr__(self, name: str) -> Any:
        """Return the value of an option."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.view().settings, name)

    def __setattr__(self, name: str, value: object) -> None:
        """Refuse: an attribute would hide the option of its name."""
        raise AttributeError(f"options are set by config.update({name!r}, {value!r})")

    @property
    def settings(self) -> Settings:
        """The record that this thread sees; it is immutable and can be compared."""
        return self.view().settings

    @property
    def version(self) -> int:
        """The number of what this thread sees; equal options have equal numbers."""
        return self.view().version

    def update(self, name: str, value: object) -> None:
        """Set one option for all threads; JAX's spelling with the prefix ``jax_`` is accepted.

        Where an ``override`` block is open, it keeps what it sets.

        Raises:
            AttributeError: no option has that name.
            TypeError: the value has another type than the option.
            ValueError: the option cannot have that value.
        """
        block = _checked({name: value})
        with self._changing():
            self._change(dataclasses.replace(self._base, **block), self._blocks)

    @contextmanager
    def override(self, **options: object) -> Iterator[None]:
        """Set options for the length of a ``with`` block, for the thread that opens it.

        Other threads see nothing of it, those started inside neither; only ``cache_entries``,
        ``num_threads`` and the options of the disk cache concern what all threads share. Blocks may
        close in any order.
        """
        checked = _checked(options)
        everywhere = {name: checked.pop(name) for name in _SHARED.intersection(checked)}
        self._open(checked, everywhere)
        try:
            yield
        finally:
            self._close(checked, everywhere)

    def observe(self, name: str, observer: Callable[[], None]) -> None:
        """Call ``observer`` after each change of an option that all threads share.

        It reads the option itself: it may have been changed again meanwhile.
        """
        self._observers.setdefault(name, []).append(observer)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Hold the lock; tell the observers of shared options afterwards, who take other locks."""
        with self._lock:
            before = self._shared.settings
            yield
            now = self._shared.settings
        for name, observers in self._observers.items():
            if getattr(before, name) != getattr(now, name):
                for observer in observers:
                    observer()

    def _open(self, block: _Block, everywhere: _Block) -> None:
        with self._changing():
            if block:
                self._look((*self.view().blocks, block))
            if everywhere:
                self._change(self._base, (*self._blocks, everywhere))

    def _close(self, block: _Block, everywhere: _Block) -> None:
        with self._changing():
            if block:
                self._look(_without(self.view().blocks, block))
            if everywhere:
                self._change(self._base, _without(self._blocks, everywhere))

    def _look(self, blocks: tuple[_Block, ...]) -> None:
        """Give this thread its own view, or without blocks that of all."""
        view = View(blocks) if blocks else self._shared
        self._fill(view)
        self._views.add(view)
        self._own.set(view)

    def _change(self, base: Settings, blocks: tuple[_Block, ...]) -> None:
        """Change what all threads share, and with it every view."""
        self._assign(_base=base, _blocks=blocks)
        for view in self._views:
            self._fill(view)

    def _fill(self, view: View) -> None:
        settings = self._base
        for block in (*self._blocks, *view.blocks):
            settings = dataclasses.replace(settings, **block)
        # Equal settings share a version, so that going back finds what was compiled before.
        key = (settings.device, settings.fingerprint)
        view.settings = settings
        view.version = _versions.setdefault(key, len(_versions))

    def _assign(self, **attributes: object) -> None:
        for name, value in attributes.items():
            object.__setattr__(self, name, value)


_CHOICES = {
    "device": ("", "cpu", "cuda", "cuda-emulated"),
    "compilation_cache": ("rw", "ro", "off"),
}
_RANGES: dict[str, tuple[float, float]] = {
    "recompile_warning": (0, 2**31 - 1),
    "max_compiles": (0, 2**31 - 1),
    "cache_entries": (1, 2**31 - 1),
    "cache_bytes": (0, 2**63 - 1),
    "num_threads": (0, 1024),
    "compilation_cache_max_size": (-1, 2**63 - 1),
    "persistent_cache_min_entry_size_bytes": (-1, 2**63 - 1),
    "persistent_cache_min_compile_time_secs": (0.0, 1e9),
}


def _checked(options: Mapping[str, object]) -> dict[str, Any]:
    """Return options under their own names.

    Raises:
        AttributeError: no option has that name.
        TypeError: a value has another type than its option.
        ValueError: an option cannot have that value.
    """
    checked = {}
    for given, value in options.items():
        name = given.removeprefix("minijit_").removeprefix("jax_")
        if name not in _FIELDS:
            raise AttributeError(f"no option {name!r}; the options are {', '.join(_FIELDS)}")
        default = _FIELDS[name].default
        if type(default) is float and type(value) is int:
            value = float(value)
        if value is None and name == "compilation_cache_dir":
            value = default  # as in JAX: no folder of one's own
        if type(value) is not type(default):
            raise TypeError(f"option {name!r} takes {type(default).__name__}, not {value!r}")
        if name == "compilation_cache" and value in ("0", "1"):
            value = "rw" if value == "1" else "off"  # as a variable of the environment is switched
        if name in _CHOICES and value not in _CHOICES[name]:
            raise ValueError(f"option {name!r} is one of {_CHOICES[name]}, not {value!r}")
        low, high = _RANGES.get(name, (-math.inf, math.inf))
        if isinstance(value, int | float) and not low <= value <= high:
            raise ValueError(f"option {name!r} is between {low} and {high}, not {value!r}")
        checked[name] = value
    return checked


def _without(blocks: tuple[_Block, ...], closed: _Block) -> tuple[_Block, ...]:
    return tuple(block for block in blocks if block is not closed)


def _parse(text: str, default: object) -> object:
    if isinstance(default, bool):
        if text.lower() not in ("0", "1", "true", "false"):
            raise ValueError(f"{text!r} is not a truth value: use 0, 1, true or false")
        return text.lower() in ("1", "true")
    return type(default)(text) if isinstance(default, int | float) else text


config = Config()
