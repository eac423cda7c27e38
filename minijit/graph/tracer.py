"""The stand-in for an array while a function is traced.

A tracer answers Python's operators, NumPy's and CuPy's functions and ndarray's methods. What they
mean is declared elsewhere: ``ufuncs``, ``functions``, ``methods`` and ``properties`` are the tables
that :mod:`minijit.numpy` fills.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from minijit.graph.aval import ShapedArray
from minijit.graph.errors import (
    ConcretizationTypeError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
)
from minijit.graph.registry import find
from minijit.graph.source_info import testing_statement, user_line

if TYPE_CHECKING:
    from minijit.graph.jaxpr import Atom
    from minijit.graph.trace import Trace

__all__ = ["Tracer", "functions", "methods", "operation_for", "properties", "ufuncs"]

ufuncs: dict[str, Callable[..., Any]] = {}
"""By name of the NumPy or CuPy ufunc: what it does to tracers."""
functions: dict[str, Callable[..., Any]] = {}
"""By qualified name of a NumPy function, for example ``"concatenate"`` or ``"linalg.norm"``."""
methods: dict[str, Callable[..., Any]] = {}
"""By name of an ndarray method; the tracer is the first argument."""
properties: dict[str, Callable[[Any], Any]] = {}
"""By name of an ndarray attribute that is computed, for example ``T``."""

_STATIC = (
    "make the argument static (static_argnames of jit; for grad and vmap, a lambda that holds its "
    "value)"
)


def operation_for(name: str) -> Callable[..., Any] | None:
    """Return what answers the ufunc of that name, in an open scope or at all, or None."""
    return find("ufunc", name) or ufuncs.get(name)


class Tracer(NDArrayOperatorsMixin):
    """An array whose values are not known yet; its shape and dtype are."""

    __slots__ = ("_trace", "_var")
    __array_priority__ = 1000.0  # NumPy scalars and CuPy arrays on the left give way to tracers

    def __init__(self, trace: Trace, var: Atom) -> None:
        """Stand for ``var`` of ``trace``, or for a literal in it."""
        self._trace = trace
        self._var = var

    @property
    def aval(self) -> ShapedArray:
        """The abstract value: shape, dtype, weakness."""
        return self._var.aval

    @property
    def shape(self) -> tuple[int, ...]:
        """The concrete extents."""
        return self._var.aval.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype."""
        return self._var.aval.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self._var.aval.ndim

    @property
    def size(self) -> int:
        """Number of elements."""
        return self._var.aval.size

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self._var.aval.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self._var.aval.nbytes

    def __repr__(self) -> str:
        """Return ``Traced<f32[8]>``: there is no value to show."""
        return f"Traced<{self.aval}>"

    def __copy__(self) -> Tracer:
        """Return the tracer itself: it never changes."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Tracer:
        """Return the tracer itself: it never changes."""
        return self

    def __len__(self) -> int:
        """Return the extent of the first axis."""
        if not self.shape:
            raise TypeError("len() of an array without axes")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the first axis; the loop is unrolled into the program."""
        if not self.shape:
            raise TypeError("iteration over an array without axes")
        return (self[position] for position in range(self.shape[0]))

    def __getitem__(self, index: Any) -> Any:
        """Return a slice; see :func:`minijit.ops.index.getitem`."""
        return methods["__getitem__"](self, index)

    def __setitem__(self, index: Any, value: Any) -> NoReturn:
        """Refuse: traced arrays never change."""
        raise TypeError(
            f"a traced array cannot be assigned to in place (at {user_line()}); build a new one: "
            "x = x.at[index].set(value), x.at[index].add(value), or "
            "minijit.numpy.where(mask, value, x)"
        )

    def __getattr__(self, name: str) -> Any:
        """Return ndarray's methods and attributes."""
        if name in methods:
            return functools.partial(methods[name], self)
        if name in properties:
            return properties[name](self)
        raise AttributeError(f"a traced array has no attribute {name!r} (at {user_line()})")

    def __pow__(self, other: Any) -> Any:
        """Return ``self ** other``; constant exponents are looked at, as NumPy does."""
        return methods["__pow__"](self, other)

    # NumPy and CuPy

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """Answer a NumPy ufunc, and those of its methods that have a traced form."""
        if method == "reduce":
            return functions[f"{ufunc.__name__}.reduce"](*inputs, **options)
        operation = operation_for(ufunc.__name__)
        if method != "__call__" or operation is None:
            suffix = "" if method == "__call__" else f".{method}"
            raise TypeError(f"np.{ufunc.__name__}{suffix} cannot be traced (at {user_line()})")
        return operation(*inputs, **_supported(options))

    def __array_function__(
        self, function: Callable[..., Any], types: Any, args: Any, kwargs: Any
    ) -> Any:
        """Answer a NumPy function that is not a ufunc."""
        module = function.__module__.removeprefix("numpy").removeprefix(".")
        name = f"{module}.{function.__name__}" if module in ("linalg", "fft") else function.__name__
        if name not in functions:
            raise TypeError(
                f"np.{name} cannot be traced (at {user_line()}); the functions of minijit.numpy can"
            )
        return functions[name](*args, **kwargs)

    def __cupy_override_elementwise_kernel__(self, kernel: Any, *args: Any, **options: Any) -> Any:
        """Answer a CuPy ufunc."""
        name = kernel.name.removeprefix("cupy_")
        operation = operation_for(name)
        if operation is None:
            raise TypeError(f"the CuPy kernel {kernel.name!r} cannot be traced (at {user_line()})")
        return operation(*args, **_supported(options))

    def __cupy_override_reduction_kernel__(
        self,
        kernel: Any,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        keepdims: bool = False,
    ) -> Any:
        """Answer a CuPy reduction."""
        name = kernel.name.removeprefix("cupy_")
        if name not in functions:
            raise TypeError(
                f"the CuPy reduction {kernel.name!r} cannot be traced (at {user_line()})"
            )
        options = {} if dtype is None else {"dtype": dtype}
        return functions[name](self, axis=axis, out=out, keepdims=keepdims, **options)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """Return :mod:`minijit.numpy` (array API standard)."""
        return properties["__array_namespace__"](self)

    # What needs a concrete value

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn:
        """Refuse: there are no values yet."""
        raise TracerArrayConversionError(
            self._message(
                "a real array",
                "use minijit.numpy (or np/cp functions) on the traced value itself; where it is "
                "the position in array[x], write minijit.numpy.take(array, x, axis=0); where it "
                f"is a count or a shape, {_STATIC}",
            )
        )

    def __bool__(self) -> NoReturn:
        """Refuse: the truth is not known while tracing."""
        raise TracerBoolConversionError(self._message("a concrete bool", self._bool_remedy()))

    def _bool_remedy(self) -> str:
        statement = testing_statement()
        if statement == "and":
            reduced = ", reduced with .any() or .all() where one is wanted" if self.shape else ""
            return (
                "write (a) & (b) for `a and b`, (a) | (b) for `a or b`, ~(a) for `not a`, "
                f"(a < b) & (b < c) for `a < b < c`{reduced}, or {_STATIC}"
            )
        if statement == "while":
            loop = "minijit.lax.while_loop(condition, body, value) for the loop"
            reduced = "reduce the condition with .any() or .all() and write " if self.shape else ""
            write = reduced or "write "
            return f"{write}{loop}, or {_STATIC}"
        choice = "minijit.numpy.where(condition, a, b)"
        branch = "minijit.lax.cond(condition, true_fun, false_fun)"
        if self.shape:
            text = f"write {choice} to choose element by element, or reduce the condition with "
            text += f".any() or .all() and write {branch}"
        else:
            text = f"write {choice} for the branch, {branch} to run only one side"
        return f"{text}, or {_STATIC}"

    def __float__(self) -> NoReturn:
        """Refuse: the value is not known while tracing."""
        self._concretize("float")

    def __int__(self) -> NoReturn:
        """Refuse: the value is not known while tracing."""
        self._concretize("int")

    def __complex__(self) -> NoReturn:
        """Refuse: the value is not known while tracing."""
        self._concretize("complex")

    def __index__(self) -> NoReturn:
        """Refuse: the value is not known while tracing."""
        raise TracerIntegerConversionError(
            self._message(
                "a concrete integer",
                "where it is the position in array[x], write minijit.numpy.take(array, x, "
                "axis=0); shapes, counts and indices of lists must be known while tracing: "
                f"{_STATIC}",
            )
        )

    def __format__(self, spec: str) -> str:
        """Return the type for a plain ``f"{x}"``; refuse a format, which needs the value."""
        if not spec:
            return repr(self)
        raise ConcretizationTypeError(
            self._message(f"a value to format as {spec!r}", "print outside of the jitted function")
        )

    def __round__(self, decimals: int | None = None) -> Any:
        """Return the rounded array; Python's ``round(x)`` would have to give an int."""
        return methods["round"](self, decimals or 0)

    def item(self, *args: Any) -> NoReturn:
        """Refuse: the value is not known while tracing."""
        self._concretize("Python number")

    def tolist(self) -> NoReturn:
        """Refuse: the values are not known while tracing."""
        self._concretize("list")

    def __hash__(self) -> int:
        """Refuse, since ``==`` compares elements."""
        raise TypeError(self._message("a hash", "pass it as a static argument if it must be a key"))

    def _concretize(self, kind: str) -> NoReturn:
        raise ConcretizationTypeError(
            self._message(
                f"a concrete {kind}",
                "keep it an array (math.sqrt(x) -> minijit.numpy.sqrt(x), float(x) -> x), or "
                f"{_STATIC}",
            )
        )

    def _message(self, needed: str, remedy: str) -> str:
        eqn = self._trace.definition(self._var)
        made = "It is an argument" if eqn is None else f"It was computed at {eqn.source}"
        arguments = self._trace.arguments_of(self._var)
        if arguments:
            the = "It is the" if eqn is None else f"{made}, from the"
            plural = "s" if len(arguments) > 1 else ""
            made = f"{the} argument{plural} {', '.join(arguments)} of {self._trace.name!r}"
        dtype = f"{self.dtype.name}[{','.join(map(str, self.shape))}]"
        return (
            f"{needed} is needed at {user_line()}, but the value is traced: only its type "
            f"{dtype} is known. {made}. Instead, {remedy}."
        )


def _in_place(name: str) -> Callable[[Tracer, Any], Any]:
    """Return what ``x += y`` means: ``x`` stands for the sum from now on, in its own dtype."""

    def rebind(self: Tracer, other: Any) -> Any:
        result = getattr(self, f"__{name}__")(other)
        if not isinstance(result, Tracer) or self.aval.weak_type:
            return result
        if result.shape != self.shape or not np.can_cast(result.dtype, self.dtype, "same_kind"):
            raise TypeError(
                f"an in-place operation cannot store {result.aval} in {self.aval} "
                f"(at {user_line()}); write x = x + y instead of x += y"
            )
        return methods["astype"](result, self.dtype)

    return rebind


for _name in (
    *("add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "pow"),
    *("lshift", "rshift", "and", "or", "xor"),
):
    setattr(Tracer, f"__i{_name}__", _in_place(_name))


def _supported(options: dict[str, Any]) -> dict[str, Any]:
    """Drop options that say nothing, refuse those that cannot be traced."""
    neutral = {"casting": "same_kind", "order": "K", "subok": True, "where": True}
    kept = {}
    for name, value in options.items():
        if name == "dtype":
            kept[name] = value
        elif value is None or (isinstance(value, tuple) and all(item is None for item in value)):
            continue  # no `out`, one for each result
        elif type(value) is not type(neutral.get(name)) or value != neutral[name]:
            raise TypeError(f"the option {name}= of a ufunc cannot be traced (at {user_line()})")
    return {name: value for name, value in kept.items() if value is not None}
