"""``custom_call``: a whole kernel, or any function of arrays, as a step between fused kernels."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from minijit.backends.registry import backend_of
from minijit.extend.alone import Alone
from minijit.graph.aval import ShapedArray
from minijit.graph.device_kernel import DeviceKernel
from minijit.graph.dtypes import canonical_dtype
from minijit.graph.errors import DeclarationError
from minijit.graph.primitive import NO_BATCH, UNDECLARED, JvpRule, Primitive, Rule, VjpRule
from minijit.graph.source_info import user_line
from minijit.graph.trace import bind
from minijit.graph.tracer import Tracer
from minijit.ops.library import library
from minijit.ops.promote import as_operand, is_traced

__all__ = ["CustomCall", "custom_call"]

Code = Callable[..., Any]


class CustomCall:
    """An operation on whole arrays; arrays are positional, static parameters are keywords."""

    def __init__(self, primitive: Primitive) -> None:
        """Wrap ``primitive``."""
        self.primitive = primitive
        self.__name__, self.__doc__ = primitive.name, primitive.doc
        self._alone = Alone(
            lambda *arrays, **params: bind(primitive, *arrays, **params), primitive.name
        )

    def __call__(self, *arrays: Any, **params: Any) -> Any:
        """Apply it: record it while tracing, run it otherwise.

        Raises:
            TypeError: a parameter is traced.
        """
        traced = next((key for key, value in params.items() if isinstance(value, Tracer)), None)
        if traced is not None:
            raise TypeError(
                f"{traced}= of {self.__name__!r} is traced, and parameters are static: pass it as "
                f"an array, or make it a static argument of the jitted function (at {user_line()})"
            )
        if is_traced(*arrays):
            return bind(self.primitive, *map(as_operand, arrays), **params)
        return self._alone(None, *arrays, **params)

    def __repr__(self) -> str:
        """Return the name."""
        return f"<custom call {self.__name__}>"


def custom_call(
    name: str,
    *,
    abstract_eval: Code,
    cuda: Any = None,
    entry: str | None = None,
    launch: Code | None = None,
    arguments: Code | None = None,
    zeroed: bool = False,
    options: tuple[str, ...] = (),
    cpu: Code | None = None,
    multiple_results: bool = False,
    doc: str = "",
    flops: int = 1,
    jvp: JvpRule = UNDECLARED,
    vjp: VjpRule = UNDECLARED,
    transpose: Rule = UNDECLARED,
    batch: Rule = NO_BATCH,
) -> CustomCall:
    """Declare an operation that a kernel of your own computes, and return what applies it.

    Args:
        name: Printed in jaxprs.
        abstract_eval: ``(*avals, **params)`` -> the result's type: whatever has ``shape`` and
            ``dtype``, a tuple of such with ``multiple_results``.
        cuda: The kernel: CUDA C (text), a ``cupy.RawKernel`` or ``RawModule``, or a Python function
            as ``numba.cuda.jit`` takes it. It gets the operands, contiguous, then the results, then
            ``arguments``: pointers in C, arrays in Python.
        entry: Name of the kernel in CUDA C; default: ``name``, or the RawKernel's.
        launch: ``(*avals, **params)`` -> ``(grid, block)`` or ``(grid, block, shared bytes)``.
        arguments: ``(*avals, **params)`` -> further arguments, a tuple of NumPy scalars.
        zeroed: Whether results are zero before the launch (for atomics).
        options: Of NVRTC, for CUDA C.
        cpu: ``(*arrays, **params)`` -> the result, on NumPy arrays.
        multiple_results: Whether it returns a tuple.
        doc: One line for the reference.
        flops: Operations for one element of the result.
        jvp: Forward derivative rule.
        vjp: Reverse derivative rule.
        transpose: Linear transpose rule.
        batch: Batching rule.

    Raises:
        DeclarationError: the name is taken, or the parts do not fit together; later, the kernel
            does not compile, or a result is not what ``abstract_eval`` says.
    """
    if cuda is None and cpu is None:
        raise DeclarationError(f"{name!r} has no code: give cuda=, cpu= or both (at {user_line()})")

    def typed(*avals: Any, **params: Any) -> Any:
        said = abstract_eval(*avals, **params)
        if not multiple_results:
            return _aval(said, name)
        if not isinstance(said, tuple | list):
            raise DeclarationError(
                f"abstract_eval of {name!r} returned {said!r}, and multiple_results= is given: "
                f"return a tuple of types (at {user_line()})"
            )
        return tuple(_aval(each, name) for each in said)

    def run(xp: Any, *arrays: Any, **params: Any) -> Any:
        if cpu is None:
            raise DeclarationError(
                f"{name!r} has no code for the CPU: give cpu=, or run on CUDA arrays or under "
                f"minijit.default_device('cuda-emulated') (at {user_line()})"
            )
        if cuda is None and backend_of(arrays).name != "cpu":
            raise DeclarationError(
                f"{name!r} has no code for CUDA: give cuda=, or run on NumPy arrays (at "
                f"{user_line()})"
            )
        arrays = tuple(map(np.asarray, arrays))
        results = cpu(*arrays, **params)
        said = typed(*(ShapedArray(x.shape, x.dtype) for x in arrays), **params)
        if not multiple_results:
            return _checked(results, said, name)
        if not isinstance(results, tuple | list) or len(results) != len(said):
            found = len(results) if isinstance(results, tuple | list) else type(results).__name__
            raise DeclarationError(
                f"abstract_eval of {name!r} says {len(said)} results, and its code for the CPU "
                f"returned {found}: make one of them what the other is (at {user_line()})"
            )
        return tuple(_checked(r, aval, name) for r, aval in zip(results, said, strict=True))

    kernel = None
    if cuda is not None:
        code, found = _code(cuda, name)
        kernel = DeviceKernel(
            code,
            entry or found,
            _needed(launch, name),
            arguments or (lambda *avals, **params: ()),
            zeroed,
            options,
        )
    primitive = library(
        name,
        run,
        typed,
        doc or f"{name}, declared by a user.",
        kernel=kernel,
        flops=flops,
        multiple_results=multiple_results,
        jvp=jvp,
        vjp=vjp,
        transpose=transpose,
        batch=batch,
    )
    return CustomCall(primitive)


def _needed(launch: Code | None, name: str) -> Code:
    if launch is None:
        raise DeclarationError(
            f"{name!r} has a kernel and no launch=: give a function of the operands' types that "
            f"returns (grid, block) (at {user_line()})"
        )
    return launch


def _code(given: Any, name: str) -> tuple[str | Code, str]:
    """Return the source of a kernel, and its name there."""
    if isinstance(given, str):
        return given, name
    python = getattr(given, "py_func", given)
    if isinstance(python, FunctionType):
        return python, python.__name__ if python.__name__.isidentifier() else name
    source = getattr(given, "code", None)  # of CuPy's RawKernel and RawModule
    if isinstance(source, str):
        return source, getattr(given, "name", name)
    raise DeclarationError(
        f"cuda={given!r} of {name!r} is no kernel (at {user_line()}): give CUDA C, a "
        "cupy.RawKernel or a Python function"
    )


def _aval(said: Any, name: str) -> ShapedArray:
    try:
        return ShapedArray(tuple(map(int, said.shape)), canonical_dtype(said.dtype))
    except AttributeError:
        raise DeclarationError(
            f"abstract_eval of {name!r} returned {said!r}: return what has shape and dtype, "
            f"minijit.ShapeDtypeStruct for example (at {user_line()})"
        ) from None


def _checked(result: Any, said: ShapedArray, name: str) -> Any:
    result = np.asarray(result)
    found = ShapedArray(result.shape, result.dtype)
    if found != said:
        raise DeclarationError(
            f"abstract_eval of {name!r} says {said}, and its code for the CPU returned {found}: "
            f"make one of them what the other is (at {user_line()})"
        )
    return result
