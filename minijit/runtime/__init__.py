"""From signatures to plans: the pipeline, what it makes, and the caches that keep it.

The pipeline (and with it everything that lowers) is imported when the first program is compiled:
importing minijit must be quick. See SPEC 1 of the Scientific Python project.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minijit.runtime import artifact as artifact
    from minijit.runtime import emulation as emulation
    from minijit.runtime import pipeline as pipeline
    from minijit.runtime import placement as placement

__all__ = ["artifact", "emulation", "pipeline", "placement"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"minijit.runtime.{name}")
