"""The settings: one frozen record, read from the environment, replaced by ``config.update``."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["Settings", "config"]


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """Every option with its default.

    Attributes:
        device: ``"cpu"``, ``"cuda"``, or ``""`` to follow the inputs (CuPy arrays run on CUDA).
        default_float: Dtype that creation functions give floating-point data.
        default_int: Dtype that creation functions give integer data.
        checks: Verify the graph and the kernels after every step of the pipeline.
        debug_nans: Raise ``FloatingPointError`` when an output holds NaN.
        log_compiles: Log one line for each compile.
        explain_cache_misses: Log why a call had to be traced again.
        cache_entries: Most signatures kept in memory; the least recently used goes first.
        num_threads: CPU threads; 0 takes one for each available core.
    """

    device: str = ""
    default_float: str = "float32"
    default_int: str = "int32"
    checks: bool = False
    debug_nans: bool = False
    log_compiles: bool = False
    explain_cache_misses: bool = False
    cache_entries: int = 4096
    num_threads: int = 0

    @property
    def fingerprint(self) -> tuple[object, ...]:
        """The options that change what a function compiles to."""
        return (self.default_float, self.default_int, self.checks, self.debug_nans)


_versions: dict[tuple[str, tuple[object, ...]], int] = {}


class Config:
    """The current settings; options are read as attributes, written by :meth:`update`.

    Attributes:
        version: A number that stands for the options that a compiled program depends on.
    """

    _settings: Settings
    version: int

    def __init__(self) -> None:
        """Read ``MINIJIT_<OPTION>`` from the environment."""
        self._replace(Settings())
        for field in dataclasses.fields(Settings):
            text = os.environ.get(f"MINIJIT_{field.name.upper()}")
            if text is not None:
                try:
                    self.update(field.name, _parse(text, field.default))
                except ValueError as error:
                    raise ValueError(f"MINIJIT_{field.name.upper()}: {error}") from None

    def __getattr__(self, name: str) -> Any:
        """Return the value of an option."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._settings, name)

    def __setattr__(self, name: str, value: object) -> None:
        """Refuse: an attribute would hide the option of its name."""
        raise AttributeError(f"options are set by config.update({name!r}, {value!r})")

    @property
    def settings(self) -> Settings:
        """The current record; it is immutable and can be compared."""
        return self._settings

    def update(self, name: str, value: object) -> None:
        """Set one option; JAX's spelling with the prefix ``jax_`` is accepted.

        Raises:
            AttributeError: no option has that name.
            TypeError: the value has another type than the option.
        """
        name = name.removeprefix("minijit_").removeprefix("jax_")
        fields = {field.name: field for field in dataclasses.fields(Settings)}
        if name not in fields:
            raise AttributeError(f"no option {name!r}; the options are {', '.join(fields)}")
        default = fields[name].default
        if type(value) is not type(default):
            raise TypeError(f"option {name!r} takes {type(default).__name__}, not {value!r}")
        if name == "device" and value not in ("", "cpu", "cuda"):
            raise ValueError(f"option 'device' is one of '', 'cpu', 'cuda', not {value!r}")
        options = {**dataclasses.asdict(self._settings), name: value}
        self._replace(Settings(**options))

    @contextmanager
    def override(self, **options: object) -> Iterator[None]:
        """Set options for the length of a ``with`` block."""
        before = self._settings
        try:
            for name, value in options.items():
                self.update(name, value)
            yield
        finally:
            self._replace(before)

    def _replace(self, settings: Settings) -> None:
        # Equal settings share a version, so that going back finds what was compiled before.
        key = (settings.device, settings.fingerprint)
        object.__setattr__(self, "_settings", settings)
        object.__setattr__(self, "version", _versions.setdefault(key, len(_versions)))


def _parse(text: str, default: object) -> object:
    if isinstance(default, bool):
        if text.lower() not in ("0", "1", "true", "false"):
            raise ValueError(f"{text!r} is not a truth value: use 0, 1, true or false")
        return text.lower() in ("1", "true")
    return int(text) if isinstance(default, int) else text


config = Config()
