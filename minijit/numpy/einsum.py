"""Einstein summation: operands contracted from left to right, each pair as one matrix product."""

from __future__ import annotations

from typing import Any

from minijit.graph.source_info import user_line
from minijit.graph.trace import abstractify
from minijit.numpy.declare import numpy_function, refuse_out
from minijit.numpy.reductions import sum as reduce_sum
from minijit.ops.binary import add, multiply
from minijit.ops.diagonal import diagonal
from minijit.ops.dot import contract
from minijit.ops.promote import as_operand, convert, result_dtype
from minijit.ops.shape import expand_dims, squeeze, transpose

__all__ = ["einsum"]

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


@numpy_function()
def einsum(
    subscripts: str, /, *operands: Any, out: Any = None, dtype: Any = None, optimize: Any = False
) -> Any:
    """Return the sum of products that ``subscripts`` describe, for example ``"bij,bjk->bik"``.

    Args:
        subscripts: Letters for the axes of each operand, with an optional ``...``, and those of
            the result; without ``->`` the result has the letters that occur once, sorted.
        operands: Arrays, as many as ``subscripts`` has terms.
        out: Refused.
        dtype: Of the result; by default what the operands promote to.
        optimize: Ignored: operands are contracted from left to right.

    Raises:
        ValueError: letters and shapes do not fit.
        TypeError: the form with lists of axes instead of letters.
    """
    refuse_out(out)
    if not isinstance(subscripts, str):
        raise TypeError(f"einsum needs its subscripts as a string first (at {user_line()})")
    arrays = [as_operand(operand) for operand in operands]
    kind = result_dtype([abstractify(array) for array in arrays]) if dtype is None else dtype
    terms, result = _parse(subscripts, [abstractify(array).ndim for array in arrays])
    _check_extents(subscripts, terms, [abstractify(array).shape for array in arrays])
    arrays = [convert(array, kind) for array in arrays]
    factors = [_without_repeats(array, term) for array, term in zip(arrays, terms, strict=True)]
    value, letters = factors[0]
    for position, (other, term) in enumerate(factors[1:], 2):
        needed = result + "".join(t for _, t in factors[position:])
        value, letters = _multiply(value, letters, other, term, needed)
    value, letters = _summed(value, letters, result)
    return transpose(value, [letters.index(letter) for letter in result])


def _parse(subscripts: str, ranks: list[int]) -> tuple[list[str], str]:
    """Return the letters of each operand and of the result, with those that ``...`` stands for."""
    left, arrow, right = subscripts.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise ValueError(
            f"einsum: {subscripts!r} has {len(terms)} terms for {len(ranks)} operands "
            f"(at {user_line()})"
        )
    free = [letter for letter in _LETTERS if letter not in subscripts]
    hidden = [rank - len(term.replace("...", "")) for term, rank in zip(terms, ranks, strict=True)]
    for term, count in zip(terms, hidden, strict=True):
        if count < 0 or (count and "..." not in term):
            raise ValueError(
                f"einsum: {term!r} in {subscripts!r} does not fit an operand of "
                f"{len(term.replace('...', '')) + count} axes (at {user_line()})"
            )
    dots = "".join(free[: max(hidden)])
    full = [
        term.replace("...", dots[len(dots) - count :])
        for term, count in zip(terms, hidden, strict=True)
    ]
    if arrow:
        result = right.replace("...", dots)
    else:
        letters = left.replace("...", "").replace(",", "")
        result = (dots if "..." in left else "") + "".join(
            letter for letter in sorted(set(letters)) if letters.count(letter) == 1
        )
    if len(set(result)) != len(result) or not set(result) <= set("".join(full)):
        raise ValueError(
            f"einsum: the result of {subscripts!r} is not well formed (at {user_line()})"
        )
    return full, result


def _check_extents(subscripts: str, terms: list[str], shapes: list[tuple[int, ...]]) -> None:
    extents: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        for letter, n in zip(term, shape, strict=True):
            if extents.setdefault(letter, n) not in (n, 1) and n != 1:
                raise ValueError(
                    f"einsum: the operands of {subscripts!r} have shapes {shapes}, which give "
                    f"one letter the extents {extents[letter]} and {n} (at {user_line()})"
                )
            extents[letter] = max(extents[letter], n) if n else 0


def _without_repeats(value: Any, letters: str) -> tuple[Any, str]:
    """Take the diagonal of axes that share a letter."""
    for letter in dict.fromkeys(letters):
        while letters.count(letter) > 1:
            first = letters.index(letter)
            second = letters.index(letter, first + 1)
            value = diagonal(value, 0, first, second)
            letters = "".join(c for i, c in enumerate(letters) if i not in (first, second)) + letter
    return value, letters


def _summed(value: Any, letters: str, kept: str) -> tuple[Any, str]:
    axes = tuple(axis for axis, letter in enumerate(letters) if letter not in kept)
    if axes:
        value = reduce_sum(value, axes, abstractify(value).dtype)
    return value, "".join(letter for letter in letters if letter in kept)


def _multiply(a: Any, left: str, b: Any, right: str, needed: str) -> tuple[Any, str]:
    """Return the product of two factors, summed over the letters that nothing needs any more."""
    a, left = _drop_units(a, left, b, right)
    b, right = _drop_units(b, right, a, left)
    a, left = _summed(a, left, right + needed)
    b, right = _summed(b, right, left + needed)
    shared = [letter for letter in left if letter in right]
    inner = [letter for letter in shared if letter not in needed]
    batch = [letter for letter in shared if letter in needed]
    rows = "".join(letter for letter in left if letter not in right)
    columns = "".join(letter for letter in right if letter not in left)
    letters = "".join(batch) + rows + columns
    if inner:
        sums = ([left.index(c) for c in inner], [right.index(c) for c in inner])
        runs = ([left.index(c) for c in batch], [right.index(c) for c in batch])
        return contract(a, b, sums, runs), letters
    product = multiply(_spread(a, left, letters), _spread(b, right, letters))
    return add(product, 0), letters  # NumPy adds products to zero, which turns -0 into 0


def _drop_units(a: Any, left: str, b: Any, right: str) -> tuple[Any, str]:
    """Drop unit axes of ``a`` whose letter is longer in ``b``: they broadcast."""
    shape, other = abstractify(a).shape, dict(zip(right, abstractify(b).shape, strict=True))
    axes = [axis for axis, c in enumerate(left) if shape[axis] == 1 and other.get(c, 1) != 1]
    return squeeze(a, axes), "".join(c for axis, c in enumerate(left) if axis not in axes)


def _spread(value: Any, letters: str, target: str) -> Any:
    """Give ``value`` an axis for each letter of ``target``, in order, unit where it has none."""
    value = transpose(value, [letters.index(c) for c in target if c in letters])
    return expand_dims(value, tuple(axis for axis, c in enumerate(target) if c not in letters))
