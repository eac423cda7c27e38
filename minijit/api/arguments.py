"""How a jitted function's arguments are sorted: dynamic leaves here, static values there."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

from minijit.backends.registry import adopt
from minijit.graph.tree import TreeDef, flatten, leaf_paths, unflatten
from minijit.runtime.signature import static_key, weak_static_key

__all__ = ["Arguments", "Binder"]


@dataclasses.dataclass(frozen=True, slots=True)
class Arguments:
    """One call's arguments, whichever way they were passed.

    Attributes:
        leaves: The dynamic leaves, in the order of the parameters.
        names: The dynamic parameters; ``f(*args)`` has ``args[0]``, ``args[1]``, ...
        treedef: The leaves' structure: a tuple with one entry for each name.
        statics: ``(name, key)`` of the static arguments, sorted by name.
        values: The static values themselves, by parameter name.
    """

    leaves: list[Any]
    names: tuple[str, ...]
    treedef: TreeDef
    statics: tuple[tuple[str, Hashable], ...]
    values: dict[str, Any]


class Binder:
    """Sorts arguments by the function's signature, so that position and keyword are alike."""

    def __init__(
        self,
        function: Callable[..., Any],
        static_argnums: int | Iterable[int] | None,
        static_argnames: str | Iterable[str] | None,
        *,
        method: bool = False,
    ) -> None:
        """Resolve which parameters are static.

        Args:
            function: The function.
            static_argnums: Positions of static arguments.
            static_argnames: Names of static arguments.
            method: Whether the first argument, a static one, is an instance that must not be kept
                alive for its programs.

        Raises:
            ValueError: a static argument does not exist.
            TypeError: ``static_argnums`` is no integer, or ``static_argnames`` no string.
        """
        self.signature = _signature(function)
        self.name = getattr(function, "__name__", type(function).__name__)
        parameters = self.signature.parameters
        names = _as_tuple(static_argnames, str, "static_argnames")
        numbers = _as_tuple(static_argnums, int, "static_argnums")
        positional = [p.name for p in parameters.values() if p.kind in _POSITIONAL]
        self._variadic = next(
            (p.name for p in parameters.values() if p.kind is p.VAR_POSITIONAL), None
        )
        self._keywords = next(
            (p.name for p in parameters.values() if p.kind is p.VAR_KEYWORD), None
        )
        chosen = set()
        self._static_rest: set[int] = set()
        for number in numbers:
            place = number + len(positional) if number < 0 else number
            if 0 <= place < len(positional):
                chosen.add(positional[place])
            elif place >= len(positional) and self._variadic is not None:
                self._static_rest.add(place - len(positional))
            else:
                raise ValueError(
                    f"static_argnums={number}: {self.name}() has {len(positional)} positional "
                    f"arguments"
                )
        for name in names:
            if name not in parameters and self._keywords is None:
                raise ValueError(f"static_argnames={name!r}: {self.name}() has no such argument")
            chosen.add(name)
        self.static_names = frozenset(chosen)
        self.statics = (self.static_names, frozenset(self._static_rest))
        self.has_statics = any(self.statics)
        self.options = (
            tuple(len(positional) + place for place in sorted(self._static_rest)),
            tuple(sorted(chosen)),
        )
        """``static_argnums`` and ``static_argnames`` that say the same."""
        self.static_places = frozenset(
            {place for place, name in enumerate(positional) if name in chosen}.union(
                len(positional) + place for place in self._static_rest
            )
        )
        """Positions at which a call has static arguments."""
        self.owner = (positional[0] if positional else f"{self._variadic}[0]") if method else None
        """The parameter that stands for a method's instance."""

    def key(self, label: str | int, value: Any) -> Hashable:
        """Return the key of a static argument, given by name or by position.

        Raises:
            TypeError: it cannot be hashed.
        """
        if self.owner is not None and label in (0, self.owner):
            return weak_static_key(self.owner, value)
        return static_key(str(label), value)

    def bind(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Arguments:
        """Sort the arguments of one call.

        Raises:
            TypeError: Python's own, for missing, extra or doubled arguments; and for a static
                argument that cannot be hashed.
        """
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self.name}(): {error}") from None
        # A default is not an argument: the function fills it in itself, while it is traced.
        dynamic: dict[str, Any] = {}
        values: dict[str, Any] = {}
        for name, value in bound.arguments.items():
            if name == self._variadic:
                for position, item in enumerate(value):
                    chosen = values if position in self._static_rest else dynamic
                    chosen[f"{name}[{position}]"] = item
            elif name == self._keywords:
                for key, item in sorted(value.items()):
                    # def f(x, /, **rest) can be called as f(1, x=2).
                    label = f"{name}[{key!r}]" if key in self.signature.parameters else key
                    (values if key in self.static_names else dynamic)[label] = item
            else:
                (values if name in self.static_names else dynamic)[name] = value
        statics = tuple((name, self.key(name, value)) for name, value in sorted(values.items()))
        leaves, treedef = flatten(tuple(dynamic.values()))
        return Arguments(list(map(adopt, leaves)), tuple(dynamic), treedef, statics, values)

    def call(
        self, function: Callable[..., Any], arguments: Arguments, leaves: Sequence[Any]
    ) -> Any:
        """Call ``function`` with other leaves in the place of the bound ones."""
        dynamic = unflatten(arguments.treedef, leaves)
        given = {**dict(zip(arguments.names, dynamic, strict=True)), **arguments.values}
        positional: list[Any] = []
        rest: dict[str, Any] = {}
        gap = False  # after a parameter left at its default, the others go by name
        for parameter in self.signature.parameters.values():
            name = parameter.name
            gap |= name not in given and parameter.kind in _POSITIONAL
            if parameter.kind is parameter.VAR_POSITIONAL:
                count = sum(key.startswith(f"{name}[") for key in given)
                positional += [given.pop(f"{name}[{position}]") for position in range(count)]
            elif parameter.kind is parameter.VAR_KEYWORD:
                for other in self.signature.parameters:
                    if (label := f"{name}[{other!r}]") in given:
                        rest[other] = given.pop(label)
            elif parameter.kind in _POSITIONAL and not gap:
                positional.append(given.pop(name))
        return function(*positional, **given, **rest)

    def paths(self, arguments: Arguments) -> tuple[str, ...]:
        """Return what the user calls each dynamic leaf."""
        return tuple(leaf_paths(arguments.treedef, arguments.names))


_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):  # builtins without a signature take what they are given
        return inspect.signature(lambda *args, **kwargs: None)


def _as_tuple(value: Any, kind: type, option: str) -> tuple[Any, ...]:
    if value is None:
        return ()
    items = tuple(value) if isinstance(value, Iterable) and not isinstance(value, str) else (value,)
    for item in items:
        if not isinstance(item, kind) or isinstance(item, bool):
            raise TypeError(f"{option} takes {kind.__name__} values, not {item!r}")
    return items
