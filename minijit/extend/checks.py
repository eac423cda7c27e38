"""The single checks of the test kit; each returns what it tried, or raises ``AssertionError``."""

from __future__ import annotations

import dataclasses
import functools
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijit.api.caches import clear_caches
from minijit.api.jit import jit
from minijit.extend.reference import DECLARED, Reference
from minijit.extend.samples import (
    Signature,
    assert_same,
    refuse_where,
    result_dtype,
    samples,
    signatures,
)
from minijit.graph.aval import ShapedArray
from minijit.graph.check import check_jaxpr
from minijit.graph.config import config
from minijit.graph.evaluate import evaluate
from minijit.graph.events import count
from minijit.graph.primitive import Primitive
from minijit.graph.trace import bind, trace_function

__all__ = [
    "ELEMENTWISE",
    "ELEMENTWISE_ON",
    "LIBRARY",
    "LIBRARY_ON",
    "Subject",
    "assert_types",
    "assert_values",
    "draw_operands",
    "host",
    "one_kernel",
    "round_trip",
]

_ROUNDINGS = 64
"""How many roundings of its own a result may be off where the reference rounds elsewhere."""
_IN_DOUBLE = (
    f"{DECLARED} computes in double precision, where less overflows: if that is all, compare with "
    "NumPy's code for these dtypes, like=lambda x: ..."
)
_REFERENCED = 400
"""How many elements are computed by Python."""


@dataclasses.dataclass(frozen=True, slots=True)
class Subject:
    """What is checked.

    Attributes:
        operation: What users call.
        primitive: What programs hold.
        dtypes: Of the operands to try.
        ulp: How many representable numbers results may be off; None: within a few roundings.
        reference: What it is compared with.
        operands: To try it on, where they cannot be made up.
        params: Its static parameters.
    """

    operation: Any
    primitive: Primitive
    dtypes: tuple[np.dtype[Any], ...]
    ulp: int | None
    reference: Reference
    operands: tuple[Any, ...] = ()
    params: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def signatures(self) -> list[Signature]:
        """The operand dtypes of an elementwise operation."""
        found = signatures(self.primitive, self.dtypes)
        if not found:
            raise AssertionError(f"it computes with none of {[d.name for d in self.dtypes]}")
        return found

    @property
    def like(self) -> Callable[..., Any]:
        """``(*arrays, **params)``: what it is compared with."""
        return self.reference.compute

    def compare(self, got: Any, want: Any, operands: Sequence[Any]) -> None:
        """Assert that a result is the wanted one, as nearly as was asked for."""
        known = ~np.ma.getmaskarray(want)
        want = np.asarray(np.ma.getdata(want))
        got = np.asarray(got)
        if (got.dtype, got.shape) != (want.dtype, want.shape):
            raise AssertionError(f"{got.dtype}{got.shape} instead of {want.dtype}{want.shape}")
        if self.ulp is not None or want.dtype.kind != "f":
            where = known.ravel()
            flat = [np.broadcast_to(x, want.shape).ravel()[where] for x in operands]
            assert_same(got.ravel()[where], want.ravel()[where], flat, self.ulp or 0)
            return
        eps = float(np.finfo(want.dtype).eps)
        sizes = (np.abs(np.asarray(x, np.float64)) for x in (want, *operands))
        size = functools.reduce(np.maximum, sizes)
        size = np.where(np.isfinite(size), size, 0)
        wide, wanted = got.astype(np.float64), want.astype(np.float64)
        near = np.abs(wide - wanted) <= _ROUNDINGS * eps * np.maximum(size, np.abs(wanted))
        near |= (wide == wanted) | (np.isnan(wide) & np.isnan(wanted))
        near |= ~np.isfinite(wanted) | ~np.isfinite(wide) & (np.abs(wanted) > _largest(want.dtype))
        refuse_where(known & ~near, got, want, [np.broadcast_to(x, want.shape) for x in operands])


def _largest(dtype: np.dtype[Any]) -> float:
    return float(np.finfo(dtype).max) / 16


def assert_types(primitive: Primitive, operands: Sequence[Any], **params: Any) -> None:
    """Assert that the program of one equation has the type of what it computes."""
    avals = [ShapedArray(x.shape, x.dtype) for x in operands]
    jaxpr = trace_function(
        lambda xs: [bind(primitive, *xs, **params)], avals, [""] * len(avals), "f", alone=True
    ).jaxpr
    check_jaxpr(jaxpr)
    with np.errstate(all="ignore"):
        (got,) = evaluate(jaxpr, operands)
    got = np.asarray(got)
    if jaxpr.out_avals[0] != ShapedArray(got.shape, got.dtype):
        raise AssertionError(
            f"abstract_eval says {jaxpr.out_avals[0]} and the result is "
            f"{ShapedArray(got.shape, got.dtype)}"
        )


def assert_values(
    primitive: Primitive,
    chosen: Sequence[Signature],
    like: Callable[..., Any],
    compare: Callable[[Any, Any, Sequence[Any]], None],
    most: int | None = None,
) -> None:
    """Assert the values of one program that computes all dtypes; equal lengths make it one kernel.

    Args:
        primitive: An elementwise one.
        chosen: The operand dtypes.
        like: The reference.
        compare: Raises where a result is not the wanted one.
        most: How many elements to take; default: all samples.
    """
    operands = [samples(primitive, signature) for signature in chosen]
    length = max(len(columns[0]) for columns in operands)
    operands = [[np.resize(column, length) for column in columns] for columns in operands]
    if most is not None and length > most:
        kept = np.random.default_rng(0).choice(length, most, replace=False)
        operands = [[column[kept] for column in columns] for columns in operands]

    def apply(groups: list[list[Any]]) -> list[Any]:
        return [bind(primitive, *columns) for columns in groups]

    got = jit(apply)(operands)
    for signature, columns, result in zip(chosen, operands, got, strict=True):
        want = like(*columns)
        if np.ma.getdata(want).dtype != result_dtype(primitive, signature):
            raise AssertionError(f"the rule gives another dtype than {want.dtype}")
        compare(host(result), want, columns)


def host(array: Any) -> Any:
    """Return an array as one of NumPy's."""
    return array.get() if hasattr(array, "get") else np.asarray(array)


def _types(subject: Subject) -> str:
    for signature in subject.signatures:
        assert_types(subject.primitive, [x[:20] for x in samples(subject.primitive, signature, 20)])
    return ", ".join(dict.fromkeys("·".join(d.name for d in s) for s in subject.signatures))


def _values(subject: Subject) -> str:
    most = _REFERENCED if subject.primitive.derived else None
    chosen = subject.signatures
    try:
        assert_values(subject.primitive, chosen, subject.like, subject.compare, most)
    except AssertionError as error:
        if subject.reference.what != DECLARED:
            raise
        raise AssertionError(f"{error}\n{_IN_DOUBLE}") from None
    return f"{len(chosen)} signatures against {subject.reference.what}"


def draw_operands(subject: Subject, shapes: Sequence[tuple[int, ...]]) -> list[Any]:
    """Return arrays of the first float signature, or the first one, in the operation's domain."""
    floats = [s for s in subject.signatures if s[-1].kind == "f" and s[-1].itemsize >= 4]
    signature = (floats or subject.signatures)[0]
    domains = subject.primitive.samples or ((-4.0, 4.0),) * len(signature)
    rng = np.random.default_rng(7)
    arrays = []
    for dtype, (low, high), shape in zip(signature, domains, shapes, strict=True):
        drawn = rng.uniform(max(low, 0) if dtype.kind == "u" else low, high, shape)
        arrays.append(np.asarray(drawn).astype(dtype))
    return arrays


def _count(subject: Subject) -> int:
    return len(subject.signatures[0])


def _broadcasting(subject: Subject) -> str:
    kinds: list[tuple[int, ...]] = [(3, 1), (1, 4), (), (4,)]
    shapes = [kinds[n % len(kinds)] for n in range(_count(subject))]
    arrays = draw_operands(subject, shapes)
    got = host(jit(lambda *xs: subject.operation(*xs))(*arrays))
    whole = np.broadcast_arrays(*arrays)
    subject.compare(got, subject.like(*(x.copy() for x in whole)), whole)
    return " with ".join(map(str, shapes))


def _strides(subject: Subject) -> str:
    arrays = [x[::-2, ::3] for x in draw_operands(subject, [(6, 9)] * _count(subject))]
    got = host(jit(lambda *xs: subject.operation(*xs))(*arrays))
    subject.compare(got, subject.like(*(x.copy() for x in arrays)), arrays)
    empty = [x[:, :0] for x in arrays]
    got = host(jit(lambda *xs: subject.operation(*xs))(*empty))
    if got.shape != empty[0].shape:
        raise AssertionError(f"of arrays of shape {empty[0].shape} it makes {got.shape}")
    return "stepped, reversed, empty"


def _fusion(subject: Subject) -> str:
    arrays = draw_operands(subject, [(4, 33)] * _count(subject))

    def around(*xs: Any) -> Any:
        doubled = [x + x for x in xs]
        return subject.operation(*doubled).max(-1)

    compiled = jit(around).lower(*arrays).compile()
    one_kernel(len(compiled.kernels()))
    return "between a sum and a maximum: 1 kernel"


def one_kernel(kernels: int) -> None:
    """Assert that there is one kernel."""
    if kernels != 1:
        raise AssertionError(f"{kernels} kernels instead of 1")


def _disk(subject: Subject) -> str:
    arrays = draw_operands(subject, [(300,)] * _count(subject))
    return round_trip(lambda *xs: subject.operation(*xs), arrays)


def round_trip(function: Callable[..., Any], arrays: Sequence[Any]) -> str:
    """Compile with an empty folder, forget all, and find the code there again."""
    with (
        tempfile.TemporaryDirectory() as folder,
        config.override(compilation_cache="rw", compilation_cache_dir=folder),
    ):
        results, compiles = [], []
        for _ in range(2):
            clear_caches()
            with count() as events:
                results.append(_leaves(jit(function)(*arrays)))
            compiles.append(events["compile"])
            if events["not_kept"]:
                raise AssertionError(
                    "its code reads an object that has no text form, so it is compiled in every "
                    "process: let it read numbers and functions only"
                )
        clear_caches()
    if compiles[1]:
        raise AssertionError(f"compiled again in spite of the disk ({compiles[1]} kernels)")
    if [r.tobytes() for r in results[0]] != [r.tobytes() for r in results[1]]:
        raise AssertionError("other bits from the disk")
    return "found again, the same bits"


def _leaves(result: Any) -> list[Any]:
    return [host(each) for each in (result if isinstance(result, tuple | list) else (result,))]


ELEMENTWISE = {"types": _types}
ELEMENTWISE_ON = {
    "values": _values,
    "broadcasting": _broadcasting,
    "strides": _strides,
    "fusion": _fusion,
    "disk": _disk,
}


def _called(subject: Subject) -> str:
    if not subject.operands:
        raise AssertionError("operands to try it on are needed: check_primitive(operation, x, ...)")
    avals = [ShapedArray(tuple(x.shape), x.dtype) for x in subject.operands]
    said = subject.primitive.abstract_eval(*avals, **subject.params)
    results = subject.like(*subject.operands, **subject.params)
    several = subject.primitive.multiple_results
    for aval, result in zip(
        said if several else (said,), results if several else (results,), strict=True
    ):
        found = ShapedArray(tuple(result.shape), np.dtype(result.dtype))
        if found != aval:
            raise AssertionError(f"abstract_eval says {aval} and the result is {found}")
    return ", ".join(map(str, avals))


def _between_kernels(subject: Subject) -> str:
    arrays = subject.operands

    def around(*xs: Any) -> Any:
        results = bind(subject.primitive, *(x + x for x in xs), **subject.params)
        several = subject.primitive.multiple_results
        return [result + result for result in (results if several else (results,))]

    f = jit(around)
    got = f(*arrays)
    wanted = subject.like(*(x + x for x in arrays), **subject.params)
    several = subject.primitive.multiple_results
    for result, want in zip(got, wanted if several else (wanted,), strict=True):
        subject.compare(host(result), np.ma.asarray(want + want), [np.ones(())])
    stats = f.stats()
    return f"{stats['kernels']} kernels around {stats['eager_steps']} call"


LIBRARY = {"types": _called}
LIBRARY_ON = {"between kernels": _between_kernels}
