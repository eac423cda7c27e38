"""A user's whole kernel: its machine code, and the step that launches it between fused kernels."""

from __future__ import annotations

import dataclasses
from typing import Any

from minijit import runtime
from minijit.backends.base import Backend, Binary, Custom, Support
from minijit.graph.device_kernel import DeviceKernel
from minijit.graph.events import emit
from minijit.graph.primitive import Primitive
from minijit.runtime.binaries import binary_of
from minijit.runtime.disk.key import canonical
from minijit.runtime.steps import EagerStep, Slot, contiguous

__all__ = ["custom_step", "kernel_binary"]


def kernel_binary(backend: Backend, kernel: DeviceKernel, source: Support) -> Binary:
    """Return the machine code of a kernel in Python: from the disk, or compiled and kept there.

    It is compiled in every process where it reads what has no text form, such as device functions.
    """
    code: Any = kernel.code
    try:
        described = runtime.describe.describe_function(getattr(code, "py_func", code))
    except runtime.describe.Indescribable as error:
        emit("not_kept", kernel=source.name, why=str(error))
        return source.compile()
    text = canonical([source.text, described]).decode()
    return binary_of(backend, source._replace(text=text))


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
