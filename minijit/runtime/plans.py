"""Where the plan of a program comes from: the disk, or the pipeline.

On the disk a plan stands under the program as it was traced; what it launches stands there under
keys of its own, so that equal kernels of two programs are kept once, and each is healed by itself.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from minijit import runtime
from minijit.backends.base import Backend, Binary, Build
from minijit.backends.environment import lowering_digest
from minijit.graph.config import config
from minijit.graph.events import emit
from minijit.graph.jaxpr import Jaxpr, equations
from minijit.graph.layout import Layout
from minijit.graph.portable import NotPortable, checked, write_jaxpr, write_layout
from minijit.graph.primitive import Primitive, find_primitive
from minijit.graph.registry import declared
from minijit.runtime.binaries import binary_of, stored_binary
from minijit.runtime.captured import Captured
from minijit.runtime.declared import primitives_of, users_primitives
from minijit.runtime.disk import Entry, Key, Store, default_store
from minijit.runtime.disk.key import canonical
from minijit.runtime.placement import Placed
from minijit.runtime.plan import Plan
from minijit.runtime.portable import Origin, read_plan, write_plan

__all__ = ["Wanted", "link_plan", "plan_environment", "plan_of", "settled"]


class Wanted(NamedTuple):
    """A program that is to run.

    Attributes:
        jaxpr: As traced.
        layouts: How each input lies in memory; see :func:`minijit.runtime.placement.layout_of`.
        backend: Where it is to run.
        captured: Its constants, as they were when it was traced.
        consts: The same on the target.
    """

    jaxpr: Jaxpr
    layouts: Sequence[Layout]
    backend: Backend
    captured: Captured
    consts: Placed

    @classmethod
    def of(
        cls,
        jaxpr: Jaxpr,
        layouts: Sequence[Layout],
        backend: Backend,
        captured: Captured | None = None,
    ) -> Wanted:
        """Bring the constants to the target."""
        captured = Captured.of(jaxpr) if captured is None else captured
        captured.check()
        return cls(jaxpr, layouts, backend, captured, Placed.on(backend, jaxpr.consts))

    def compiled(self) -> Plan:
        """Send it through the pipeline."""
        return runtime.pipeline.compile_plan(*self)

    def without_values(self) -> Wanted:
        """Return what is lowered in the same way and keeps no array alive."""
        types = tuple(var.aval for var in self.jaxpr.constvars)
        jaxpr = dataclasses.replace(self.jaxpr, consts=types)
        consts = dataclasses.replace(self.consts, values=types)
        return self._replace(jaxpr=jaxpr, captured=Captured((), ()), consts=consts)


def plan_of(jaxpr: Jaxpr, layouts: Sequence[Layout], backend: Backend, captured: Captured) -> Plan:
    """Return the plan of a program: from the disk if it is there, else compiled and kept.

    The arguments are those of :class:`Wanted`.

    Raises:
        CapturedArrayChanged: the constants are not as they were.
    """
    started = time.perf_counter()
    wanted = Wanted.of(jaxpr, layouts, backend, captured)
    store = default_store()
    key = None if store is None else _key_of(wanted)
    if store is None or key is None:
        return wanted.compiled()
    entry = store.get(key)
    plan = None if entry is None else _stored(entry, wanted, store)
    if plan is None:
        plan = wanted.compiled()
        _keep(plan, store, key)
    plan.compile_seconds = time.perf_counter() - started
    return plan


def settled(jaxpr: Jaxpr) -> Jaxpr:
    """Return what says all of a program: the program itself, or what users' rewrites make of it.

    Derivative rules of users say nothing any more: calls that have some are what they hold.
    """
    if declared("rewrite"):
        return runtime.pipeline.optimize(jaxpr)
    has_rules = any("captured" in eqn.params for eqn in equations(jaxpr.eqns))
    return runtime.pipeline.inlined(jaxpr) if has_rules else jaxpr


def plan_environment(backend: Backend) -> dict[str, Any]:
    """Return what a plan depends on beside its program: who compiles, and who lowers."""
    # NumPy computes operations of literals.
    lowering = {"lowering": lowering_digest(), "numpy": np.__version__}
    return {**backend.environment(), **lowering}


def _key_of(wanted: Wanted) -> Key | None:
    """Return the key under which a plan is kept, in any process.

    None when something in the program could not be told from something else in another process.
    """
    jaxpr = settled(wanted.jaxpr)
    primitives = primitives_of(jaxpr)
    if primitives is None:
        _not_kept(jaxpr.name, "two of its operations have one name")
        return None
    try:
        graph = write_jaxpr(jaxpr, places=False)
        users = users_primitives(primitives)
        described = [runtime.describe.describe_primitive(each) for each in users]
    except (NotPortable, TypeError) as error:  # the latter where there is no description
        _not_kept(jaxpr.name, str(error))
        return None
    program = {
        "graph": graph,
        "rewritten": bool(declared("rewrite")),
        "autotune": config.autotune,
        "primitives": described,
        "inputs": list(map(write_layout, wanted.layouts)),
        "constants": list(map(write_layout, wanted.consts.layouts)),
    }
    return Key(program, plan_environment(wanted.backend))


def _not_kept(name: str, why: str) -> None:
    emit("plan_not_kept", program=name, why=why)


def _keep(plan: Plan, store: Store, key: Key) -> None:
    try:
        written = canonical(write_plan(plan))
    except NotPortable as error:
        _not_kept(plan.name, str(error))
    else:
        facts = {"name": plan.name, "compile_seconds": plan.compile_seconds}
        store.put(key, Entry(facts, {"plan": written}))


class _KernelMissing(Exception):
    """A plan is on the disk, and one of its kernels is not."""


def _stored(entry: Entry, wanted: Wanted, store: Store) -> Plan | None:
    """Return the plan in an entry; None where it is none, or one of its kernels is missing."""

    def find(key: Key, kernel: str) -> Binary:
        binary = stored_binary(store, key, kernel)
        if binary is None:
            raise _KernelMissing(f"kernel {kernel} is not on the disk")
        return binary

    name = wanted.jaxpr.name
    try:
        data = checked(lambda: json.loads(entry.sections["plan"]), "plan")
        plan = link_plan(data, wanted, find, partial(binary_of, wanted.backend))
    except (NotPortable, _KernelMissing) as error:
        emit("plan_not_used", program=name, why=str(error))
        return None
    emit("plan_hit", program=name)
    return plan


def link_plan(data: Any, wanted: Wanted, find: Callable[[Key, str], Binary], build: Build) -> Plan:
    """Return the plan that ``write_plan`` wrote, ready to run.

    Args:
        data: What it wrote.
        wanted: The program that it is the plan of.
        find: Returns the machine code of a kernel by its key; the name is for messages.
        build: Returns that of a further source, should one be needed.

    Raises:
        NotPortable: the data are no plan.
        Whatever ``find`` raises.
    """
    known = primitives_of(wanted.jaxpr) or {}

    def primitive(name: str) -> Primitive:
        return known.get(name) or find_primitive(name)

    again = wanted.without_values()
    then = {"extensions": config.extensions, "autotune": config.autotune}

    def lower(build: Build) -> Plan:
        with config.override(**then):  # whatever holds by then
            return runtime.pipeline.compile_plan(*again, check_nans=False, build=build)

    origin = Origin(find, build, lower, primitive)
    consts, captured, checks = wanted.consts.values, wanted.captured, config.debug_nans
    return read_plan(data, wanted.backend, consts, captured, checks, origin)
