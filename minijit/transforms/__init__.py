"""Programs to programs: each pass takes a jaxpr and returns one.

What is listed here is imported when it is first asked for: importing minijit must be quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minijit.transforms import batch as batch

__all__ = ["batch"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"minijit.transforms.{name}")
