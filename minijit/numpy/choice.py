"""Choosing among several arrays by conditions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minijit.graph.dtypes import BOOL
from minijit.graph.source_info import user_line
from minijit.graph.trace import abstractify
from minijit.numpy.declare import numpy_function
from minijit.ops.promote import as_operand, convert, result_dtype
from minijit.ops.select import where

__all__ = ["select"]


@numpy_function()
def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Any:
    """Return the elements of the first choice whose condition holds, ``default`` where none does.

    Raises:
        ValueError: there is no condition, or not one choice for each.
        TypeError: a condition is not of dtype bool.
    """
    if not condlist or len(condlist) != len(choicelist):
        raise ValueError(f"select needs one choice for each condition (at {user_line()})")
    if any(abstractify(as_operand(condition)).dtype != BOOL for condition in condlist):
        raise TypeError(f"the conditions of select must be bool arrays (at {user_line()})")
    choices = [as_operand(choice) for choice in (*choicelist, default)]
    dtype = result_dtype([abstractify(choice) for choice in choices])
    result = convert(choices[-1], dtype)
    for condition, choice in zip(reversed(condlist), reversed(choices[:-1]), strict=True):
        result = where(condition, convert(choice, dtype), result)
    return result
