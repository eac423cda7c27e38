"""A compiled program as one file: its graph, its machine code, and what it was compiled for.

The file has the format of an entry of the disk store, and is checked as one. It holds the plan as
the store does, and beside that what stands there elsewhere: the machine code by its keys, so a
program never runs with kernels that are not its own, and the graph, which is lowered again where a
further kernel is needed.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from minijit import runtime
from minijit.backends.base import Backend, Binary, Support
from minijit.graph.aval import ShapedArray
from minijit.graph.jaxpr import Jaxpr
from minijit.graph.layout import Layout
from minijit.graph.portable import (
    NotPortable,
    read_jaxpr,
    read_layout,
    read_tree,
    write_jaxpr,
    write_layout,
    write_tree,
)
from minijit.graph.registry import without
from minijit.graph.tree import TreeDef
from minijit.runtime.binaries import binary_of, differing, key_of
from minijit.runtime.disk import Entry, Key
from minijit.runtime.disk.container import CorruptEntry, decode_any, encode
from minijit.runtime.disk.files import publish, read
from minijit.runtime.disk.key import canonical
from minijit.runtime.launchers import loaded_binary
from minijit.runtime.plan import Plan
from minijit.runtime.plans import Wanted, link_plan, plan_environment, settled
from minijit.runtime.portable import write_plan

if TYPE_CHECKING:
    from minijit.lowering.source import KernelSource

__all__ = ["Artifact", "read_artifact", "write_artifact"]

_KIND = {"minijit": "program"}


@dataclasses.dataclass(frozen=True, slots=True)
class Artifact:
    """A program that was compiled in another process.

    Attributes:
        jaxpr: The program.
        names: Its dynamic parameters.
        treedef: Structure of their values: a tuple with an entry for each name.
        out_tree: Structure of its result.
        layouts: How each leaf has to lie in memory.
        device: Name of the backend.
        environment: What it was compiled by and for.
        written: The plan; see :func:`minijit.runtime.portable.write_plan`.
        binaries: Machine code by name of the kernel's key.
    """

    jaxpr: Jaxpr
    names: tuple[str, ...]
    treedef: TreeDef
    out_tree: TreeDef
    layouts: tuple[Layout, ...]
    device: str
    environment: Mapping[str, Any]
    written: Any
    binaries: Mapping[str, Binary]

    @property
    def avals(self) -> tuple[ShapedArray, ...]:
        """Type of each leaf."""
        return self.jaxpr.in_avals

    def plan(self, backend: Backend) -> Plan:
        """Return the program, ready to run on ``backend``; nothing is compiled.

        Raises:
            RuntimeError: it was compiled by or for something else than what is here.
        """
        changes = [
            f"{name}: {before} -> {now}"
            for name, (before, now) in differing(
                self.environment, plan_environment(backend)
            ).items()
        ]
        if changes:
            raise RuntimeError(
                f"the program was compiled by or for something else than what is here: export it "
                f"again here ({'; '.join(changes)})"
            )
        wanted = Wanted.of(self.jaxpr, self.layouts, backend)
        with without("rewrite"):  # it was rewritten before it was exported
            return link_plan(self.written, wanted, self._binary, partial(self._build, backend))

    def _build(self, backend: Backend, source: KernelSource | Support) -> Binary:
        if isinstance(source, Support):
            return binary_of(backend, source)
        return self._binary(key_of(backend, source), source.kernel.name)

    def _binary(self, key: Key | None, kernel: str) -> Binary:
        found = self.binaries.get(key.name) if key is not None else None
        if found is None:
            raise RuntimeError(
                f"the file has no kernel {kernel}: it was written by another version of minijit, "
                "or for other primitives of the same names; export it again"
            )
        return found


def write_artifact(
    path: str,
    jaxpr: Jaxpr,
    names: Sequence[str],
    treedef: TreeDef,
    out_tree: TreeDef,
    plan: Plan,
) -> None:
    """Write a compiled program to a file.

    Raises:
        NotPortable: part of it has no form as data, or it is too large.
        OSError: the file cannot be written.
    """
    key, entry = _pack(jaxpr, names, treedef, out_tree, plan.layouts, plan.backend)
    try:
        data = encode(key, entry)
    except ValueError as error:
        raise NotPortable(f"the program does not fit into a file: {error}") from None
    publish(path, data)


def read_artifact(path: str, *, trust: bool) -> Artifact:
    """Return the compiled program in a file; with ``trust`` whoever can have written it.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no exported program, it is damaged, or others can write it.
    """
    try:
        data = Path(path).read_bytes() if trust else read(path)[0]
        return _unpack(*decode_any(data))
    except CorruptEntry as error:
        hint = "; load it with trust=True if you know who wrote it" * (error.fault == "owner")
        raise ValueError(f"{path} was not loaded: {error}{hint}") from None
    except NotPortable as error:
        raise ValueError(f"{path} was not loaded: {error}") from error


def _pack(
    jaxpr: Jaxpr,
    names: Sequence[str],
    treedef: TreeDef,
    out_tree: TreeDef,
    layouts: Sequence[Layout],
    backend: Backend,
) -> tuple[Key, Entry]:
    """Return a compiled program as an entry."""
    constants = [np.ascontiguousarray(_on_host(value)) for value in jaxpr.consts]
    jaxpr = dataclasses.replace(jaxpr, consts=tuple(constants))
    # For constants that lie as the file has them.
    plan = runtime.pipeline.compile_plan(jaxpr, layouts, backend)
    kernels: list[list[Any]] = []
    codes: list[bytes] = []
    for step in plan.kernels:
        source = step.source()
        for variant in backend.variants(source):
            key = key_of(backend, variant)
            if key is None:
                raise NotPortable(
                    f"kernel {variant.kernel.name} calls a scalar function that reads an object "
                    "without a text form: let it close over numbers and functions only"
                )
            is_loaded = variant is source
            binary = loaded_binary(step.launcher) if is_loaded else binary_of(backend, variant)
            kernels.append([key.name, binary.entry, dict(binary.resources), len(binary.code)])
            codes.append(binary.code)
    graph = {
        "jaxpr": write_jaxpr(settled(jaxpr)),
        "names": list(names),
        "inputs": write_tree(treedef),
        "outputs": write_tree(out_tree),
        "layouts": list(map(write_layout, layouts)),
        "device": backend.name,
        "kernels": kernels,
        "constants": [[array.dtype.str, list(array.shape)] for array in constants],
    }
    sections = {
        "graph": canonical(graph),
        "plan": canonical(write_plan(plan)),
        "code": b"".join(codes),
        "constants": b"".join(array.tobytes() for array in constants),
    }
    return Key(_KIND, plan_environment(backend)), Entry({"name": jaxpr.name}, sections)


def _unpack(key: Key, entry: Entry) -> Artifact:
    """Return the program in an entry; ``NotPortable`` when it is something else."""
    try:
        return _unpacked(key, entry)
    except NotPortable:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise NotPortable(f"it is no exported program: {error!r}") from error


def _unpacked(key: Key, entry: Entry) -> Artifact:
    if key.program != _KIND:
        raise NotPortable("it is a cached kernel, not an exported program")
    graph = json.loads(entry.sections["graph"])
    binaries: dict[str, Binary] = {}
    place = 0
    for name, symbol, resources, length in graph["kernels"]:
        code = entry.sections["code"][place : place + length]
        binaries[name] = Binary(bytes(code), symbol, resources)
        place += length
    jaxpr = read_jaxpr(graph["jaxpr"], _constants(graph["constants"], entry.sections["constants"]))
    layouts = list(map(read_layout, graph["layouts"]))
    inputs = read_tree(graph["inputs"])
    if not len(layouts) == inputs.num_leaves == len(jaxpr.invars):
        raise NotPortable("its inputs, their structure and their layouts do not agree")
    return Artifact(
        jaxpr,
        tuple(map(str, graph["names"])),
        inputs,
        read_tree(graph["outputs"]),
        tuple(layouts),
        str(graph["device"]),
        key.environment,
        json.loads(entry.sections["plan"]),
        binaries,
    )


def _constants(types: Sequence[Any], data: bytes) -> list[np.ndarray[Any, Any]]:
    arrays = []
    place = 0
    for name, shape in types:
        dtype = np.dtype(name)
        count = int(np.prod(shape, dtype=np.int64))
        array = np.frombuffer(data, dtype, count, place).reshape(shape).copy()
        place += array.nbytes
        arrays.append(array)
    return arrays


def _on_host(value: Any) -> Any:
    return value.get() if hasattr(value, "get") else np.asarray(value)
