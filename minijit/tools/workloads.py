"""The functions that demo and bench run: plain array code over a namespace `xp`, with its inputs.

`xp` is NumPy, CuPy or `jax.numpy`; what minijit traces is the NumPy or CuPy form, unchanged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Array = Any
HostArray = npt.NDArray[Any]
Kind = Literal["elementwise", "row", "full", "column", "library", "small"]


@dataclass(frozen=True, slots=True)
class Workload:
    """One function and what it is run on.

    Attributes:
        name: Unique, with the size in it.
        kind: What dominates it; the summary is made by kind.
        function: `function(xp, *inputs)` returns an array or a tuple of arrays.
        inputs: Makes the inputs from a random generator.
        tolerance: Largest difference from float64 NumPy, relative to the largest value.
    """

    name: str
    kind: Kind
    function: Callable[..., Any]
    inputs: Callable[[np.random.Generator], tuple[HostArray, ...]]
    tolerance: float = 1e-5

    def make_inputs(self) -> tuple[HostArray, ...]:
        """Return the inputs; the same ones every time."""
        return self.inputs(np.random.default_rng(0))

    def reference(self, inputs: tuple[HostArray, ...]) -> tuple[HostArray, ...]:
        """Return what NumPy computes, of floats in float64."""
        wide = (x.astype(np.float64) if x.dtype.kind == "f" else x for x in inputs)
        return as_tuple(self.function(np, *wide))


def as_tuple(outputs: Any) -> tuple[Any, ...]:
    """Return one output or several as a tuple."""
    return tuple(outputs) if isinstance(outputs, tuple | list) else (outputs,)


def largest_error(outputs: Sequence[HostArray], reference: Sequence[HostArray]) -> float:
    """Return the largest difference relative to the largest reference value of that output.

    A wrong shape gives infinity, a NaN gives NaN: neither is within any tolerance.
    """
    worst = [0.0]
    for got, want in zip(outputs, reference, strict=True):
        if np.shape(got) != np.shape(want):
            return math.inf
        difference = np.abs(np.asarray(got, dtype=np.float64) - want)
        scale = max(float(np.max(np.abs(want), initial=0.0)), 1e-30)
        worst.append(float(np.max(difference, initial=0.0)) / scale)
    return float(np.max(worst))


def gelu(xp: Any, x: Array) -> Array:
    """GELU in its tanh form (Hendrycks and Gimpel, 2016)."""
    return 0.5 * x * (1.0 + xp.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def saxpy_chain(xp: Any, a: Array, x: Array, y: Array) -> Array:
    """`a*x + y` and a short chain after it: bound by memory, one operation per number moved."""
    z = a * x + y
    return xp.maximum(z * z - x, 0.0) + xp.abs(y) * 0.5


def black_scholes(xp: Any, spot: Array, strike: Array, years: Array) -> Array:
    """Price of a European call; the normal distribution function in its tanh approximation."""
    rate, volatility = 0.02, 0.3
    spread = volatility * xp.sqrt(years)
    d1 = (xp.log(spot / strike) + (rate + 0.5 * volatility * volatility) * years) / spread
    return spot * _normal_cdf(xp, d1) - strike * xp.exp(-rate * years) * _normal_cdf(
        xp, d1 - spread
    )


def _normal_cdf(xp: Any, z: Array) -> Array:
    return 0.5 * (1.0 + xp.tanh(0.7978845608 * (z + 0.044715 * z * z * z)))


def adam(xp: Any, p: Array, g: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
    """One Adam step (Kingma and Ba, 2015) without bias correction: parameters, both moments."""
    m = 0.9 * m + 0.1 * g
    v = 0.999 * v + 0.001 * g * g
    return p - 1e-3 * m / (xp.sqrt(v) + 1e-8), m, v


def softmax(xp: Any, x: Array) -> Array:
    """Softmax over rows, shifted by the row's maximum."""
    e = xp.exp(x - xp.max(x, axis=-1, keepdims=True))
    return e / xp.sum(e, axis=-1, keepdims=True)


def layernorm(xp: Any, x: Array, gain: Array, bias: Array) -> Array:
    """Layer normalisation over rows (Ba, Kiros and Hinton, 2016)."""
    mean = xp.mean(x, axis=-1, keepdims=True)
    variance = xp.mean((x - mean) * (x - mean), axis=-1, keepdims=True)
    return (x - mean) / xp.sqrt(variance + 1e-5) * gain + bias


def rmsnorm(xp: Any, x: Array, gain: Array) -> Array:
    """Root-mean-square normalisation over rows (Zhang and Sennrich, 2019)."""
    return x / xp.sqrt(xp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * gain


def logsumexp(xp: Any, x: Array) -> Array:
    """Logarithm of the sum of exponentials of each row."""
    top = xp.max(x, axis=-1)
    return top + xp.log(xp.sum(xp.exp(x - top[:, None]), axis=-1))


def sum_of_squares(xp: Any, x: Array) -> Array:
    """Sum of squares of everything."""
    return xp.sum(x * x)


def column_statistics(xp: Any, x: Array) -> tuple[Array, Array]:
    """Mean and variance of each column."""
    mean = xp.mean(x, axis=0)
    return mean, xp.mean((x - mean) * (x - mean), axis=0)


def dense_tanh_mean(xp: Any, x: Array, w: Array, b: Array) -> Array:
    """A dense layer, and the mean of its squared activation: matmul, then one kernel."""
    h = xp.tanh(xp.matmul(x, w) + b)
    return xp.mean(h * h, axis=-1)


def dense_gelu(xp: Any, x: Array, w: Array, b: Array) -> Array:
    """A dense layer: matmul, then bias and activation in one kernel."""
    return gelu(xp, xp.matmul(x, w) + b)


def column_sum(xp: Any, x: Array) -> Array:
    """Sum of each column."""
    return xp.sum(x, axis=0)


def column_max(xp: Any, x: Array) -> Array:
    """Largest of each column."""
    return xp.max(x, axis=0)


def largest(xp: Any, x: Array) -> Array:
    """Largest of everything."""
    return xp.max(x)


def total(xp: Any, x: Array) -> Array:
    """Sum of everything."""
    return xp.sum(x)


def pairwise_distances(xp: Any, a: Array, b: Array) -> Array:
    """Euclidean distance of each row of `a` to each row of `b`."""
    d = a[:, None, :] - b[None, :, :]
    return xp.sqrt(xp.sum(d * d, axis=-1))


def scale_and_shift(xp: Any, x: Array) -> Array:
    """`2*x + 1`: on a few numbers, only the cost of the call is left."""
    return xp.add(x * 2.0, 1.0)


def swiglu(xp: Any, x: Array, y: Array) -> Array:
    """SwiGLU (Shazeer, 2020): a sigmoid-weighted unit times a gate."""
    return x / (1.0 + xp.exp(-x)) * y


def logistic_loss(xp: Any, x: Array, y: Array) -> Array:
    """Mean of the logistic loss, in the form that does not overflow."""
    return xp.mean(xp.log1p(xp.exp(-xp.abs(x))) + xp.maximum(x, 0.0) - x * y)


def integer_chain(xp: Any, x: Array, y: Array) -> Array:
    """Arithmetic and a choice on integers."""
    return xp.where(x > y, 3 * x - y, xp.minimum(x, 7) + xp.abs(y))


def add_transpose(xp: Any, x: Array) -> Array:
    """`x + x.T`: one of the two is read across its rows."""
    return x + xp.transpose(x)


def differences(xp: Any, x: Array) -> Array:
    """Differences of neighbours: two views of one array, one of them unaligned."""
    return (x[1:] - x[:-1]) * 0.5


def standardise(xp: Any, x: Array) -> Array:
    """Each column with mean zero and deviation one."""
    mean = xp.mean(x, axis=0)
    deviation = xp.sqrt(xp.mean((x - mean) * (x - mean), axis=0))
    return (x - mean) / (deviation + 1e-6)


def middle_statistics(xp: Any, x: Array) -> Array:
    """Normalised along the middle axis."""
    mean = xp.mean(x, axis=1, keepdims=True)
    return (x - mean) / xp.sqrt(xp.mean((x - mean) * (x - mean), axis=1, keepdims=True) + 1e-5)


def rotary(xp: Any, x: Array, cosine: Array, sine: Array) -> Array:
    """Rotary position embedding (Su et al., 2021): the halves of each row turned in pairs."""
    half = x.shape[-1] // 2
    turned = xp.concatenate([-x[..., half:], x[..., :half]], axis=-1)
    return x * cosine + turned * sine


def polar(xp: Any, radius: Array, angle: Array) -> tuple[Array, Array]:
    """Cartesian coordinates of polar ones."""
    return radius * xp.cos(angle), radius * xp.sin(angle)


def power_law(xp: Any, x: Array) -> Array:
    """A power that is no whole number."""
    return 0.7 * x**2.4 + 0.1


def embedding(xp: Any, table: Array, words: Array, weight: Array) -> Array:
    """The vectors of words from a table, each divided by its root mean square."""
    rows = table[words]
    return rows / xp.sqrt(xp.mean(rows * rows, axis=-1, keepdims=True) + 1e-6) * weight


def label_loss(xp: Any, scores: Array, labels: Array) -> Array:
    """Cross-entropy of a softmax over scores, of the label of each row."""
    shifted = scores - xp.max(scores, axis=-1, keepdims=True)
    logarithms = shifted - xp.log(xp.sum(xp.exp(shifted), axis=-1, keepdims=True))
    return -xp.take_along_axis(logarithms, labels[:, None], axis=-1)[:, 0]


def where_largest(xp: Any, x: Array) -> Array:
    """The place of the largest of each row."""
    return xp.argmax(x, axis=-1)


def normal(
    *shapes: tuple[int, ...], dtype: Any = np.float32
) -> Callable[[np.random.Generator], tuple[HostArray, ...]]:
    """Return what makes an array of normally distributed numbers for each shape."""
    return lambda rng: tuple(
        np.asarray(rng.standard_normal(shape, dtype=np.float32), dtype) for shape in shapes
    )


def whole(*shapes: tuple[int, ...]) -> Callable[[np.random.Generator], tuple[HostArray, ...]]:
    """Return what makes an array of int32 numbers from -100 to 99 for each shape."""
    return lambda rng: tuple(rng.integers(-100, 100, shape, dtype=np.int32) for shape in shapes)


def positive(*shapes: tuple[int, ...]) -> Callable[[np.random.Generator], tuple[HostArray, ...]]:
    """Return what makes an array of numbers from 0.5 to 1.5 for each shape."""
    return lambda rng: tuple(
        rng.random(shape, dtype=np.float32) + np.float32(0.5) for shape in shapes
    )


def taken(
    table: tuple[int, ...], count: int, *others: tuple[int, ...], axis: int = 0
) -> Callable[[np.random.Generator], tuple[HostArray, ...]]:
    """Return what makes a table, so many int32 positions along one of its axes, and more arrays."""

    def make(rng: np.random.Generator) -> tuple[HostArray, ...]:
        positions = rng.integers(0, table[axis], count, dtype=np.int32)
        return (*normal(table)(rng), positions, *normal(*others)(rng))

    return make


def _adam_inputs(rng: np.random.Generator) -> tuple[HostArray, ...]:
    return (*normal(*[(1 << 20,)] * 3)(rng), *positive((1 << 20,))(rng))


def _dense_inputs(rng: np.random.Generator) -> tuple[HostArray, ...]:
    x, w, b = normal((1024, 256), (256, 512), (512,))(rng)
    return x, w * np.float32(0.05), b


WORKLOADS = (
    Workload("gelu 4M", "elementwise", gelu, normal((1 << 22,))),
    Workload("saxpy chain 4M", "elementwise", saxpy_chain, normal((), (1 << 22,), (1 << 22,))),
    Workload("black-scholes 1M", "elementwise", black_scholes, positive(*[(1 << 20,)] * 3)),
    Workload("adam 1M", "elementwise", adam, _adam_inputs),
    Workload("softmax 4096x1024", "row", softmax, normal((4096, 1024))),
    Workload("softmax 64x65536", "row", softmax, normal((64, 65536))),
    Workload("layernorm 4096x1024", "row", layernorm, normal((4096, 1024), (1024,), (1024,))),
    Workload("rmsnorm 4096x1024", "row", rmsnorm, normal((4096, 1024), (1024,))),
    Workload("logsumexp 4096x1024", "row", logsumexp, normal((4096, 1024))),
    Workload("sum of squares 4M", "full", sum_of_squares, normal((1 << 22,))),
    Workload("column mean/var 8192x512", "column", column_statistics, normal((8192, 512))),
    Workload("dense tanh mean 1024x512", "library", dense_tanh_mean, _dense_inputs),
    Workload("pairwise 512x512x32", "row", pairwise_distances, normal((512, 32), (512, 32))),
    Workload("scale and shift 8", "small", scale_and_shift, normal((8,))),
    Workload("softmax 4x8", "small", softmax, normal((4, 8))),
)

_ROWS: tuple[tuple[str, Callable[..., Any], int], ...] = (
    ("softmax", softmax, 0), ("layernorm", layernorm, 2), ("rmsnorm", rmsnorm, 1),
)  # fmt: skip


def row_sweep(elements: int, lengths: Sequence[int]) -> tuple[Workload, ...]:
    """Return softmax and the norms over rows of every length, about so many elements in all."""
    return tuple(
        Workload(
            f"{name} {elements // n}x{n}",
            "row",
            function,
            normal((elements // n, n), *[(n,)] * vectors),
        )
        for name, function, vectors in _ROWS
        for n in lengths
    )


ROW_SWEEP = row_sweep(1 << 24, (128, 512, 2048, 8192, 65536))
"""Rows of every length over an array that is too large for a cache."""


def find(name: str) -> Workload:
    """Return the workload of that name; `KeyError` names the ones there are."""
    for workload in (*WORKLOADS, *ROW_SWEEP):
        if workload.name == name:
            return workload
    raise KeyError(f"no workload {name!r}; there are {', '.join(w.name for w in WORKLOADS)}")
