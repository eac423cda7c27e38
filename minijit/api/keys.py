"""The raw key of a call: what is looked up first, made without binding or tracing anything."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from minijit.api.arguments import Binder
from minijit.backends.array import ARRAY_PLACES
from minijit.graph.config import config
from minijit.graph.tree import TreeDef, flatten

__all__ = ["RawCall", "raw_call", "raw_key"]

_SCALARS = frozenset({float, bool, *np.sctypeDict.values()})
_BOUND = 2**63
_view = config.view
_place_of = ARRAY_PLACES.get


def raw_key(leaves: Sequence[Any], parts: tuple[Hashable, ...] = ()) -> Hashable | None:
    """Return a key made of the leaves' types and ``parts``; None when one is no plain leaf."""
    # A tuple from the start: there are few leaves, and a list would have to become one.
    key: tuple[Any, ...] = (_view().version, parts)
    for leaf in leaves:
        kind = type(leaf)
        place = _place_of(kind)
        if place is not None:
            key += (place, leaf.shape, leaf.strides, leaf.dtype)
        elif kind in _SCALARS or (kind is int and -_BOUND <= leaf < _BOUND):
            key += (kind,)
        else:
            return None
    return key


@dataclasses.dataclass(slots=True)
class RawCall:
    """The arguments of a call as they were passed, statics set apart.

    Attributes:
        version: Of the options that it was made under.
        key: Stands for everything but the values of the leaves.
        leaves: The dynamic leaves: by position first, then by keyword, in the order of the call.
        treedef: Structure of the tuple of their arguments; None when each is a leaf.
    """

    version: int
    key: Hashable
    leaves: Sequence[Any]
    treedef: TreeDef | None

    def ordered(
        self,
        run: Callable[[Sequence[Any]], Any],
        binder: Binder,
        args: Sequence[Any],
        kwargs: dict[str, Any],
    ) -> Callable[[Sequence[Any]], Any]:
        """Return ``run``, which takes leaves in the order of the parameters, for these leaves."""
        # Bind the leaves' numbers in the place of the leaves, and see where they come out.
        numbers = list(range(len(self.leaves)))
        rest = iter(numbers)
        groups: list[Any] = numbers
        if self.treedef is not None:
            groups = [
                [next(rest) for _ in range(child.num_leaves)] for child in self.treedef.children()
            ]
        dynamic = iter(groups)
        places, names = binder.static_places, binder.static_names
        by_place = [a if i in places else next(dynamic) for i, a in enumerate(args)]
        by_name = {n: a if n in names else next(dynamic) for n, a in kwargs.items()}
        order = binder.bind(by_place, by_name).leaves
        if order == numbers:
            return run
        pick = itemgetter(*order)
        return lambda leaves: run(pick(leaves))


def raw_call(binder: Binder, args: Sequence[Any], kwargs: dict[str, Any]) -> RawCall | None:
    """Return the raw form of a call; None when it has none and must be bound.

    That is so when a leaf is no plain array or scalar, or a static argument cannot be hashed.
    """
    version = _view().version
    names, values = tuple(kwargs), (*args, *kwargs.values())
    statics: tuple[Hashable, ...] = ()
    if binder.has_statics:
        try:
            names, values, statics = _split(binder, args, kwargs)
        except TypeError:
            return None
    key = raw_key(values, (names, statics))
    if key is not None:
        return RawCall(version, key, values, None)
    leaves, treedef = flatten(values)
    key = raw_key(leaves, (names, statics, treedef))
    return None if key is None else RawCall(version, key, leaves, treedef)


def _split(
    binder: Binder, args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[tuple[str, ...], tuple[Any, ...], tuple[Hashable, ...]]:
    """Return the dynamic keywords, the dynamic arguments, and keys of the static arguments."""
    places, static_names = binder.static_places, binder.static_names
    names: list[str] = []
    values: list[Any] = []
    statics: list[Hashable] = []
    for place, value in enumerate(args):
        if place in places:
            statics.append((place, binder.key(place, value)))
        else:
            values.append(value)
    for name, value in kwargs.items():
        if name in static_names:
            statics.append((name, binder.key(name, value)))
        else:
            names.append(name)
            values.append(value)
    return tuple(names), tuple(values), tuple(statics)
