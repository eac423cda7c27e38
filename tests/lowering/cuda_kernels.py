"""The kernels whose CUDA code is looked at: float32 chains and rows as users write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minijit.lowering.kernel_ir import Kernel, Value
from tests.lowering.kernel_builder import Builder, constant

F32 = np.float32
LARGE = 1 << 22


def gelu(size: int = LARGE) -> Kernel:
    """0.5 x (1 + tanh(0.798 (x + 0.0447 x^3)))."""
    build = Builder((size,))
    x = build.load([1])
    cube = build.map("mul", build.map("mul", x, x), x)
    inner = build.map("add", x, build.map("mul", constant(0.044715), cube))
    tanh = build.map("tanh", build.map("mul", constant(0.7978845608), inner))
    half = build.map("mul", constant(0.5), x)
    build.store(build.map("mul", half, build.map("add", constant(1.0), tanh)), [1])
    return build.kernel("gelu")


def adam(size: int = LARGE) -> Kernel:
    """One step of Adam: four inputs, three outputs, a scalar learning rate."""
    build = Builder((size,))
    weight, gradient, mean, square = (build.load([1]) for _ in range(4))
    rate = build.read()

    def mix(keep: float, old: Value, new: Value) -> Value:
        kept = build.map("mul", constant(keep), old)
        return build.map("add", kept, build.map("mul", constant(1 - keep), new))

    mean = mix(0.9, mean, gradient)
    square = mix(0.999, square, build.map("mul", gradient, gradient))
    root = build.map("add", build.map("sqrt", square), constant(1e-8))
    step = build.map("div", build.map("mul", rate, mean), root)
    for result in (build.map("sub", weight, step), mean, square):
        build.store(result, [1])
    return build.kernel("adam")


def black_scholes(size: int = LARGE) -> Kernel:
    """The price of a call option: log, sqrt, exp and two erf."""
    build = Builder((size,))
    spot, strike, time = (build.load([1]) for _ in range(3))
    rate, sigma = build.read(), build.read()

    def op(name: str, *args: Any) -> Value:
        return build.map(name, *args)

    def normal(x: Value) -> Value:
        scaled = op("erf", op("mul", x, constant(0.70710678)))
        return op("mul", constant(0.5), op("add", constant(1.0), scaled))

    spread = op("mul", sigma, op("sqrt", time))
    drift = op("add", rate, op("mul", constant(0.5), op("mul", sigma, sigma)))
    moved = op("add", op("log", op("div", spot, strike)), op("mul", drift, time))
    first = op("div", moved, spread)
    second = op("sub", first, spread)
    discount = op("exp", op("neg", op("mul", rate, time)))
    paid = op("mul", op("mul", strike, discount), normal(second))
    build.store(op("sub", op("mul", spot, normal(first)), paid), [1])
    return build.kernel("black_scholes")


def bias(rows: int = 4096, cols: int = 1024) -> Kernel:
    """max(x + b, 0) with b along the last axis."""
    build = Builder((rows, cols))
    total = build.map("add", build.load([cols, 1]), build.load([0, 1]))
    build.store(build.map("max", total, constant(0.0)), [cols, 1])
    return build.kernel("bias")


def transpose(rows: int = 4096, cols: int = 1000) -> Kernel:
    """x.T * 2 + 1 of x[cols, rows]."""
    build = Builder((rows, cols))
    double = build.map("mul", build.load([1, rows]), constant(2.0))
    build.store(build.map("add", double, constant(1.0)), [cols, 1])
    return build.kernel("transpose")


def softmax(rows: int = 4096, cols: int = 1024, axis: int = 1, dtype: Any = np.float32) -> Kernel:
    """exp(x - max) / sum over one axis; float16 is accumulated in float32."""
    build = Builder((rows,), (cols,))
    strides = [cols, 1] if axis == 1 else [1, rows]
    wide = [np.float32] if dtype is np.float16 else [dtype]
    x = build.load(strides, dtype)
    top = build.reduce("max", x, accumulators=wide)
    e = build.map("exp", build.map("sub", x, top))
    total = build.reduce("sum", e, accumulators=wide)
    build.store(build.map("div", e, total), strides)
    return build.kernel("softmax")


def layernorm(rows: int = 4096, cols: int = 1024) -> Kernel:
    """(x - mean) / sqrt(var + eps) * weight + bias."""
    build = Builder((rows,), (cols,))
    x, share = build.load([cols, 1]), constant(1 / cols)
    centred = build.map("sub", x, build.map("mul", build.reduce("sum", x), share))
    square = build.map("mul", centred, centred)
    variance = build.map("mul", build.reduce("sum", square), share)
    scale = build.map("rsqrt", build.map("add", variance, constant(1e-5)))
    scaled = build.map("mul", build.map("mul", centred, scale), build.load([0, 1]))
    build.store(build.map("add", scaled, build.load([0, 1])), [cols, 1])
    return build.kernel("layernorm")


def rmsnorm(rows: int = 4096, cols: int = 1024) -> Kernel:
    """x / sqrt(mean(x^2) + eps) * weight."""
    build = Builder((rows,), (cols,))
    x = build.load([cols, 1])
    square = build.reduce("sum", build.map("mul", x, x))
    mean = build.map("mul", square, constant(1 / cols))
    scale = build.map("rsqrt", build.map("add", mean, constant(1e-5)))
    scaled = build.map("mul", build.map("mul", x, scale), build.load([0, 1]))
    build.store(scaled, [cols, 1])
    return build.kernel("rmsnorm")


def logsumexp(rows: int = 4096, cols: int = 1024) -> Kernel:
    """max + log(sum(exp(x - max)))."""
    build = Builder((rows,), (cols,))
    x = build.load([cols, 1])
    top = build.reduce("max", x)
    total = build.reduce("sum", build.map("exp", build.map("sub", x, top)))
    build.store(build.map("add", top, build.map("log", total)), [1])
    return build.kernel("logsumexp")


def column_sum(rows: int = 4096, cols: int = 1024) -> Kernel:
    """x.sum(axis=0)."""
    build = Builder((cols,), (rows,))
    build.store(build.reduce("sum", build.load([1, cols])), [1])
    return build.kernel("column_sum")


def long_sum(size: int = 10_000_001, block: int = 1 << 16) -> Kernel:
    """First kernel of a full sum: a partial sum for each block."""
    build = Builder((-(-size // block),), (block,), ragged=size)
    build.store(build.reduce("sum", build.load([block, 1], size=size)), [1])
    return build.kernel("long_sum")


def argmax(rows: int = 4096, cols: int = 1024) -> Kernel:
    """x.argmax(axis=1)."""
    build = Builder((rows,), (cols,))
    build.store(build.reduce("argmax", build.load([cols, 1]), build.index([0, 1])), [1])
    return build.kernel("argmax")


KERNELS: dict[str, Callable[[], Kernel]] = {
    "gelu": gelu,
    "gelu_odd": lambda: gelu(1_000_003),
    "adam": adam,
    "black_scholes": black_scholes,
    "bias": bias,
    "transpose": transpose,
    "softmax": softmax,
    "softmax_short": lambda: softmax(65536, 20),
    "softmax_block": lambda: softmax(4096, 8192),
    "softmax_passes": lambda: softmax(1024, 65536),
    "softmax_odd": lambda: softmax(100, 1001),
    "softmax_columns": lambda: softmax(1024, 4096, axis=0),
    "layernorm": layernorm,
    "layernorm_768": lambda: layernorm(8192, 768),
    "rmsnorm": rmsnorm,
    "logsumexp": logsumexp,
    "column_sum": column_sum,
    "long_sum": long_sum,
    "argmax": argmax,
}
