"""The check of the test kit that compares ``vmap`` of an operation with a loop over elements."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijit.api.vectorize import vmap
from minijit.extend.checks import Subject, draw_operands, host
from minijit.extend.checks_of_reductions import apply_along, draw_array, promoted
from minijit.graph.primitive import Derived, Kind, Unsupported
from minijit.graph.trace import bind

__all__ = ["check_batches"]

_SIZE = 3
_Function = Callable[..., Sequence[Any]]


def check_batches(subject: Subject) -> str:
    """Map over each choice of operands, along first and last axes, and compare with a loop."""
    rule = subject.primitive.batch
    if isinstance(rule, Unsupported):
        return f"unsupported: {rule.why}"
    elements = _elements(subject)
    function, like, sizes = _functions(subject)
    places = [dict.fromkeys((None, 0, each[0].ndim)) for each in elements]
    choices = [axes for axes in itertools.product(*places) if set(axes) != {None}]
    for axes in choices:
        chosen = list(zip(elements, axes, strict=True))
        batches = [each[0] if axis is None else np.stack(each, axis) for each, axis in chosen]
        got = [host(result) for result in vmap(function, in_axes=axes)(*batches)]
        for n in range(_SIZE):
            own = [each[0 if axis is None else n] for each, axis in chosen]
            for result, want in zip(got, like(*own), strict=True):
                subject.compare(result[n], np.ma.asarray(want), sizes(*own))
    how = rule.value if isinstance(rule, Derived) else "by its own rule"
    return f"{len(choices)} choices of operands and axes against a loop; {how}"


def _elements(subject: Subject) -> list[list[Any]]:
    """Return some operands for each place."""
    match subject.primitive.kind:
        case Kind.ELEMENTWISE:
            count = len(subject.signatures[0])
            return [list(x) for x in draw_operands(subject, [(_SIZE, 4)] * count)]
        case Kind.REDUCTION:
            return [list(draw_array(subject, (_SIZE, 5, 33)))]
    if not subject.operands:
        raise AssertionError("operands to try it on are needed: check_primitive(operation, x, ...)")
    return [[x, np.roll(x, -1), np.flip(x)] for x in map(host, subject.operands)]


def _functions(subject: Subject) -> tuple[_Function, _Function, _Function]:
    """Return the operation, its reference, and the sizes of numbers on which rounding depends."""
    match subject.primitive.kind:
        case Kind.ELEMENTWISE:
            return (
                lambda *xs: [subject.operation(*xs)],
                lambda *xs: [subject.like(*xs)],
                lambda *xs: xs,
            )
        case Kind.REDUCTION:
            return (
                lambda x: [apply_along(subject, x, 1)],
                lambda x: [subject.like(promoted(subject, x), axes=(1,))],
                lambda x: [np.abs(x.astype(np.float64)).max(axis=1)],
            )

    def several(results: Any) -> Sequence[Any]:
        return results if subject.primitive.multiple_results else (results,)

    return (
        lambda *xs: several(bind(subject.primitive, *xs, **subject.params)),
        lambda *xs: several(subject.like(*xs, **subject.params)),
        lambda *xs: [np.ones(())],
    )
