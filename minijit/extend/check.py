"""``check_primitive``: the tests that minijit's own operations pass, for an author's."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from minijit.backends.registry import default_device
from minijit.extend import checks, checks_of_reductions
from minijit.extend.checks_of_batches import check_batches
from minijit.extend.checks_of_derivatives import check_derivatives
from minijit.extend.reduction import Reduction
from minijit.extend.reference import Reference, reference_for
from minijit.extend.samples import DTYPES
from minijit.graph.config import config
from minijit.graph.primitive import Kind, Primitive
from minijit.ops.define import Elementwise

__all__ = ["CheckResult", "PrimitiveReport", "check_primitive"]

_DEVICES = ("cpu", "cuda-emulated")


@dataclasses.dataclass(frozen=True, slots=True)
class CheckResult:
    """One check.

    Attributes:
        name: What was checked, and where.
        failure: What is wrong; empty where nothing is.
        detail: What was tried.
    """

    name: str
    failure: str
    detail: str


@dataclasses.dataclass(frozen=True, slots=True)
class PrimitiveReport:
    """What was checked of a primitive; ``str()`` is a table.

    Attributes:
        name: The primitive's.
        kind: How it takes part in kernels.
        results: The checks, in order.
    """

    name: str
    kind: str
    results: tuple[CheckResult, ...]

    @property
    def ok(self) -> bool:
        """Whether every check has passed."""
        return not any(result.failure for result in self.results)

    def __str__(self) -> str:
        """Return a line for each check, and what is wrong below it."""
        lines = [f"{self.name} ({self.kind})"]
        width = max(len(result.name) for result in self.results)
        for result in self.results:
            state = "FAILED" if result.failure else "ok"
            lines.append(f"  {result.name:{width}}  {state:6}  {result.detail}".rstrip())
            lines += [f"      {line}" for line in result.failure.splitlines()]
        return "\n".join(lines)


def check_primitive(
    operation: Elementwise | Reduction | Primitive,
    *operands: Any,
    devices: Sequence[str] = _DEVICES,
    dtypes: Sequence[Any] = DTYPES,
    ulp: int | None = None,
    like: Callable[..., Any] | None = None,
    params: Mapping[str, Any] | None = None,
) -> PrimitiveReport:
    """Check an operation as minijit checks its own; return the report.

    Types against values, values on each device for special values and random ones, broadcasting,
    strided and empty arrays, fusion with neighbours, machine code that is found on the disk again,
    ``vmap`` against a loop, and derivatives against differences.

    Values are compared with eager code where the declaration has some of its own, else with the
    declared function run as Python, element by element. What was compiled before is forgotten, as
    by ``clear_caches``.

    Args:
        operation: What ``@elementwise``, ``@reduction`` or ``custom_call`` returned.
        *operands: Arrays to try it on, for an operation on whole arrays; a batch of them is made of
            them, rolled and reversed.
        devices: Where.
        dtypes: Of the operands.
        ulp: How many representable numbers a result may be off; default: a tolerance that allows
            for other roundings in between.
        like: ``(*arrays, **params)``: what it is compared with, for example a function of SciPy's.
        params: Static parameters, for an operation on whole arrays.

    Raises:
        AssertionError: a check has failed; the message is the report.
        TypeError: what is given is no operation that was declared.
    """
    primitives = _primitives(operation)
    results: list[CheckResult] = []
    for primitive in primitives:
        compared = Reference(like, "like=") if like else reference_for(primitive)
        subject = checks.Subject(
            operation,
            primitive,
            tuple(map(np.dtype, dtypes)),
            ulp,
            compared,
            tuple(operands),
            dict(params or {}),
        )
        prefix = f"{primitive.name}: " if len(primitives) > 1 else ""
        for name, check, device in _checks(primitive, devices):
            where = f", {device}" if device else ""
            results.append(_run(f"{prefix}{name}{where}", check, subject, device))
    report = PrimitiveReport(
        getattr(operation, "__name__", primitives[0].name), primitives[0].kind.value, tuple(results)
    )
    if not report.ok:
        raise AssertionError(str(report))
    return report


def _primitives(operation: Any) -> tuple[Primitive, ...]:
    """Return the primitives behind what users call."""
    several: tuple[Primitive, ...] | None = getattr(operation, "primitives", None)
    found = several or (getattr(operation, "primitive", operation),)
    if not isinstance(found[0], Primitive):
        raise TypeError(
            f"{operation!r} is not declared: give what @elementwise, @reduction or custom_call "
            "returned"
        )
    return found


Check = Callable[["checks.Subject"], str]
_TRANSFORMED: dict[str, Check] = {"vmap": check_batches, "derivatives": check_derivatives}


def _checks(primitive: Primitive, devices: Sequence[str]) -> Iterator[tuple[str, Check, str]]:
    """Yield the checks of a kind of primitive: their names, and the device, where it matters."""
    alone: Mapping[str, Check]
    everywhere: Mapping[str, Check]
    alone, everywhere = {
        Kind.ELEMENTWISE: (checks.ELEMENTWISE, checks.ELEMENTWISE_ON),
        Kind.REDUCTION: (checks_of_reductions.REDUCTION, checks_of_reductions.REDUCTION_ON),
        Kind.LIBRARY: (checks.LIBRARY, checks.LIBRARY_ON),
    }[primitive.kind]
    for name, single in alone.items():
        yield name, single, ""
    for device in devices:
        for name, check in {**everywhere, **_TRANSFORMED}.items():
            yield name, check, device


def _run(name: str, check: Check, subject: checks.Subject, device: str) -> CheckResult:
    try:
        # The functions that checks compile are of their own making, not the author's.
        quiet = config.override(recompile_warning=0)
        with default_device(device or "cpu"), quiet, np.errstate(all="ignore"):
            return CheckResult(name, "", check(subject))
    except Exception as error:
        kind = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
        return CheckResult(name, f"{kind}{error}", "")
