"""``jit``: trace once for each signature, compile, and run from the cache ever after."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast, overload

from minijit import runtime
from minijit.api.arguments import Arguments, Binder
from minijit.api.bound import Bound
from minijit.api.caches import shared_cache
from minijit.api.keys import RawCall, raw_call, raw_key
from minijit.api.nested import call_inner
from minijit.api.programs import Programs
from minijit.api.stages import Lowered
from minijit.graph.config import config
from minijit.graph.mode import mode
from minijit.graph.trace import refuse_leaks
from minijit.graph.tracer import Tracer
from minijit.runtime.captured import CapturedArrayChanged
from minijit.runtime.changes import differences
from minijit.runtime.guard import Guard
from minijit.runtime.memory_cache import Entry
from minijit.runtime.placement import Placed
from minijit.runtime.plan import Plan
from minijit.runtime.signature import Signature

if TYPE_CHECKING:
    from minijit.runtime.report import CacheEntries, Explanation, Stats

__all__ = ["Jitted", "jit"]

P = ParamSpec("P")
R = TypeVar("R")


class Jitted(Generic[P, R]):
    """A function that is compiled for each signature it is called with."""

    def __init__(
        self,
        function: Callable[P, R],
        static_argnums: int | Iterable[int] | None,
        static_argnames: str | Iterable[str] | None,
        *,
        method: bool = False,
    ) -> None:
        """Wrap ``function``; see :func:`jit` and, for ``method``, :class:`Binder`."""
        self._function = function
        self._binder = Binder(function, static_argnums, static_argnames, method=method)
        self._cache = shared_cache(function, self._binder.statics)
        self._hits, self._tick = self._cache.hits, self._cache.tick
        self._programs = Programs(function, self._binder, self._cache)
        # Names and documentation only: attributes of a callable could hide those of this object.
        functools.update_wrapper(self, function, updated=())

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the compiled program of this call's signature, compiling it first if it is new."""
        # The shortest cut of a hit: arrays and scalars by position.
        if not kwargs and not mode.busy:
            found = self._hits.get(raw_key(args))
            if found is not None:
                guard, run, entry = found
                if guard is None or guard():
                    entry.used = self._tick()
                    entry.hits += 1
                    try:
                        return run(args)  # type: ignore[no-any-return]  # cast() would cost a call
                    except CapturedArrayChanged:
                        pass  # traced anew
        return self._call(args, kwargs)

    def _call(self, args: Sequence[Any], kwargs: dict[str, Any]) -> R:
        if mode.busy:
            return self._call_busy(args, kwargs)
        raw = raw_call(self._binder, args, kwargs)
        if raw is not None:
            found = self._hits.get(raw.key)
            if found is not None:
                guard, run, entry = found
                if guard is None or guard():
                    entry.used = self._tick()
                    entry.hits += 1
                    try:
                        return run(raw.leaves)  # type: ignore[no-any-return]
                    except CapturedArrayChanged:
                        pass
        arguments = self._binder.bind(args, kwargs)
        refuse_leaks(arguments.leaves)
        around = self._programs.surroundings(arguments)
        signature = self._programs.signature(arguments, around)
        inputs = _placed(arguments.leaves, signature)  # what it refuses is not traced
        entry = self._programs.program(arguments, signature, around, called=True)
        plan = self._programs.plan(entry, inputs, called=True)
        run = plan.returning(entry.program.out_tree)
        if raw is not None and not inputs.copies:
            self._remember(entry, inputs, run, raw, around.guard, args, kwargs)
        plan.copies += inputs.copies
        return cast(R, run(inputs.values))

    def _call_busy(self, args: Sequence[Any], kwargs: dict[str, Any]) -> R:
        """Call while jit is disabled, or inside another trace."""
        if mode.disabled:
            return self._function(*args, **kwargs)
        arguments = self._binder.bind(args, kwargs)
        around = self._programs.surroundings(arguments)
        signature = self._programs.signature(arguments, around)
        # Equal signatures share one inner program.
        inner = self._cache.inner(signature)
        if inner is None:
            inner = self._programs.traced(arguments, signature.avals, self._binder.paths(arguments))
            # A program that captured an outer traced value belongs to that trace alone.
            outer = any(isinstance(value, Tracer) for value in inner[0].captures)
            if not outer and around.current():
                self._cache.keep_inner(signature, inner)
                self._programs.drop_with_owner(arguments, signature)
        return cast(R, call_inner(inner, arguments.leaves, self._binder.name))

    def __repr__(self) -> str:
        """Return the wrapped function's description."""
        return f"<minijit.jit of {self._function!r}>"

    def lower(self, *args: P.args, **kwargs: P.kwargs) -> Lowered:
        """Trace for this signature and return the stage that can be looked at and compiled.

        Arguments may be arrays or abstract ones (:class:`minijit.ShapeDtypeStruct`).
        """
        return self._lower((), args, kwargs)

    def _lower(
        self, given: tuple[object, ...], args: Sequence[Any], kwargs: dict[str, Any]
    ) -> Lowered:
        """Trace; ``given`` comes before the arguments of every call."""
        arguments = self._binder.bind((*given, *args), kwargs)
        around = self._programs.surroundings(arguments)
        signature = self._programs.signature(arguments, around)
        entry = self._programs.program(arguments, signature, around)

        def compile_now() -> Plan:
            return self._programs.plan(entry, _placed(arguments.leaves, signature))

        def leaves(call_args: Sequence[Any], call_kwargs: dict[str, Any]) -> list[Any]:
            bound = self._binder.bind((*given, *call_args), call_kwargs)
            new = self._programs.signature(bound, self._programs.surroundings(bound))
            return _checked(new, signature, bound, self._binder)

        def call(call_args: Sequence[Any], call_kwargs: dict[str, Any]) -> Any:
            # Compiled already, unless they lie in memory in another way than those at first.
            inputs = _placed(leaves(call_args, call_kwargs), signature)
            return self._programs.plan(entry, inputs).returning(entry.program.out_tree)(
                inputs.values
            )

        return Lowered(entry.program, compile_now, call, leaves, signature)

    def clear_cache(self) -> None:
        """Drop all compiled programs of this function."""
        self._cache.clear()

    def stats(self) -> Stats:
        """Return counts of what this function's programs consist of, so that nothing is silent.

        ``signatures`` in the cache, ``traces`` so far, ``hits`` of the signatures in the cache,
        ``compiles`` so far, ``evictions`` of signatures to make room, ``plans`` compiled (one for
        each memory layout), and over these plans ``kernels``, ``eager_steps`` that the array
        library runs, ``host_loops`` and ``host_branches`` whose steps are launched one by one,
        since no kernel holds them, and ``bytes`` that they hold. What bodies and branches consist
        of counts as well, once, however often a call runs it.

        What all calls of these plans did so far: ``host_steps`` of such loops, ``host_reads`` of
        conditions and branch numbers for which the host waited, ``graph_launches``, each in the
        place of the kernels of several steps, and ``copies`` of arguments to the device.

        It is a dict, and prints as a table.
        """
        return runtime.report.Stats.of(self._cache)

    def entries(self) -> CacheEntries:
        """Return the signatures in the cache, the least recently used first."""
        return runtime.report.CacheEntries.of(self._cache)

    def explain(self) -> Explanation:
        """Return why this function was compiled: what changed, how often, and what to do.

        It prints as a list; the last 64 misses are kept, and all are counted.
        """
        return runtime.report.Explanation.of(self._binder.name, self._cache)

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
        return Bound(self._as_method, instance)

    @functools.cached_property
    def _as_method(self) -> Jitted[..., R]:
        numbers, names = self._binder.options
        return Jitted(self._function, (0, *numbers), names, method=True)

    def _remember(
        self,
        entry: Entry,
        inputs: Placed,
        run: Callable[[Sequence[Any]], Any],
        raw: RawCall,
        guard: Guard | None,
        args: Sequence[Any],
        kwargs: dict[str, Any],
    ) -> None:
        """Take the short cut from the next such call on."""
        if raw.version != config.version:
            return  # another thread changed the options: these are not those of the key
        key, ordered = raw.key, raw.ordered(run, self._binder, args, kwargs)
        self._cache.remember(entry, inputs.layouts, key, ordered, guard)
        shortest = raw_key(args) if not kwargs and not self._binder.has_statics else None
        if shortest is not None:
            self._cache.remember(entry, inputs.layouts, shortest, run, guard)


def _placed(leaves: Sequence[Any], signature: Signature) -> Placed:
    return Placed.on(signature.backend, leaves)


def _again(function: Any, numbers: tuple[int, ...], names: tuple[str, ...]) -> Any:
    return jit(function, static_argnums=numbers, static_argnames=names)


def _checked(new: Signature, old: Signature, bound: Arguments, binder: Binder) -> list[Any]:
    if new != old:
        changes = "; ".join(map(str, differences(new, old, binder.paths(bound))))
        raise TypeError(f"{binder.name} was compiled for other arguments: {changes}")
    return bound.leaves


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
