"""Constructor of operations that the array library runs (cuBLAS, sort, FFT)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minijit.graph.device_kernel import DeviceKernel
from minijit.graph.primitive import (
    NO_BATCH,
    UNDECLARED,
    Contraction,
    JvpRule,
    Kind,
    Primitive,
    Rule,
    VjpRule,
    register,
)

__all__ = ["library"]


def library(
    name: str,
    eager: Callable[..., Any],
    abstract_eval: Callable[..., Any],
    doc: str,
    *,
    into: Callable[..., Any] | None = None,
    contraction: Contraction | None = None,
    kernel: DeviceKernel | None = None,
    flops: int = 1,
    multiple_results: bool = False,
    effect: bool = False,
    jvp: JvpRule = UNDECLARED,
    vjp: VjpRule = UNDECLARED,
    transpose: Rule = UNDECLARED,
    batch: Rule = NO_BATCH,
) -> Primitive:
    """Declare an operation that NumPy or CuPy computes on whole arrays.

    Args:
        name: Printed in jaxprs.
        eager: ``(xp, *arrays, **params)``; ``xp`` is NumPy or CuPy.
        abstract_eval: ``(*avals, **params) -> ShapedArray``, a tuple with ``multiple_results``.
        doc: One line for the reference.
        into: ``(xp, *avals, **params)`` -> ``(*arrays, out=array)``, a function of the library that
            computes the same into an array that is there, in C order.
        contraction: How it sums products; then loops in kernels may do it themselves.
        kernel: A whole kernel that CUDA devices run in the place of ``eager``.
        flops: Operations for one element of the result.
        multiple_results: Whether it returns a tuple.
        effect: Whether it does something beside computing.
        jvp: Forward derivative rule.
        vjp: Reverse derivative rule.
        transpose: Linear transpose rule.
        batch: Batching rule.

    Raises:
        ValueError: a primitive of that name exists.
    """
    return register(
        Primitive(
            name=name,
            kind=Kind.LIBRARY,
            doc=doc,
            abstract_eval=abstract_eval,
            eager=eager,
            into=into,
            contraction=contraction,
            kernel=kernel,
            flops=flops,
            multiple_results=multiple_results,
            effect=effect,
            jvp=jvp,
            vjp=vjp,
            transpose=transpose,
            batch=batch,
        )
    )
