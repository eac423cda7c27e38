"""Packages that declare primitives: found by their entry points, imported when one is asked for."""

from __future__ import annotations

from typing import Any

from minijit.graph.errors import DeclarationError
from minijit.graph.registry import outside

__all__ = ["load_plugin", "plugins"]

_GROUP = "minijit.primitives"


def plugins() -> tuple[str, ...]:
    """Return the names under which installed packages offer primitives; nothing is imported."""
    return tuple(sorted({point.name for point in _entry_points()}))


def load_plugin(name: str) -> Any:
    """Import what an installed package offers under ``name`` in the group ``minijit.primitives``.

    What it declares stays for good, also where a scope is open.

    Raises:
        KeyError: no package offers it.
        DeclarationError: its import fails; the message names the package.
    """
    found = [point for point in _entry_points() if point.name == name]
    if not found:
        raise KeyError(name)
    point = found[0]
    try:
        with outside():
            return point.load()
    except Exception as error:
        package = getattr(point.dist, "name", "a package")
        raise DeclarationError(
            f"the plug-in {name!r} of {package} ({point.value}) cannot be loaded: {error!r}"
        ) from error


def _entry_points() -> Any:
    # Not imported before: it takes 25 ms.
    from importlib.metadata import entry_points

    return entry_points(group=_GROUP)
