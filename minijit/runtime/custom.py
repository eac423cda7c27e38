"""The step that launches a user's whole kernel, between those of fused kernels."""

from __future__ import annotations

import dataclasses
from typing import Any

from minijit.backends.base import Backend, Custom
from minijit.graph.primitive import Primitive
from minijit.runtime.steps import EagerStep, Slot, contiguous

__all__ = ["custom_step"]


def custom_step(
    backend: Backend,
    primitive: Primitive,
    params: dict[str, Any],
    custom: Custom,
    operands: tuple[Any, ...],
    outputs: tuple[Slot, ...],
) -> EagerStep:
    """Return the step that allocates the results of a kernel and launches it.

    Loops on the device capture it where its result needs not be zero before.
    """
    assert primitive.kernel is not None

    def placed(arrays: tuple[Any, ...]) -> list[Any]:
        return [contiguous(backend.xp, backend.asarray(array)) for array in arrays]

    def run(xp: Any, *arrays: Any, **_: Any) -> Any:
        results = [allocate() for allocate in custom.allocators]
        custom.launch([*placed(arrays), *results])
        return tuple(results) if primitive.multiple_results else results[0]

    def into(*arrays: Any, out: Any) -> None:
        custom.launch([*placed(arrays), out])

    captured = not (primitive.kernel.zeroed or primitive.multiple_results)
    launching = dataclasses.replace(primitive, eager=run)
    return EagerStep(
        launching, params, into if captured else None, operands, outputs, custom.allocators, False
    )
