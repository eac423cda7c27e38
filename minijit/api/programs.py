"""From the arguments of a call to its signature, its traced program and its compiled plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minijit import runtime
from minijit.api import load_operations
from minijit.api.arguments import Arguments, Binder
from minijit.backends.registry import backend_of
from minijit.graph.aval import ShapedArray
from minijit.graph.config import config
from minijit.graph.events import emit
from minijit.graph.trace import trace_function
from minijit.graph.tracer import Tracer
from minijit.graph.tree import TreeDef, flatten
from minijit.runtime.memory_cache import Entry, FunctionCache, Inner, Program
from minijit.runtime.placement import Placed
from minijit.runtime.plan import Plan
from minijit.runtime.reads import Surroundings, surroundings
from minijit.runtime.signature import Signature, abstract_leaf

__all__ = ["Programs"]

_COMPARED = 64
"""With how many signatures a new one is compared, to explain it by the nearest."""


class Programs:
    """Makes what one function's cache keeps; what is there already is taken from it."""

    def __init__(self, function: Callable[..., Any], binder: Binder, cache: FunctionCache) -> None:
        """Make programs of ``function``, whose arguments ``binder`` sorts."""
        self._function = function
        self._binder = binder
        self._cache = cache
        self._history = cache.history

    def surroundings(self, arguments: Arguments) -> Surroundings:
        """Return what the function, its static arguments and their callees read."""

        def look() -> Surroundings:
            return surroundings(self._function, arguments.values.values())

        return self._cache.surroundings(arguments.statics, look)

    def signature(self, arguments: Arguments, around: Surroundings) -> Signature:
        """Return the signature of a call.

        Raises:
            TypeError: an argument is no array; the message has its path.
            OverflowError: a Python integer does not fit.
        """
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

    def program(
        self,
        arguments: Arguments,
        signature: Signature,
        around: Surroundings,
        *,
        called: bool = False,
    ) -> Entry:
        """Return the entry of ``signature``, traced if it is new.

        Raises:
            RecompileLimitError: a call needs it, and ``config.max_compiles`` is reached.
        """

        def trace() -> Program:
            if called:
                self._history.refuse_beyond_limit(self._binder.name)
            return self._trace(arguments, signature)

        return self._cache.program(signature, trace, around.current)

    def plan(self, entry: Entry, inputs: Placed, *, called: bool = False) -> Plan:
        """Return the plan for these inputs; a call that had to wait for it may warn the user.

        Raises:
            RecompileLimitError: a call needs it, and ``config.max_compiles`` is reached.
        """
        name, program = self._binder.name, entry.program
        fresh = False

        def build() -> Plan:
            nonlocal fresh
            if entry.plans:
                if called:
                    self._history.refuse_beyond_limit(name)
                nearest: Any = next(reversed(entry.plans))
                self._history.other_layout(
                    name, entry.signature, program.names, inputs.layouts, nearest
                )
            with self._history.compiling(name, entry.signature):
                plan = runtime.plans.plan_of(
                    program.jaxpr, inputs.layouts, inputs.backend, entry.captured
                )
            entry.compile_seconds += plan.compile_seconds
            fresh = True
            return plan

        plan = self._cache.plan(entry, inputs.layouts, build)
        if fresh and called:
            self._history.called(name)
        return plan

    def _trace(self, arguments: Arguments, signature: Signature) -> Program:
        names = self._binder.paths(arguments)
        known = self._cache.signatures(most=_COMPARED)
        self._history.miss(self._binder.name, signature, known, names)
        # `lower` may be called while another function is traced: this program is not part of it.
        traced, out_tree = self.traced(arguments, signature.avals, names, alone=True)
        self.drop_with_owner(arguments, signature)
        return Program(traced.jaxpr, out_tree, names)

    def drop_with_owner(self, arguments: Arguments, signature: Signature) -> None:
        """Keep programs of a method no longer than the instance, where its key does not either."""
        owner = arguments.values.get(self._binder.owner or "")
        if getattr(type(owner), "__weakrefoffset__", 0):
            self._cache.drop_with(owner, signature)

    def traced(
        self,
        arguments: Arguments,
        avals: Sequence[ShapedArray],
        names: Sequence[str],
        *,
        alone: bool = False,
    ) -> Inner:
        """Trace the function; ``alone`` as in :func:`minijit.graph.trace.trace_function`."""
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
