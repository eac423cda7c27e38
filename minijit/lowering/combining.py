"""Lines of reductions whose monoid says itself what it accumulates: both targets write the same.

An element becomes a tuple of components, tuples are combined, the last one becomes the result::

    v3_e0, v3_e1 = element_f(v0)
    v3_c0, v3_c1 = combine_f(a, b, returned_float32(v3_e0), returned_float32(v3_e1))
    a, b = returned_float32(v3_c0), returned_float32(v3_c1)
    v3 = returned_float32(finish_f(a, b))
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from minijit.lowering.kernel_ir import Reduce
from minijit.lowering.source import Emitter, held_dtype

__all__ = ["combine", "elements", "finished", "leaders"]


def leaders(reduces: Sequence[Reduce]) -> dict[Reduce, Reduce]:
    """Return, for each reduction that accumulates what an earlier one does, that one."""
    first: dict[Hashable, Reduce] = {}
    found: dict[Reduce, Reduce] = {}
    for reduce in reduces:
        if reduce.monoid.components is not None:
            key = (reduce.monoid.core, reduce.args, reduce.accumulators, reduce.dtype)
            leader = first.setdefault(key, reduce)
            if leader is not reduce:
                found[reduce] = leader
    return found


def elements(emitter: Emitter, reduce: Reduce) -> list[str]:
    """Write what a cell contributes and return code of its components."""
    values = [emitter.operand(arg) for arg in reduce.args]
    make = reduce.monoid.element
    if make is None:
        kinds = [arg.dtype for arg in reduce.args]
        return [
            emitter.cast(value, kind, dtype)
            for value, kind, dtype in zip(values, kinds, reduce.accumulators, strict=True)
        ]
    given = tuple(held_dtype(arg.dtype) for arg in reduce.args)
    function = _function(emitter, reduce, "element", make, given, reduce.accumulators)
    names = [f"{reduce.out.name}_e{n}" for n in range(len(reduce.accumulators))]
    emitter.writer.line(f"{', '.join(names)} = {function}({', '.join(values)})", reduce.line)
    return _returned(emitter, names, reduce.accumulators)


def combine(
    emitter: Emitter, reduce: Reduce, totals: Sequence[str], values: Sequence[str]
) -> list[str]:
    """Write the combination of totals with other components; return code of the new totals."""
    dtypes = reduce.accumulators
    make = reduce.monoid.combine
    function = _function(emitter, reduce, "combine", make, (*dtypes, *dtypes), dtypes)
    names = [f"{reduce.out.name}_c{n}" for n in range(len(dtypes))]
    code = f"{function}({', '.join((*totals, *values))})"
    emitter.writer.line(f"{', '.join(names)} = {code}", reduce.line)
    return _returned(emitter, names, dtypes)


def finished(emitter: Emitter, reduce: Reduce, totals: Sequence[str]) -> str:
    """Return code of the result, as its dtype is held."""
    make, out = reduce.monoid.finish, held_dtype(reduce.out.dtype)
    if make is None:
        place = reduce.monoid.result
        code, dtype = totals[place], reduce.accumulators[place]
    else:
        function = _function(emitter, reduce, "finish", make, reduce.accumulators, (out,))
        code, dtype = emitter.returned(f"{function}({', '.join(totals)})", out), out
    return emitter.cast(code, dtype, reduce.out.dtype)


def _function(
    emitter: Emitter,
    reduce: Reduce,
    what: str,
    make: Callable[..., Any],
    given: tuple[np.dtype[Any], ...],
    results: tuple[np.dtype[Any], ...],
) -> str:
    name = f"{what}_{reduce.monoid.name}_{reduce.made_for.name}"
    if what == "finish":  # several may be made of what is accumulated once
        name = f"{name}_{reduce.out.name}"
    return emitter.name(name, emitter.scalar_function(make, reduce.made_for, given, results))


def _returned(emitter: Emitter, names: Sequence[str], dtypes: Sequence[np.dtype[Any]]) -> list[str]:
    return [emitter.returned(name, dtype) for name, dtype in zip(names, dtypes, strict=True)]
