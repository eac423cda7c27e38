"""Random numbers from a counter: Philox 4x32-10 as one operation, waiting times in one kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
from _report import compare, place

import minijit
from minijit.extend import elementwise


@elementwise(dtypes="any", only=("uint32",))
def philox(counter: Any, key: Any, word: Any) -> Any:
    """One of the four words of Philox 4x32-10 (Salmon, Moraes, Dror and Shaw, 2011)."""
    a, b, c, d = np.uint64(counter), np.uint64(0), np.uint64(0), np.uint64(0)
    k, j = np.uint64(key), np.uint64(0)
    low = np.uint64(0xFFFFFFFF)
    for _ in range(10):
        left, right = np.uint64(0xD2511F53) * a, np.uint64(0xCD9E8D57) * c
        a, b = (right >> np.uint64(32)) ^ b ^ k, right & low
        c, d = (left >> np.uint64(32)) ^ d ^ j, left & low
        k, j = (k + np.uint64(0x9E3779B9)) & low, (j + np.uint64(0xBB67AE85)) & low
    first = a if word == 0 else b
    return np.uint32(first if word < 2 else (c if word == 2 else d))


def uniform(bits: Any) -> Any:
    """Numbers of (0, 1) from random bits."""
    return (bits.astype(np.float64) + 0.5) / 2**32


def waiting_times(counter: Any) -> Any:
    """Exponentially distributed numbers: bits and logarithm in one kernel."""
    return -np.log(uniform(philox(counter, np.uint32(2024), np.uint32(0))))


def words(counter: Any, key: int) -> list[Any]:
    """Return the four words, by NumPy."""
    state = [counter.astype(np.uint64), *(np.zeros(counter.shape, np.uint64) for _ in range(3))]
    keys, low = [np.uint64(key), np.uint64(0)], np.uint64(0xFFFFFFFF)
    for _ in range(10):
        left, right = np.uint64(0xD2511F53) * state[0], np.uint64(0xCD9E8D57) * state[2]
        state = [
            (right >> np.uint64(32)) ^ state[1] ^ keys[0],
            right & low,
            (left >> np.uint64(32)) ^ state[3] ^ keys[1],
            left & low,
        ]
        steps = (np.uint64(0x9E3779B9), np.uint64(0xBB67AE85))
        keys = [(k + step) & low for k, step in zip(keys, steps, strict=True)]
    return [word.astype(np.uint32) for word in state]


def with_numpy(counter: Any) -> Any:
    """The same by NumPy."""
    return -np.log(uniform(words(counter, 2024)[0]))


def main() -> None:
    where = place(__doc__)
    size = 1 << 12 if where.quick else 1 << 20
    counter = np.arange(size, dtype=np.uint32)
    compare(f"{size} waiting times", waiting_times, where, counter, eager=with_numpy)
    zero = np.zeros(1, np.uint32)
    known = [int(minijit.jit(philox)(zero, zero, np.uint32(w))[0]) for w in range(4)]
    print("counter 0, key 0:", *(f"{word:08x}" for word in known))
    numbers = where.get(minijit.jit(waiting_times)(where.put(counter)))
    print(f"mean {numbers.mean():.3f}, deviation {numbers.std():.3f}")


if __name__ == "__main__":
    main()
