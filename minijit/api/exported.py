"""Compiled programs in files: written by ``Compiled.export``, read by ``load``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from minijit import runtime
from minijit.api import load_operations
from minijit.backends.registry import adopt, get_backend
from minijit.graph.aval import ShapedArray
from minijit.graph.tree import flatten, leaf_paths
from minijit.runtime.placement import Placed
from minijit.runtime.signature import abstract_leaf

if TYPE_CHECKING:
    from minijit.runtime.artifact import Artifact

__all__ = ["Loaded", "load"]


class Loaded:
    """A compiled program that was read from a file; its function need not exist here.

    Call it with the arguments that are no static ones, by position or by name. They need the types
    that it was compiled for, and to lie in memory as they did then.
    """

    def __init__(self, artifact: Artifact) -> None:
        """Prepare the program; made by :func:`load`."""
        self._artifact = artifact
        plan = artifact.plan(get_backend(artifact.device))
        self._run = plan.returning(artifact.out_tree)
        self._paths = tuple(leaf_paths(artifact.treedef, artifact.names))

    @property
    def in_avals(self) -> tuple[ShapedArray, ...]:
        """Type of each array that it takes."""
        return self._artifact.avals

    @property
    def out_avals(self) -> tuple[ShapedArray, ...]:
        """Type of each array that it returns."""
        return self._artifact.jaxpr.out_avals

    @property
    def device(self) -> str:
        """Name of the device that it runs on."""
        return self._artifact.device

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run it.

        Raises:
            TypeError: the structure, a type or a memory layout is another one.
            ForkedCUDAError: it was loaded on the GPU by the process that this one was forked from.
        """
        backend = get_backend(self.device)  # asked each time: a fork may have lost it
        leaves, treedef = flatten(self._bound(args, kwargs))
        if treedef != self._artifact.treedef:
            raise TypeError(
                f"{self} was compiled for other arguments: the structure is {treedef}, not "
                f"{self._artifact.treedef}"
            )
        leaves = list(map(adopt, leaves))
        for path, leaf, expected in zip(self._paths, leaves, self.in_avals, strict=True):
            found = abstract_leaf(leaf, path)
            if found != expected:
                raise TypeError(
                    f"{self} was compiled for other arguments: {path}: {expected} -> {found}"
                )
        placed = Placed.on(backend, leaves)
        if placed.layouts != self._artifact.layouts:
            places = zip(self._paths, placed.layouts, self._artifact.layouts, strict=True)
            path, now, then = next(p for p in places if p[1] != p[2])
            raise TypeError(
                f"{self} was compiled for arrays that lie in memory in another way: {path} has "
                f"strides {now.strides} (in elements), not {then.strides}; make a copy first: "
                "numpy.ascontiguousarray(x)"
            )
        return self._run(placed.values)

    def _bound(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        names = self._artifact.names
        if len(args) > len(names):
            raise TypeError(f"{self} takes {len(names)} arguments, not {len(args)}")
        values = dict(zip(names, args, strict=False))
        for name, value in kwargs.items():
            if name not in names or name in values:
                what = "twice" if name in values else "which it does not take"
                raise TypeError(f"{self} was given {name!r}, {what}")
            values[name] = value
        missing = [name for name in names if name not in values]
        if missing:
            raise TypeError(f"{self} lacks {', '.join(missing)}")
        return tuple(values[name] for name in names)

    def __repr__(self) -> str:
        """Return name and types."""
        types = ", ".join(map(str, self.in_avals))
        return f"{self._artifact.jaxpr.name}({types})"


def load(path: str | os.PathLike[str], *, trust: bool = False) -> Loaded:
    """Return the compiled program in a file that ``Compiled.export`` wrote.

    The file holds machine code, which runs with your rights: a damaged file is found by its
    checksum, but load only what you trust.

    Args:
        path: The file.
        trust: Load it even when other users can have written it.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no exported program, it is damaged, or others can write it.
        RuntimeError: it was compiled for another processor or GPU, or by other versions.
    """
    load_operations()
    return Loaded(runtime.artifact.read_artifact(os.fspath(path), trust=trust))
