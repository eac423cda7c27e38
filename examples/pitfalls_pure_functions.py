"""What a jitted function may do besides computing: side effects happen while tracing, once."""

from __future__ import annotations

from typing import Any

import numpy as np
from _report import place

import minijit


def counting(x: Any) -> None:
    """A counter and a print inside the function run for the trace, not for the calls."""
    calls = [0]

    def double(x: Any) -> Any:
        calls[0] += 1
        print(f"  inside: x is {x!r}")
        return x * 2

    jitted = minijit.jit(double)
    results = [jitted(x) for _ in range(3)]
    print(f"3 calls, the body ran {calls[0]} time; the results are right: {results[-1]}")
    with minijit.disable_jit():
        jitted(x)
    print(f"under disable_jit() it runs every time: {calls[0]} now")


def state(x: Any) -> None:
    """State that must change goes in as an argument and comes out as a result.

    A Python number that goes in comes back as an array: the second call has other types and is
    traced anew. An array to begin with avoids that.
    """
    for start in (0, np.asarray(0)):
        step = minijit.jit(lambda x, count: (x * 2, count + 1))
        y, count = x, start
        for _ in range(3):
            y, count = step(y, count)
        programs = step._cache_size()
        print(f"state as a value from {start!r}: {int(count)} steps, {y}, programs: {programs}")


def leaking(x: Any) -> None:
    """A traced value that is kept has no meaning after the trace."""
    kept: list[Any] = []
    remember = minijit.jit(lambda x: kept.append(x * 2))
    remember(x)
    try:
        kept[0] + 1
    except minijit.UnexpectedTracerError as error:
        print(f"a kept value: {type(error).__name__}: {error}")


def numbers_are_arguments(x: Any) -> None:
    """A number that changes between calls is an argument; its value is not in the signature."""
    scale = minijit.jit(lambda x, factor: x * factor)
    print(f"a factor as an argument: {scale(x, 2)} {scale(x, 3)}, programs: {scale._cache_size()}")


def main() -> None:
    x = place(__doc__).put(np.arange(4))
    for part in (counting, state, leaking, numbers_are_arguments):
        part(x)


if __name__ == "__main__":
    main()
