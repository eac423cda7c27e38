"""The command line: `python -m minijit COMMAND`, one module of `minijit.tools` a command."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

COMMANDS = {
    "doctor": "report what is installed and working, and the pip line for what is not",
    "demo": "trace, fuse, compile, check and time three functions, in ten seconds",
    "cache": "show, check, prune or clear the compiled kernels that are kept on disk",
    "bench": "compare with eager NumPy or CuPy (and JAX, where it is installed) in one run",
    "counts": "count bytes, instructions and registers of every workload on an emulated GPU",
}


def usage() -> str:
    """Return the list of commands, a line each."""
    lines = [f"  {name:8s}{summary}" for name, summary in COMMANDS.items()]
    return "\n".join(("usage: python -m minijit COMMAND [options]", "", *lines))


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status; 2 for a command that does not exist."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    name, *rest = arguments or ["--help"]
    if name in ("-h", "--help"):
        print(usage())
        return 0
    if name not in COMMANDS:
        print(f"minijit has no command {name!r}\n{usage()}", file=sys.stderr)
        return 2
    # Only the command asked for is loaded: the doctor must answer when another cannot be imported.
    command = importlib.import_module(f"minijit.tools.{name}")
    status: int = command.main(rest)
    return status


if __name__ == "__main__":
    sys.exit(main())
