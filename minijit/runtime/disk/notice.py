"""Warnings about the disk: each kind once in a process, since what is wrong is wrong every time."""

from __future__ import annotations

import warnings
from typing import Literal

from minijit.graph.errors import CacheWarning

__all__ = ["warn_once"]

Kind = Literal["trust", "write", "corrupt", "home"]

_warned: set[Kind] = set()


def warn_once(kind: Kind, message: str) -> None:
    """Warn with ``CacheWarning``, unless this process has warned of ``kind``."""
    if kind not in _warned:
        _warned.add(kind)  # before: the warning may be an error by the user's filters
        warnings.warn(message, CacheWarning, stacklevel=3)
