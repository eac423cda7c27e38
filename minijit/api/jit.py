"""``jit``: trace once for each signature, compile, and run from the cache ever after."""

from __future__ import annotations

import functools
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast, overload

from minijit import runtime
from minijit.api import load_operations
from minijit.api.arguments import Arguments, Binder
from minijit.api.bound import Bound
from minijit.api.caches import shared_cache
from minijit.api.keys import RawCall, raw_call, raw_key
from minijit.api.nested import call_inner
from minijit.api.stages import Lowered
from minijit.backends.registry import backend_of
from minijit.graph.aval import ShapedArray
from minijit.graph.config import config
from minijit.graph.events import emit
from minijit.graph.mode import mode
from minijit.graph.trace import refuse_leaks, trace_function
from minijit.graph.tracer import Tracer
from minijit.graph.tree import TreeDef, flatten
from minijit.runtime.captured import CapturedArrayChanged
from minijit.runtime.explain import report_compile, report_miss
from minijit.runtime.guard import Guard
from minijit.runtime.memory_cache import Entry, Inner, Program
from minijit.runtime.plan import Plan
from minijit.runtime.reads import Surroundings, surroundings
from minijit.runtime.signature import Signature, abstract_leaf, differences

if TYPE_CHECKING:
    from minijit.runtime.placement import Placed

__all__ = ["Jitted", "jit"]

P = ParamSpec("P")
R = TypeVar("R")

_COUNTED = ("kernels", "eager_steps", "host_loops", "host_branches")
"""What steps of a plan there are; each kind says which it is."""
_DONE = ("host_steps", "host_reads", "graph_launches")
"""What the host does for loops and branches that it drives."""


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
                    try:
                        return run(raw.leaves)  # type: ignore[no-any-return]
                    except CapturedArrayChanged:
                        pass
        arguments = self._binder.bind(args, kwargs)
        refuse_leaks(arguments.leaves)
        around = self._surroundings(arguments)
        signature = self._signature(arguments, around)
        inputs = _placed(arguments.leaves, signature)  # what it refuses is not traced
        entry = self._program(arguments, signature, around)
        plan = self._plan(entry, inputs)
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
        around = self._surroundings(arguments)
        signature = self._signature(arguments, around)
        # Equal signatures share one inner program.
        inner = self._cache.inner(signature)
        if inner is None:
            inner = self._traced(arguments, signature.avals, self._binder.paths(arguments))
            # A program that captured an outer traced value belongs to that trace alone.
            outer = any(isinstance(value, Tracer) for value in inner[0].captures)
            if not outer and around.current():
                self._cache.keep_inner(signature, inner)
                self._drop_with_owner(arguments, signature)
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
        around = self._surroundings(arguments)
        signature = self._signature(arguments, around)
        entry = self._program(arguments, signature, around)

        def compile_now() -> Plan:
            return self._plan(entry, _placed(arguments.leaves, signature))

        def leaves(call_args: Sequence[Any], call_kwargs: dict[str, Any]) -> list[Any]:
            bound = self._binder.bind((*given, *call_args), call_kwargs)
            new = self._signature(bound, self._surroundings(bound))
            return _checked(new, signature, bound, self._binder)

        def call(call_args: Sequence[Any], call_kwargs: dict[str, Any]) -> Any:
            # Compiled already, unless they lie in memory in another way than those at first.
            inputs = _placed(leaves(call_args, call_kwargs), signature)
            return self._plan(entry, inputs).returning(entry.program.out_tree)(inputs.values)

        return Lowered(entry.program, compile_now, call, leaves, signature)

    def clear_cache(self) -> None:
        """Drop all compiled programs of this function."""
        self._cache.clear()

    def stats(self) -> dict[str, int]:
        """Return counts of what this function's programs consist of, so that nothing is silent.

        ``signatures`` in the cache, ``traces`` so far, ``plans`` compiled (one for each memory
        layout), and over these plans ``kernels``, ``eager_steps`` that the array library runs,
        ``host_loops`` and ``host_branches`` whose steps are launched one by one, since no kernel
        holds them. What bodies and branches consist of counts as well, once, however often a call
        runs it.

        What all calls of these plans did so far: ``host_steps`` of such loops, ``host_reads`` of
        conditions and branch numbers for which the host waited, ``graph_launches``, each in the
        place of the kernels of several steps, and ``copies`` of arguments to the device.
        """
        plans = self._cache.all_plans()
        steps = [step for plan in plans for step in plan.every_step]
        kinds = Counter(step.counted for step in steps)
        done = sum((step.work.so_far() for step in steps if step.work is not None), Counter[str]())
        return {
            "signatures": len(self._cache),
            "traces": self._cache.traces,
            "plans": len(plans),
            **{name: kinds[name] for name in _COUNTED},
            **{name: done[name] for name in _DONE},
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
        return Bound(self._as_method, instance)

    @functools.cached_property
    def _as_method(self) -> Jitted[..., R]:
        numbers, names = self._binder.options
        return Jitted(self._function, (0, *numbers), names, method=True)

    def _surroundings(self, arguments: Arguments) -> Surroundings:
        """Return what the function, its static arguments and their callees read."""

        def look() -> Surroundings:
            return surroundings((self._function, *arguments.values.values()))

        return self._cache.surroundings(arguments.statics, look)

    def _signature(self, arguments: Arguments, around: Surroundings) -> Signature:
        avals = []
        for position, leaf in enumerate(arguments.leaves):
            try:
                avals.append(abstract_leaf(leaf, ""))
            except (TypeError, OverflowError):
                abstract_leaf(leaf, self._binder.paths(arguments)[position])
                raise
        return Signature(
            arguments.names,
            arguments.treedef,
            tuple(avals),
            arguments.statics,
            config.fingerprint,
            backend_of(arguments.leaves),
            around.reads,
        )

    def _program(self, arguments: Arguments, signature: Signature, around: Surroundings) -> Entry:
        return self._cache.program(
            signature, lambda: self._trace(arguments, signature), around.current
        )

    def _plan(self, entry: Entry, inputs: Placed) -> Plan:
        program = entry.program

        def build() -> Plan:
            with report_compile(self._binder.name, entry.signature):
                return runtime.pipeline.compile_plan(
                    program.jaxpr, inputs.layouts, inputs.backend, entry.captured
                )

        return self._cache.plan(entry, inputs.layouts, build)

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

    def _trace(self, arguments: Arguments, signature: Signature) -> Program:
        names = self._binder.paths(arguments)
        report_miss(self._binder.name, signature, self._cache.signatures(), names)
        # `lower` may be called while another function is traced: this program is not part of it.
        traced, out_tree = self._traced(arguments, signature.avals, names, alone=True)
        self._drop_with_owner(arguments, signature)
        return Program(traced.jaxpr, out_tree, names)

    def _drop_with_owner(self, arguments: Arguments, signature: Signature) -> None:
        """Keep programs of a method no longer than the instance, where its key does not either."""
        owner = arguments.values.get(self._binder.owner or "")
        if getattr(type(owner), "__weakrefoffset__", 0):
            self._cache.drop_with(owner, signature)

    def _traced(
        self,
        arguments: Arguments,
        avals: Sequence[ShapedArray],
        names: Sequence[str],
        *,
        alone: bool = False,
    ) -> Inner:
        emit("trace", function=self._binder.name)
        trees: list[TreeDef] = []

        def flat(leaves: list[Tracer]) -> list[Any]:
            result = self._binder.call(self._function, arguments, leaves)
            results, tree = flatten(result)
            trees.append(tree)
            return results

        load_operations()
        traced = trace_function(flat, avals, names, self._binder.name, alone=alone)
        return traced, trees[0]


def _placed(leaves: Sequence[Any], signature: Signature) -> Placed:
    return runtime.placement.Placed.on(signature.backend, leaves)


def _again(function: Any, numbers: tuple[int, ...], names: tuple[str, ...]) -> Any:
    return jit(function, static_argnums=numbers, static_argnames=names)


def _checked(new: Signature, old: Signature, bound: Arguments, binder: Binder) -> list[Any]:
    if new != old:
        changes = "; ".join(differences(new, old, binder.paths(bound)))
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
