"""The whole way from a traced program to a plan, a named step a line."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from minijit.backends.base import Backend, Build, Launcher, load_source
from minijit.graph.check import check_jaxpr
from minijit.graph.config import config
from minijit.graph.events import emit
from minijit.graph.jaxpr import Jaxpr, Var
from minijit.graph.layout import Layout
from minijit.graph.registry import declared
from minijit.lowering.check import check_kernel
from minijit.lowering.demand import Program
from minijit.lowering.lower import Lowered, lower_group
from minijit.lowering.partition import Group, Partition, partition
from minijit.lowering.source import KernelSource
from minijit.lowering.split import is_tall, split_columns, split_reduction
from minijit.runtime.assemble import Assembler
from minijit.runtime.autotune import fastest
from minijit.runtime.binaries import binary_of
from minijit.runtime.captured import Captured
from minijit.runtime.launchers import launcher_of
from minijit.runtime.placement import Placed
from minijit.runtime.plan import Plan
from minijit.transforms.exponentials_in_blocks import exponentials_in_blocks
from minijit.transforms.inline import inline_calls
from minijit.transforms.own_outputs import own_outputs
from minijit.transforms.patterns import apply_rewrites
from minijit.transforms.simplify import simplify, simplify_loops
from minijit.transforms.sums_in_blocks import sums_in_blocks
from minijit.transforms.sums_of_products import sums_of_products

__all__ = ["compile_plan", "inlined", "lower", "optimize", "plan_partition"]

_T = TypeVar("_T")


def optimize(jaxpr: Jaxpr, backend: Backend | None = None) -> Jaxpr:
    """Return the program that is compiled: calls inlined, simplified, every result defined.

    Args:
        jaxpr: The program as traced.
        backend: The target; None for what is the same on all of them.
    """
    jaxpr = _step("inline", lambda: inlined(jaxpr))
    jaxpr = _rewritten(jaxpr, after="inline")
    jaxpr = _step("simplify", lambda: simplify(jaxpr))
    jaxpr = _rewritten(jaxpr, after="simplify")
    jaxpr = _step("loops", lambda: simplify_loops(jaxpr))
    jaxpr = _rewritten(jaxpr, after="loops")
    jaxpr = _step("products", lambda: sums_of_products(jaxpr))
    jaxpr = _step("blocks", lambda: _in_blocks(jaxpr, backend))
    return _step("own_outputs", lambda: own_outputs(jaxpr))


def _in_blocks(jaxpr: Jaxpr, backend: Backend | None) -> Jaxpr:
    """Return the program with reductions in blocks where the target gains by them."""
    if backend is None or not backend.reduces_in_blocks:
        return sums_in_blocks(jaxpr)
    few = backend.few_rows
    return exponentials_in_blocks(sums_in_blocks(jaxpr, few), few)


def inlined(jaxpr: Jaxpr) -> Jaxpr:
    """Return the program with what calls hold in their place; what they say besides is dropped."""
    return inline_calls(jaxpr)


def _rewritten(jaxpr: Jaxpr, after: str) -> Jaxpr:
    """Apply what users have declared for this place."""
    if not any(rewrite.at == after for rewrite in declared("rewrite")):
        return jaxpr
    return _step("rewrites", lambda: simplify(apply_rewrites(jaxpr, after)))


def plan_partition(jaxpr: Jaxpr, backend: Backend) -> Partition:
    """Return how ``jaxpr``, already optimized, is cut into kernels."""
    return _step(
        "partition",
        lambda: partition(
            Program(jaxpr),
            backend.few_rows,
            backend.most_buffers,
            backend.most_columns,
            backend.most_matrix_bytes,
        ),
    )


def compile_plan(
    jaxpr: Jaxpr,
    layouts: Sequence[Layout],
    backend: Backend,
    captured: Captured | None = None,
    consts: Placed | None = None,
    *,
    check_nans: bool | None = None,
    build: Build | None = None,
) -> Plan:
    """Compile a traced program for inputs of given layouts.

    Args:
        jaxpr: The program as traced.
        layouts: How each input lies in memory; see :func:`minijit.runtime.placement.layout_of`.
        backend: The target.
        captured: Its constants, as they were when it was traced; default: as they are now.
        consts: Its constants on the target; default: brought there now.
        check_nans: Whether a NaN among the results is an error; default: as configured.
        build: Where machine code comes from; default: the disk, else the compiler.

    Raises:
        CapturedArrayChanged: they are not any more.
    """
    started = time.perf_counter()
    captured = Captured.of(jaxpr) if captured is None else captured
    captured.check()
    build = partial(binary_of, backend) if build is None else build
    optimized = optimize(jaxpr, backend)
    consts = Placed.on(backend, optimized.consts) if consts is None else consts
    program = Program(optimized)
    parts = plan_partition(optimized, backend)
    known = dict(zip(optimized.invars, layouts, strict=True))
    known.update(zip(optimized.constvars, consts.layouts, strict=True))
    kernels = _step("lower", lambda: lower(program, parts, known, backend))
    compiled = [[_compiled(backend, lowered, build) for lowered in step] for step in kernels]
    # What bodies give is no result yet: they are not searched for NaN.
    assembler = Assembler(
        backend, optimized, parts, known, partial(compile_plan, check_nans=False, build=build)
    )
    checks = config.debug_nans if check_nans is None else check_nans
    plan = _step("plan", lambda: assembler.plan(compiled, consts.values, captured, checks))
    plan.compile_seconds = time.perf_counter() - started
    return plan


def _step(name: str, run: Callable[[], _T]) -> _T:
    """Run one step: time it, announce it, and check what it made."""
    started = time.perf_counter()
    result = run()
    emit(name, seconds=time.perf_counter() - started)
    if config.checks:
        if isinstance(result, Jaxpr):
            check_jaxpr(result)
        elif isinstance(result, list):
            for lowered in (lowered for step in result for lowered in step):
                check_kernel(lowered.kernel)
    return result


def lower(
    program: Program, parts: Partition, layouts: Mapping[Var, Layout], backend: Backend
) -> list[list[Lowered]]:
    """Return each step's kernels: one, two for one in blocks, none for the array library."""
    stem = re.sub(r"[^0-9A-Za-z_]", "_", program.jaxpr.name).strip("_0123456789") or "function"
    count = sum(isinstance(step, Group) for step in parts.steps)
    numbers = itertools.count()
    kernels: list[list[Lowered]] = []
    for step in parts.steps:
        if not isinstance(step, Group):
            kernels.append([])
            continue
        name = f"{stem}_{next(numbers)}" if count > 1 else f"{stem}_kernel"
        lowered = lower_group(program, step, parts.stored, layouts, name)
        if step.split:
            kernels.append([*split_reduction(lowered, backend.few_rows)])
        elif backend.splits_columns and is_tall(lowered):
            kernels.append([*split_columns(lowered)])
        else:
            kernels.append([lowered])
    return kernels


def _compiled(
    backend: Backend, lowered: Lowered, build: Build
) -> tuple[Lowered, KernelSource, Launcher]:
    """Return a kernel with its source and loaded, on the schedule that is chosen or measured."""
    load = partial(_launcher, backend, build)
    source = _step("source", partial(backend.emit, lowered.kernel))
    if config.autotune:
        return lowered, *_step("autotune", partial(fastest, backend, source, load))
    return lowered, source, load(source)


def _launcher(backend: Backend, build: Build, source: KernelSource) -> Launcher:
    """Return the loaded kernel of ``source``: equal codes are compiled once a process.

    Equal codes may run on spaces of different sizes, each with a launcher of its own. Two user
    functions may have one name: sources that call different ones are not equal.
    """
    code = (
        backend,
        source.kernel.name,
        source.code,
        frozenset(source.names.items()),
        repr(backend.parameters(source)),
        tuple(buffer.dtype for buffer in source.kernel.buffers),
        tuple(argument.dtype for argument in source.kernel.arguments),
    )
    return launcher_of(
        code,
        repr(source.launch),
        lambda: build(source),
        lambda binary: load_source(backend, source, binary, build),
    )
