"""Where in the user's code an operation was written."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

from minijit.graph.mode import mode

__all__ = ["SourceLine", "here", "user_line"]

_PACKAGE = str(Path(__file__).resolve().parent.parent) + "/"
_TOOLS = _PACKAGE + "tools/"  # users of minijit like any other
# Frames of these libraries stand between the user's call and ours when plain NumPy/CuPy code is
# traced.
_LIBRARIES = ("numpy", "cupy", "optree", "contextlib", "functools", "operator")


@dataclasses.dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of the user's code: ``file``, ``line`` (from 1) and the function around it."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        """Return ``file:line (function)`` with the file's base name."""
        return f"{Path(self.file).name}:{self.line} ({self.function})"


_UNKNOWN = SourceLine("<unknown>", 0, "<unknown>")


def user_line() -> SourceLine:
    """Return the innermost frame of the stack that is neither minijit's nor a library's."""
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith(_PACKAGE) or code.co_filename.startswith(_TOOLS):
            module = frame.f_globals.get("__name__") or ""
            if module.partition(".")[0] not in _LIBRARIES:
                return SourceLine(code.co_filename, frame.f_lineno, code.co_name)
        frame = frame.f_back  # type: ignore[assignment]  # the outermost frame's is None
    return _UNKNOWN


def here() -> str:
    """Return where a message is about, ``" (at file:line)"``, or nothing outside of tracing."""
    return f" (at {user_line()})" if mode.trace is not None else ""
