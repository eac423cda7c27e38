"""Holds the house to its plan: what a folder may import, how long a file is, what it must say."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# Data passes through the folders in this order, and a folder imports itself and those before it.
LAYERS = (
    "graph",
    "ops",
    "transforms",
    "numpy",
    "lowering",
    "backends",
    "runtime",
    "api",
    "extend",  # constructors of declarations, for authors outside
    "facade",  # the files of minijit/ itself: __init__, lax, debug, random
    "tools",  # the command line, __main__ with it
)
MAX_LINES = 400

# A third-party package, and the only places that may import it.
OWNERS = {
    "cupy": ("minijit/backends/cuda/", "minijit/tools/"),
    "cupy_backends": ("minijit/backends/cuda/",),
    "cuda": ("minijit/backends/cuda/", "minijit/tools/"),
    "networkx": ("minijit/runtime/dataflow.py",),
    "numba": ("minijit/backends/", "kernels/"),
    "llvmlite": ("minijit/backends/", "kernels/", "minijit/tools/"),
    "minijit.kernels": ("minijit/lowering/", "minijit/backends/", "kernels/"),
}
# The standard library's modules that only compute: device code reads no file and no environment.
PURE = {"__future__", "collections", "dataclasses", "enum", "functools", "hashlib", "itertools"}
PURE |= {"math", "struct", "types", "typing"}
KERNEL_IMPORTS = PURE | {"llvmlite", "minijit.kernels", "numba", "numpy"}

# `import minijit`, and a start with kernels from the disk, must load none of these, or not before
# the first call: they are imported where they are used. The modules of a target import Numba at
# their top, so a backend is imported where it is first asked for.
LAZY = {
    "cuda",
    "cupy",
    "cupy_backends",
    "importlib.metadata",
    "llvmlite",
    "logging",
    "minijit.backends.cpu",
    "minijit.backends.cuda",
    "minijit.kernels",
    "minijit.lowering",
    "networkx",
    "numba",
    "platformdirs",
}
# What can run code that is no part of the program, and the only files that may.
DANGEROUS_MODULES = {"dill", "cloudpickle", "marshal", "pickle", "shelve", "subprocess", "yaml"}
DANGEROUS_CALLS = {"__import__", "compile", "eval", "exec"}
TRUSTED = {
    "minijit/backends/emulator/codegen.py": {"compile", "exec"},
    "minijit/backends/frontend/kernel.py": {"compile", "exec"},  # of a call; no generated line
    "minijit/graph/definitions.py": {"compile"},  # to compare code; nothing is run
    "minijit/ops/names.py": {"compile"},  # of a function's own tree; nothing is run
    "minijit/runtime/guard.py": {"compile"},  # of numbered names; nothing is run
    "minijit/tools/bench.py": {"subprocess"},  # measures the start of a process
}
OPTIONAL = {"jax", "scipy", "skimage", "sklearn", "torch"}


@dataclass(frozen=True)
class Import:
    """One import of a module, absolute, and where it stands."""

    module: str
    line: int
    in_function: bool

    def is_from(self, package: str) -> bool:
        return self.module == package or self.module.startswith(package + ".")


@dataclass(frozen=True)
class Source:
    """One file of the library."""

    path: str
    text: str

    @functools.cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.path)

    @property
    def layer(self) -> str:
        folders = self.path.split("/")
        if folders[0] == "kernels":
            return "kernels"
        if len(folders) == 2:
            return "tools" if folders[1] == "__main__.py" else "facade"
        return folders[1]

    @functools.cached_property
    def imports(self) -> tuple[Import, ...]:
        return tuple(_imports(self.tree, in_function=False))


def _imports(node: ast.AST, *, in_function: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            for alias in child.names:
                yield Import(alias.name, child.lineno, in_function)
        elif isinstance(child, ast.ImportFrom):
            module = "." * child.level + (child.module or "")
            for alias in child.names:
                yield Import(_module(module, alias.name), child.lineno, in_function)
        elif isinstance(child, ast.Call) and _called(child) == "import_module":
            if child.args and isinstance(child.args[0], ast.Constant):
                yield Import(str(child.args[0].value), child.lineno, in_function)
            yield from _imports(child, in_function=in_function)
        else:
            inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from _imports(child, in_function=in_function or inside)


def _module(module: str, name: str) -> str:
    """The module that `from module import name` needs: a module of ours inside it, or itself.

    `from minijit import lax` imports minijit.lax, `from minijit import jit` only minijit.
    """
    deeper = f"{module}.{name}"
    path = ROOT / deeper.replace("minijit.kernels", "kernels").replace(".", "/")
    ours = module.split(".")[0] == "minijit"
    return deeper if ours and (path.is_dir() or path.with_suffix(".py").is_file()) else module


def _called(call: ast.Call) -> str:
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _sources() -> tuple[Source, ...]:
    paths = [*ROOT.glob("minijit/**/*.py"), *ROOT.glob("kernels/**/*.py")]
    return tuple(Source(p.relative_to(ROOT).as_posix(), p.read_text()) for p in sorted(paths))


SOURCES = _sources()
Rule = Callable[[Source], Iterator[str]]


def layer_of(module: str) -> str:
    """The layer of an imported module of this project."""
    parts = module.split(".")
    if len(parts) == 1:
        return "facade"
    if parts[1] == "__main__":
        return "tools"
    return parts[1] if parts[1] in (*LAYERS, "kernels") else "facade"


def imports_only_layers_before(source: Source) -> Iterator[str]:
    if source.layer == "kernels":
        return
    for found in source.imports:
        if not found.is_from("minijit") or found.is_from("minijit.kernels"):
            continue
        if LAYERS.index(layer_of(found.module)) > LAYERS.index(source.layer):
            yield f"{source.path}:{found.line}: {source.layer} must not import {found.module}"


def kernels_import_only_numba(source: Source) -> Iterator[str]:
    if source.layer != "kernels":
        return
    for found in source.imports:
        if not any(found.is_from(package) for package in KERNEL_IMPORTS):
            yield f"{source.path}:{found.line}: kernels must not import {found.module}"


def third_parties_stay_with_their_owners(source: Source) -> Iterator[str]:
    for found in source.imports:
        for package, owners in OWNERS.items():
            if found.is_from(package) and not source.path.startswith(owners):
                yield f"{source.path}:{found.line}: only {', '.join(owners)} import {package}"


def function_level_imports_are_lazy_ones(source: Source) -> Iterator[str]:
    for found in source.imports:
        allowed = any(found.is_from(package) for package in LAZY | OPTIONAL)
        by_name = source.layer == "tools"  # the command line loads what may be missing or broken
        on_access = source.path.endswith("__init__.py")  # a module's __getattr__, see SPEC 1
        if found.in_function and not (allowed or by_name or on_access):
            yield f"{source.path}:{found.line}: import {found.module} at the top of the file"


def imports_are_absolute(source: Source) -> Iterator[str]:
    for found in source.imports:
        if found.module.startswith("."):
            yield f"{source.path}:{found.line}: relative import {found.module}"
        if found.is_from("kernels"):
            yield f"{source.path}:{found.line}: bare `kernels`; write minijit.kernels"


def files_are_short(source: Source) -> Iterator[str]:
    lines = source.text.count("\n")
    if lines > MAX_LINES:
        yield f"{source.path}: {lines} lines, more than {MAX_LINES}: it holds more than one idea"


def modules_say_what_they_own(source: Source) -> Iterator[str]:
    if not ast.get_docstring(source.tree):
        yield f"{source.path}: no module docstring"
    has_code = len(source.tree.body) > 1
    if has_code and not any(found.module == "__future__" for found in source.imports):
        yield f"{source.path}: no `from __future__ import annotations`"


def public_names_are_documented(source: Source) -> Iterator[str]:
    for node in source.tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            overload = any(getattr(d, "id", "") == "overload" for d in node.decorator_list)
            public = not node.name.startswith("_") and not overload
            if public and not ast.get_docstring(node):
                yield f"{source.path}:{node.lineno}: {node.name} has no docstring"


def numba_options_are_safe(source: Source) -> Iterator[str]:
    """`parallel=True` aborts when two threads meet; `cache=True` can return wrong results."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.keyword) and node.arg in ("parallel", "cache"):
            yield f"{source.path}:{node.value.lineno}: Numba's {node.arg}= is not used here"
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value.replace(" ", "")
            if "parallel=True" in text or "cache=True" in text:
                yield f"{source.path}:{node.lineno}: parallel=True or cache=True in source text"


def only_generated_code_is_executed(source: Source) -> Iterator[str]:
    trusted = TRUSTED.get(source.path, set())
    for found in source.imports:
        package = found.module.split(".")[0]
        if package in DANGEROUS_MODULES - trusted:
            yield f"{source.path}:{found.line}: {package} can run what it is given"
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in DANGEROUS_CALLS - trusted:
                yield f"{source.path}:{node.lineno}: {node.func.id}() can run what it is given"
        elif isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            yield f"{source.path}:{node.value.lineno}: NumPy unpickles"


RULES: tuple[Rule, ...] = (
    imports_only_layers_before,
    kernels_import_only_numba,
    third_parties_stay_with_their_owners,
    function_level_imports_are_lazy_ones,
    imports_are_absolute,
    files_are_short,
    modules_say_what_they_own,
    public_names_are_documented,
    numba_options_are_safe,
    only_generated_code_is_executed,
)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_rule_holds(rule: Rule) -> None:
    broken = [line for source in SOURCES for line in rule(source)]
    assert not broken, "\n" + "\n".join(broken)


def test_every_folder_is_a_layer() -> None:
    folders = {p.name for p in (ROOT / "minijit").iterdir() if any(p.glob("**/*.py"))}
    assert folders <= set(LAYERS)


def test_the_sources_were_found() -> None:
    layers = {source.layer for source in SOURCES}
    assert layers == {*LAYERS, "kernels"}


BREAKERS = {
    imports_only_layers_before: ("minijit/ops/x.py", "import minijit.runtime.plan"),
    kernels_import_only_numba: ("kernels/x.py", "import minijit.graph.aval"),
    third_parties_stay_with_their_owners: ("minijit/backends/cpu/x.py", "import cupy"),
    function_level_imports_are_lazy_ones: ("minijit/api/x.py", "def f():\n    import json"),
    imports_are_absolute: ("minijit/ops/x.py", "from . import unary"),
    files_are_short: ("minijit/ops/x.py", "x = 1\n" * (MAX_LINES + 1)),
    modules_say_what_they_own: ("minijit/ops/x.py", "x = 1"),
    public_names_are_documented: ("minijit/ops/x.py", "def f(): ..."),
    numba_options_are_safe: ("minijit/backends/cpu/x.py", "numba.njit(cache=True)"),
    only_generated_code_is_executed: ("minijit/backends/cpu/x.py", "exec('1')"),
}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_rule_finds_an_offence(rule: Rule) -> None:
    path, text = BREAKERS[rule]
    assert list(rule(Source(path, text)))


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("minijit/graph/x.py", "from minijit import lax"),
        ("minijit/ops/x.py", "from minijit.api import jit"),
        ("minijit/lowering/x.py", "def f():\n    from minijit.backends.cpu import math"),
        ("minijit/api/x.py", "import minijit"),
    ],
)
def test_upward_imports_are_found_in_every_spelling(path: str, text: str) -> None:
    assert list(imports_only_layers_before(Source(path, text)))


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "from marshal import loads",
        "def f():\n    import subprocess",
        "importlib.import_module('shelve')",
        "eval('1')",
        "exec(compile('1', '', 'exec'))",
        "numpy.load(file, allow_pickle=True)",
    ],
)
def test_what_executes_data_is_found_in_every_spelling(text: str) -> None:
    assert list(only_generated_code_is_executed(Source("minijit/runtime/x.py", text)))


def test_trust_is_given_to_files_that_need_it() -> None:
    plain = {source.path: Source("minijit/runtime/x.py", source.text) for source in SOURCES}
    assert all(list(only_generated_code_is_executed(plain[path])) for path in TRUSTED)
