"""How much memory one call of a plan needs."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from minijit.runtime.host_loop import LoopStep

if TYPE_CHECKING:
    from minijit.runtime.plan import Plan

__all__ = ["MemoryStats", "memory_of"]


@dataclasses.dataclass(frozen=True, slots=True)
class MemoryStats:
    """Bytes of one call, under the names that JAX gives them.

    Attributes:
        argument_size_in_bytes: The arguments.
        output_size_in_bytes: The results.
        constant_size_in_bytes: Arrays that the function captured.
        temp_size_in_bytes: The most that values between the steps take at one time. What the array
            library allocates for itself while it runs is not known.
        generated_code_size_in_bytes: Machine code of the kernels.
    """

    argument_size_in_bytes: int
    output_size_in_bytes: int
    constant_size_in_bytes: int
    temp_size_in_bytes: int
    generated_code_size_in_bytes: int

    @property
    def peak_memory_in_bytes(self) -> int:
        """Data of all kinds at the worst moment."""
        data = self.argument_size_in_bytes + self.output_size_in_bytes
        return data + self.constant_size_in_bytes + self.temp_size_in_bytes


def memory_of(plan: Plan) -> MemoryStats:
    """Return what one call of ``plan`` needs."""
    given = plan.arguments + len(plan.consts)
    results = {slot for slot in plan.results if slot >= given}
    return MemoryStats(
        sum(plan.sizes[: plan.arguments]),
        sum(plan.sizes[slot] for slot in results),
        sum(plan.sizes[plan.arguments : given]),
        _temporary(plan, results),
        plan.all_code_bytes,
    )


def _temporary(plan: Plan, results: set[int]) -> int:
    """Return the most that slots other than ``results`` hold at one time."""
    given = plan.arguments + len(plan.consts)
    alive = most = 0
    for step in plan.steps:
        alive += sum(plan.sizes[s] for s in step.outputs if s >= given and s not in results)
        inside = 0
        for inner in step.plans:
            own = {slot for slot in inner.results if slot >= inner.arguments + len(inner.consts)}
            # A branch computes what the step gives; a body a second set of what it carries.
            spare = sum(inner.sizes[slot] for slot in own) if isinstance(step, LoopStep) else 0
            inside = max(inside, _temporary(inner, own) + spare)
        most = max(most, alive + inside)
        alive -= sum(plan.sizes[s] for s in step.released if s >= given and s not in results)
    return most
