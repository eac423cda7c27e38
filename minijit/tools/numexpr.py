"""numexpr as one of the systems that bench compares: array code becomes its strings."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np

from minijit.tools.system import NotHereError, System
from minijit.tools.workloads import as_tuple

__all__ = ["numexpr_system"]

_FUNCTIONS = {
    "absolute": "abs", "cos": "cos", "exp": "exp", "log": "log", "log1p": "log1p",
    "maximum": "maximum", "minimum": "minimum", "sin": "sin", "sqrt": "sqrt", "tanh": "tanh",
    "where": "where",
}  # fmt: skip
_OPERATORS = {
    "add": "+", "greater": ">", "less": "<", "multiply": "*", "power": "**", "subtract": "-",
    "true_divide": "/", "divide": "/",
}  # fmt: skip


class _Term(np.lib.mixins.NDArrayOperatorsMixin):
    """An array in an expression; constants become scalars of its type, or it would be float64."""

    def __init__(self, text: str, constants: dict[str, Any], dtype: Any) -> None:
        self.text, self.constants, self.dtype = text, constants, dtype

    def _of(self, value: Any) -> str:
        if isinstance(value, _Term):
            return value.text
        name = f"c{len(self.constants)}"
        self.constants[name] = self.dtype.type(value)
        return name

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        name = ufunc.__name__
        if method != "__call__" or options:
            return NotImplemented
        if name == "negative":
            return self._new(f"(-{self._of(inputs[0])})")
        if name in _OPERATORS:
            left, right = map(self._of, inputs)
            return self._new(f"({left} {_OPERATORS[name]} {right})")
        return self._new(f"{_FUNCTIONS[name]}({', '.join(map(self._of, inputs))})")

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        if function is not np.where or options:
            return NotImplemented
        return self._new(f"where({', '.join(map(self._of, args))})")

    def _new(self, text: str) -> _Term:
        return _Term(text, self.constants, self.dtype)


def numexpr_system() -> System:
    """Return numexpr, for what is elementwise; the rest raises, which bench reports.

    Raises:
        NotHereError: it is not installed.
    """
    if importlib.util.find_spec("numexpr") is None:
        raise NotHereError("not installed")
    numexpr = importlib.import_module("numexpr")

    def prepare(function: Callable[..., Any]) -> Callable[..., Any]:
        known: dict[Any, tuple[list[str], dict[str, Any], bool]] = {}

        def call(*inputs: Any) -> Any:
            key = tuple((x.shape, x.dtype) for x in inputs)
            if key not in known:
                known[key] = _expressions(function, inputs)
            texts, constants, several = known[key]
            names = constants | {f"x{place}": x for place, x in enumerate(inputs)}
            found = [numexpr.evaluate(text, names, {}) for text in texts]
            return tuple(found) if several else found[0]

        return call

    return System(
        "numexpr", numexpr.__version__, prepare, np.asarray, lambda result: result, np.asarray
    )


def _expressions(
    function: Callable[..., Any], inputs: tuple[Any, ...]
) -> tuple[list[str], dict[str, Any], bool]:
    """Return one expression for each result, their constants, and whether results are a tuple.

    Raises:
        NotHereError: the function is not elementwise, or does what numexpr has no function for.
    """
    constants: dict[str, Any] = {}
    terms = [_Term(f"x{place}", constants, x.dtype) for place, x in enumerate(inputs)]
    try:
        results = function(np, *terms)
    except (AttributeError, KeyError, TypeError) as error:
        raise NotHereError("has no expression for it") from error
    return [term.text for term in as_tuple(results)], constants, isinstance(results, tuple)
