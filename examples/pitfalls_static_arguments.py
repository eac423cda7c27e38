"""Which arguments must be static, what each value costs, and how changing shapes recompile."""

from __future__ import annotations

from typing import Any

import numpy as np
from _report import place

import minijit
import minijit.numpy as jnp


def counts_must_be_static(x: Any) -> None:
    def repeat(x: Any, n: int) -> Any:
        return jnp.repeat(x, n)

    try:
        minijit.jit(repeat)(x, 3)
    except minijit.TracerIntegerConversionError as error:
        print(f"a traced count: {type(error).__name__}: {error}")
    static = minijit.jit(repeat, static_argnames="n")
    print(f"a static count: {static(x[:2], 3)} {static(x[:2], n=2)}")
    print(f"two values, programs: {static._cache_size()}")


def branches(x: Any) -> None:
    def by_sign(x: Any) -> Any:
        if x > 0:
            return 1.0
        return -1.0

    try:
        minijit.jit(by_sign)(3.0)
    except minijit.TracerBoolConversionError as error:
        print(f"a traced branch: {type(error).__name__}: {error}")
    sign = minijit.jit(lambda x: jnp.where(x > 0, 1.0, -1.0))
    print(f"where: {float(sign(3.0))} {float(sign(-2.0))}, programs: {sign._cache_size()}")
    step = minijit.jit(lambda x, up: x + 1 if up else x - 1, static_argnames="up")
    print(f"a static branch: {step(x, True)} {step(x, False)}, programs: {step._cache_size()}")


def hashable(x: Any) -> None:
    reshape = minijit.jit(lambda x, shape: x.reshape(shape), static_argnames="shape")
    print(f"a tuple: {reshape(x, (2, 2)).shape}")
    try:
        reshape(x, [2, 2])
    except TypeError as error:
        print(f"a list: {type(error).__name__}: {error}")


def shapes(x: Any) -> None:
    total = minijit.jit(lambda x: x.sum())
    sizes = []
    for n in (4, 4, 2, 4, 1, 4):
        total(x[:n])
        sizes.append(total._cache_size())
    print(f"lengths 4 4 2 4 1 4: programs {sizes}")

    masked = minijit.jit(lambda x, n: jnp.where(jnp.arange(x.shape[0]) < n, x, 0).sum())
    for n in (4, 3, 2, 1):
        part = np.zeros(4, dtype=x.dtype)
        part[:n] = np.arange(n)
        masked(part, n)
    print(f"padded to 4, with the length as a number, programs: {masked._cache_size()}")


def main() -> None:
    x = place(__doc__).put(np.arange(4))
    for part in (counts_must_be_static, branches, hashable, shapes):
        part(x)


if __name__ == "__main__":
    main()
