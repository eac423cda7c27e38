"""What a binary depends on beside its source: who compiled it."""

from __future__ import annotations

import functools
import hashlib
import os
import sys
from pathlib import Path

__all__ = ["compilers"]

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
    return {"python": python, **found, "minijit": _digest(target)}


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
def _digest(target: str) -> str:
    digest = hashlib.sha256()
    backends = _PACKAGE / "backends"
    for root in (_KERNELS, backends / "frontend", backends / target, *_OUTSIDE):
        files = [root] if root.is_file() else root.rglob("*.py")
        for path in sorted(files, key=lambda path: path.relative_to(root).as_posix()):
            code = path.read_bytes()
            digest.update(f"{path.relative_to(root).as_posix()} {len(code)}\n".encode())
            digest.update(code)
    return digest.hexdigest()[:32]
