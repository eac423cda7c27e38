"""``jit``: trace once for each signature, compile, and run from the cache ever after."""

from __future__ import annotations

import functools
import sys
import threading
import types
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast, overload

import numpy as np

from minijit import runtime
from minijit.api.arguments import Arguments, Binder
from minijit.api.stages import Lowered
from minijit.backends.array import ARRAY_PLACES
from minijit.backends.registry import backend_of
from minijit.graph.aval import ShapedArray
from minijit.graph.config import config
from minijit.graph.events import emit
from minijit.graph.mode import mode
from minijit.graph.primitive import Kind, Primitive, register
from minijit.graph.trace import Traced, bind, current_trace, refuse_leaks, trace_function
from minijit.graph.tracer import Tracer
from minijit.graph.tree import TreeDef, flatten, unflatten
from minijit.runtime.explain import report_compile, report_miss
from minijit.runtime.memory_cache import Entry, FunctionCache, Program
from minijit.runtime.plan import Plan
from minijit.runtime.signature import Signature, abstract_leaf, differences
from minijit.transforms.evaluate import evaluate

if TYPE_CHECKING:
    from minijit.lowering.lower import Layout

__all__ = ["Jitted", "clear_caches", "disable_jit", "jit"]

P = ParamSpec("P")
R = TypeVar("R")

_caches: weakref.WeakKeyDictionary[Any, dict[Hashable, FunctionCache]] = weakref.WeakKeyDictionary()
_all_caches: weakref.WeakSet[FunctionCache] = weakref.WeakSet()
_caches_lock = threading.Lock()
_SCALARS = frozenset({float, int, bool, *np.sctypeDict.values()})


def _call_aval(*avals: ShapedArray, jaxpr: Any, name: str) -> tuple[ShapedArray, ...]:
    return cast("tuple[ShapedArray, ...]", jaxpr.out_avals)


def _call_eager(xp: Any, *args: Any, jaxpr: Any, name: str) -> tuple[Any, ...]:
    return tuple(evaluate(jaxpr, args))


jit_p = register(
    Primitive(
        name="jit",
        kind=Kind.CALL,
        doc="Call of a jitted function inside another.",
        abstract_eval=_call_aval,
        eager=_call_eager,
        multiple_results=True,
    )
)


class Jitted(Generic[P, R]):
    """A function that is compiled for each signature it is called with."""

    def __init__(
        self,
        function: Callable[P, R],
        static_argnums: int | Iterable[int] | None,
        static_argnames: str | Iterable[str] | None,
    ) -> None:
        """Wrap ``function``; see :func:`jit`."""
        self._function = function
        self._binder = Binder(function, static_argnums, static_argnames)
        self._cache = _shared_cache(function, self._binder)
        self._hits, self._tick = self._cache.hits, self._cache.tick
        self._simple = not self._binder.has_statics
        # Names and documentation only: attributes of a callable could hide those of this object.
        functools.update_wrapper(self, function, updated=())

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the compiled program of this call's signature, compiling it first if it is new."""
        # The short cut of a hit: arrays and scalars by position, nothing static.
        if not kwargs and not mode.busy:
            found = self._hits.get(_raw_key(args))
            if found is not None:
                run, entry = found
                entry.used = self._tick()
                return run(args)  # type: ignore[no-any-return]  # cast() would cost a call
        return self._call(args, kwargs)

    def _call(self, args: Sequence[Any], kwargs: dict[str, Any]) -> R:
        if mode.disabled:
            return self._function(*args, **kwargs)
        arguments = self._binder.bind(args, kwargs)
        if current_trace() is not None:
            return cast(R, self._call_traced(arguments))
        refuse_leaks(arguments.leaves)
        entry, plan = self._compiled(arguments)
        if not kwargs and self._simple and plan.takes(arguments.leaves):
            key = _raw_key(args)
            if key is not None:
                self._cache.remember(entry, key, plan.returning(entry.program.out_tree))
        return cast(R, _finish(plan, entry.program.out_tree, arguments.leaves))

    def __repr__(self) -> str:
        """Return the wrapped function's description."""
        return f"<minijit.jit of {self._function!r}>"

    def lower(self, *args: P.args, **kwargs: P.kwargs) -> Lowered:
        """Trace for this signature and return the stage that can be looked at and compiled.

        Arguments may be arrays or abstract ones (:class:`minijit.ShapeDtypeStruct`).
        """
        arguments = self._binder.bind(args, kwargs)
        signature = self._signature(arguments)
        entry = self._cache.program(signature, lambda: self._trace(arguments, signature))

        def compile_now() -> Plan:
            leaves = arguments.leaves
            return self._plan(signature, entry, leaves, _layouts(leaves, signature.avals))

        def call(call_args: Sequence[Any], call_kwargs: dict[str, Any]) -> Any:
            bound = self._binder.bind(call_args, call_kwargs)
            leaves = _checked(self._signature(bound), signature, bound, self._binder)
            # Compiled already, unless they lie in memory in another way than those at first.
            plan = self._plan(signature, entry, leaves, _layouts(leaves, signature.avals))
            return _finish(plan, entry.program.out_tree, leaves)

        return Lowered(entry.program, compile_now, call)

    def clear_cache(self) -> None:
        """Drop all compiled programs of this function."""
        self._cache.clear()

    def stats(self) -> dict[str, int]:
        """Return counts of what this function's programs consist of, so that nothing is silent.

        ``signatures`` in the cache, ``traces`` so far, ``plans`` compiled (one for each memory
        layout), and over these plans ``kernels``, ``eager_steps`` that the array library runs at
        each call, and ``copies`` of arguments to the device so far.
        """
        plans = self._cache.all_plans()
        return {
            "signatures": len(self._cache),
            "traces": self._cache.traces,
            "plans": len(plans),
            "kernels": sum(len(plan.sources) for plan in plans),
            "eager_steps": sum(plan.eager_steps for plan in plans),
            "copies": sum(plan.copies for plan in plans),
        }

    def _cache_size(self) -> int:
        """Return the number of signatures in the cache."""
        return len(self._cache)

    def __reduce__(self) -> Any:
        """Pickle by name where the name leads here, else with the function and its options."""
        found: Any = sys.modules.get(getattr(self, "__module__", ""))
        name = getattr(self, "__qualname__", "")
        for part in name.split("."):
            found = getattr(found, part, None)
        return name if found is self else (_again, (self._function, *self._binder.options))

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """Bind a method: ``self`` is static, compared by its own ``==`` and ``hash``."""
        if instance is None or isinstance(self._function, staticmethod):
            return self
        return types.MethodType(self._as_method, instance)

    @functools.cached_property
    def _as_method(self) -> Jitted[..., R]:
        names = list(self._binder.signature.parameters)
        return Jitted(self._function, None, {*self._binder.static_names, names[0]})

    def _signature(self, arguments: Arguments) -> Signature:
        avals = []
        for position, leaf in enumerate(arguments.leaves):
            try:
                avals.append(abstract_leaf(leaf, ""))
            except (TypeError, OverflowError):
                abstract_leaf(leaf, self._binder.paths(arguments)[position])
                raise
        device = backend_of(arguments.leaves).name
        return Signature(
            arguments.names,
            arguments.treedef,
            tuple(avals),
            arguments.statics,
            config.fingerprint,
            device,
        )

    def _compiled(self, arguments: Arguments) -> tuple[Entry, Plan]:
        signature = self._signature(arguments)
        layouts = _layouts(arguments.leaves, signature.avals)  # what it refuses is not traced
        entry = self._cache.program(signature, lambda: self._trace(arguments, signature))
        return entry, self._plan(signature, entry, arguments.leaves, layouts)

    def _plan(
        self,
        signature: Signature,
        entry: Entry,
        leaves: Sequence[Any],
        layouts: tuple[Layout, ...],
    ) -> Plan:
        backend = backend_of(leaves)

        def build() -> Plan:
            with report_compile(self._binder.name, signature):
                return runtime.pipeline.compile_plan(entry.program.jaxpr, layouts, backend)

        return self._cache.plan(signature, entry, (layouts, backend.name), build)

    def _trace(self, arguments: Arguments, signature: Signature) -> Program:
        names = self._binder.paths(arguments)
        report_miss(self._binder.name, signature, self._cache.signatures(), names)
        # `lower` may be called while another function is traced: this program is not part of it.
        traced, out_tree = self._traced(arguments, signature.avals, names, alone=True)
        return Program(traced.jaxpr, out_tree, names)

    def _traced(
        self,
        arguments: Arguments,
        avals: Sequence[ShapedArray],
        names: Sequence[str],
        *,
        alone: bool = False,
    ) -> tuple[Traced, TreeDef]:
        emit("trace", function=self._binder.name)
        trees: list[TreeDef] = []

        def flat(leaves: list[Tracer]) -> list[Any]:
            result = self._binder.call(self._function, arguments, leaves)
            results, tree = flatten(result)
            trees.append(tree)
            return results

        traced = trace_function(flat, avals, names, self._binder.name, alone=alone)
        return traced, trees[0]

    def _call_traced(self, arguments: Arguments) -> Any:
        """Record a call inside another trace; equal signatures share one inner program."""
        signature = self._signature(arguments)
        found = self._cache.inner.get(signature)
        if found is None:
            found = self._traced(arguments, signature.avals, self._binder.paths(arguments))
            # A program that captured an outer traced value belongs to that trace alone.
            if not any(isinstance(value, Tracer) for value in found[0].captures):
                self._cache.inner[signature] = found
        traced, out_tree = found
        operands = (*traced.captures, *arguments.leaves)
        return unflatten(
            out_tree, bind(jit_p, *operands, jaxpr=traced.jaxpr, name=self._binder.name)
        )


def _again(function: Any, numbers: tuple[int, ...], names: tuple[str, ...]) -> Any:
    return jit(function, static_argnums=numbers, static_argnames=names)


def _raw_key(args: Sequence[Any]) -> Hashable | None:
    """Return a key made of the leaves' types alone, or None when an argument is no plain leaf."""
    key: list[Any] = [config.version]
    for arg in args:
        kind = type(arg)
        place = ARRAY_PLACES.get(kind)
        if place is not None:
            key += (place, arg.shape, arg.strides, arg.dtype)
        elif kind in _SCALARS:
            key.append(kind)
        else:
            return None
    return tuple(key)


def _finish(plan: Plan, out_tree: TreeDef, leaves: Sequence[Any]) -> Any:
    return plan.returning(out_tree)(plan.on_device(leaves))


def _layouts(leaves: Sequence[Any], avals: Sequence[ShapedArray]) -> tuple[Layout, ...]:
    return tuple(map(runtime.pipeline.layout_of, _concrete(leaves, avals)))


def _concrete(leaves: Sequence[Any], avals: Sequence[ShapedArray]) -> Iterator[Any]:
    """Yield arrays for abstract leaves, so that their layout (C order) can be asked for."""
    for leaf, aval in zip(leaves, avals, strict=True):
        yield (
            np.lib.stride_tricks.as_strided(np.empty(1, aval.dtype), aval.shape, _strides(aval))
            if isinstance(leaf, ShapedArray)
            else leaf
        )


def _strides(aval: ShapedArray) -> tuple[int, ...]:
    strides, step = [], aval.dtype.itemsize
    for extent in reversed(aval.shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def _checked(new: Signature, old: Signature, bound: Arguments, binder: Binder) -> list[Any]:
    if new != old:
        changes = "; ".join(differences(new, old, binder.paths(bound)))
        raise TypeError(f"{binder.name} was compiled for other arguments: {changes}")
    return bound.leaves


def _shared_cache(function: Any, binder: Binder) -> FunctionCache:
    """Return the cache of ``function`` with these statics.

    Jitting one function again reuses its entries.
    """
    with _caches_lock:
        # Callables of other types may equal each other and compute something else.
        shared = isinstance(function, types.FunctionType)
        by_options = _caches.setdefault(function, {}) if shared else {}
        cache = by_options.setdefault(binder.statics, FunctionCache())
        _all_caches.add(cache)
        return cache


@overload
def jit(
    function: Callable[P, R],
    *,
    static_argnums: int | Iterable[int] | None = ...,
    static_argnames: str | Iterable[str] | None = ...,
) -> Jitted[P, R]: ...


@overload
def jit(
    function: None = ...,
    *,
    static_argnums: int | Iterable[int] | None = ...,
    static_argnames: str | Iterable[str] | None = ...,
) -> Callable[[Callable[P, R]], Jitted[P, R]]: ...


def jit(
    function: Callable[P, R] | None = None,
    *,
    static_argnums: int | Iterable[int] | None = None,
    static_argnames: str | Iterable[str] | None = None,
) -> Jitted[P, R] | Callable[[Callable[P, R]], Jitted[P, R]]:
    """Compile a function of arrays.

    The function runs once for each new signature (shapes, dtypes, static values, structure) with
    tracers in the place of arrays; what it does to them is fused into kernels. Side effects happen
    then, and only then. Use as a decorator, with or without options, or as ``jit(f)``.

    Args:
        function: Takes and returns pytrees of arrays and scalars.
        static_argnums: Positions of arguments that are Python values known while tracing; a new
            value compiles anew. They must be hashable.
        static_argnames: The same by name.

    Raises:
        ValueError: a static argument does not exist.
        TypeError: ``function`` is not callable.
    """
    if function is None:
        return functools.partial(  # type: ignore[return-value]
            jit, static_argnums=static_argnums, static_argnames=static_argnames
        )
    if not callable(function):
        raise TypeError(f"jit takes a function, not {function!r}")
    if isinstance(function, Jitted):
        function = cast("Callable[P, R]", function._function)
    return Jitted(function, static_argnums, static_argnames)


@contextmanager
def disable_jit(disable: bool = True) -> Iterator[None]:
    """Inside the ``with`` block jitted functions run as plain Python on concrete arrays."""
    if not disable:
        yield
        return
    mode.add_disabled(1)
    try:
        yield
    finally:
        mode.add_disabled(-1)


def clear_caches() -> None:
    """Drop the compiled programs of all functions, and all loaded kernels."""
    with _caches_lock:
        caches = list(_all_caches)
    for cache in caches:
        cache.clear()
    runtime.pipeline.clear_kernels()
