"""From signatures to plans: the pipeline, what it makes, and the caches that keep it.

What is listed here is imported when it is first asked for: importing minijit must be quick, and a
process that finds its plans on the disk lowers nothing, so it needs no pipeline. See SPEC 1 of the
Scientific Python project.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minijit.runtime import artifact as artifact
    from minijit.runtime import describe as describe
    from minijit.runtime import emulation as emulation
    from minijit.runtime import host_loop as host_loop
    from minijit.runtime import memory as memory
    from minijit.runtime import pipeline as pipeline
    from minijit.runtime import plans as plans
    from minijit.runtime import report as report
    from minijit.runtime import tactics as tactics

__all__ = [
    "artifact",
    "describe",
    "emulation",
    "host_loop",
    "memory",
    "pipeline",
    "plans",
    "report",
    "tactics",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"minijit.runtime.{name}")
