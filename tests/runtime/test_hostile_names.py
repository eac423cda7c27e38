"""Names, keys, file names and lines of the user are data: none of them becomes generated code."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator

import numpy as np
import pytest

import minijit
from minijit.backends.base import Backend
from minijit.backends.cuda.backend import CudaBackend
from minijit.backends.registry import get_backend
from minijit.lowering.demand import Program
from minijit.runtime.pipeline import lower, optimize, plan_partition
from minijit.runtime.placement import Placed

X = np.ones(3)
HOSTILE = (
    "x; import os",
    "a\nimport os",
    "a\r\nimport os",
    "a\rimport os",
    "a\x0cimport os",
    "a\u2028import os",
    "a\x85import os",
    "a\x00b",
    '"""',
    "'''",
    '\\"""',
    "#",
    "{0}",
    "{x.__class__}",
    "%s",
    "$x",
    "`id`",
    "ａ",
    "é" * 300,
    "lambda",
    "None",
    "__import__('os')",
    "</script><script>",
    "",
    " ",
)
PLAIN = {"function": "f", "key": "k", "file": "plain.py", "line": "    return d['k'] * 2 + 1"}


def sources(backend: Backend, function: str, key: str, file: str, line: str) -> Iterator[str]:
    """The code of every kernel of a function that has those names; nothing is compiled."""
    names: dict[str, object] = {}
    exec(compile(f"def f(d):\n    return d[{key!r}] * 2 + 1", file, "exec"), names)
    f = names["f"]
    assert callable(f)
    f.__name__ = f.__qualname__ = function
    linecache.cache[file] = (1, None, ["def f(d):\n", line], file)
    try:
        jaxpr = optimize(minijit.make_jaxpr(f)({key: X}))
        layouts = dict(zip(jaxpr.invars, Placed.on(get_backend("cpu"), [X]).layouts, strict=True))
        for step in lower(Program(jaxpr), plan_partition(jaxpr, backend), layouts, backend):
            for lowered in step:
                yield backend.emit(lowered.kernel).text
    finally:
        linecache.cache.pop(file, None)


def tree(source: str) -> str:
    """What Python sees of generated code, but for the name of the kernel."""
    module = ast.parse(source)
    [kernel] = module.body
    assert isinstance(kernel, ast.FunctionDef)
    assert kernel.name.isidentifier()
    assert kernel.name.isascii()
    kernel.name = "kernel"
    return ast.dump(module)


@pytest.mark.parametrize("place", PLAIN)
@pytest.mark.parametrize(
    "backend", [get_backend("cpu"), CudaBackend(cc=(9, 0))], ids=["cpu", "cuda"]
)
def test_generated_code_is_that_of_plain_names(backend: Backend, place: str) -> None:
    [plain] = map(tree, sources(backend, **PLAIN))
    for text in HOSTILE:
        if place == "file" and "\0" in text:
            continue  # Python itself refuses it
        assert list(map(tree, sources(backend, **{**PLAIN, place: text}))) == [plain], repr(text)
