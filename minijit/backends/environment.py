"""What a binary depends on beside its source: who compiled it."""

from __future__ import annotations

import functools
import hashlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

__all__ = ["compilers", "lowering_digest"]

_PACKAGE = Path(__file__).parent.parent
# In a source tree the device functions lie beside the package.
_KERNELS = next(p for p in (_PACKAGE / "kernels", _PACKAGE.parent / "kernels") if p.is_dir())
# What makes device functions of users' functions.
_OUTSIDE = (
    _PACKAGE / "ops" / "literals.py",
    _PACKAGE / "ops" / "names.py",
)


def compilers(target: str, *packages: str) -> dict[str, str]:
    """Return versions of Python and of ``packages``, and a digest of minijit's own compiler code.

    Args:
        target: Folder of the backend: its code, the front end's and that of the device functions
            are digested, so that no version number has to be changed for a change to count.
        *packages: Distributions; ``"none"`` stands for the version of one that is not installed.
    """
    found = {name: _version(name) for name in packages}
    python = f"{sys.implementation.name} {sys.version_info.major}.{sys.version_info.minor}"
    backends = _PACKAGE / "backends"
    digest = _digest(_KERNELS, backends / "frontend", backends / target, *_OUTSIDE)
    return {"python": python, **found, "minijit": digest}


def lowering_digest() -> str:
    """Return a digest of minijit's code that makes kernels and plans of a traced program."""
    folders = ("graph", "ops", "transforms", "lowering", "runtime")
    return _digest(*(_PACKAGE / name for name in folders))


@functools.cache
def _version(name: str) -> str:
    """Return the installed version of a distribution, or ``"none"``.

    Installers name the folder of a distribution's metadata by its version. Where an upgrade has
    left that of the old version behind, both are named, for the two together are something new.
    """
    prefix = name.replace("-", "_") + "-"
    for folder in map(_metadata_folders, sys.path):
        found = [each.removeprefix(prefix) for each in folder if each.startswith(prefix)]
        if found:
            return " and ".join(found)
    # Eggs, archives and finders of one's own. Not imported before: it takes 25 ms.
    import importlib.metadata

    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "none"


@functools.cache
def _metadata_folders(path: str) -> tuple[str, ...]:
    """Return ``name-version`` for each distribution in a folder of ``sys.path``, sorted."""
    try:
        names = os.listdir(path or ".")
    except OSError:
        return ()
    folders = (name for name in names if name.endswith(".dist-info"))
    return tuple(sorted(name.removesuffix(".dist-info").lower() for name in folders))


@functools.cache
def _digest(*roots: Path) -> str:
    """Return a digest of some modules and the code in some folders, equal wherever they lie."""
    digest = hashlib.sha256()
    for root in roots:
        for name, path in _modules(str(root), "") if root.is_dir() else [(root.name, str(root))]:
            with open(path, "rb") as file:
                code = file.read()
            digest.update(f"{name} {len(code)}\n".encode())
            digest.update(code)
    return digest.hexdigest()[:32]


def _modules(folder: str, prefix: str) -> Iterator[tuple[str, str]]:
    """Yield the modules below a folder by name, sorted, and where they are.

    Pathlib would take three times as long.
    """
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        name = prefix + entry.name
        if entry.is_dir():
            yield from _modules(entry.path, name + "/")
        elif name.endswith(".py"):
            yield name, entry.path
