"""What a function and its callees read of their surroundings: globals and closure variables.

A change of what a name stands for is a new signature. What the functions themselves bind is a side
effect, and no part of it. What a container or another object holds is not looked at: it counts by
identity, as do functions; numbers, strings and tuples of them count by value.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
import sysconfig
from collections.abc import Hashable, Iterable
from pathlib import Path
from types import CellType, FunctionType, ModuleType
from typing import Any

from minijit.graph.identity import Same
from minijit.runtime.guard import Guard, make_guard
from minijit.runtime.names import names_of
from minijit.runtime.signature import Read, plain_key

__all__ = ["UNDEFINED", "Surroundings", "surroundings"]

_LIBRARIES = tuple(
    f"{Path(folder).resolve()}/"
    for folder in (
        str(Path(__file__).parent.parent),
        sysconfig.get_path("stdlib"),
        sysconfig.get_path("platstdlib"),
    )
)
_INSTALLED = ("/site-packages/", "/dist-packages/", "<frozen ")


class _Undefined:
    """Stands for a name that nothing is bound to."""

    def __repr__(self) -> str:
        return "undefined"


UNDEFINED = _Undefined()


@dataclasses.dataclass(frozen=True, slots=True)
class Surroundings:
    """What functions read, as it was at one moment.

    Attributes:
        reads: The names with their values, in a fixed order; part of the signature.
        guard: Whether they still stand for the same objects; None when there are none.
    """

    reads: tuple[Read, ...]
    guard: Guard | None

    def current(self) -> bool:
        """Whether nothing has changed since."""
        return self.guard is None or self.guard()


def surroundings(roots: Iterable[object]) -> Surroundings:
    """Return what ``roots``, and all that they can call, read of their surroundings now.

    Functions are found where a name, a default, an element, ``functools.partial`` or a decorator
    leads to them, and methods by their names. Installed libraries, minijit among them, are taken as
    they are. ``globals()["name"]`` and ``exec`` cannot be seen.
    """
    walk = _Walk()
    walk.follow(roots)
    return walk.result()


class _Walk:
    """Follows names from functions to functions, each once.

    Any object may be passed to any function: of each, those attributes count that some function
    that was found mentions.
    """

    def __init__(self) -> None:
        self._reads: dict[tuple[int, str], Read] = {}
        self._written: set[tuple[int, str]] = set()
        self._seen: dict[int, object] = {}  # values keep their ids while they are here
        self._objects: list[Any] = []
        self._attributes: set[str] = set()

    def follow(self, roots: Iterable[object]) -> None:
        """Find all that ``roots`` read."""
        self._all(roots)
        done = (-1, -1)
        while done != (len(self._objects), len(self._attributes)):
            done = (len(self._objects), len(self._attributes))
            for value in tuple(self._objects):
                if isinstance(value, ModuleType):
                    self._module(value)
                elif isinstance(value, type):
                    self._class(value)
                else:
                    self._instance(value)

    def result(self) -> Surroundings:
        """Return what was read and not written."""
        reads = tuple(read for at, read in self._reads.items() if at not in self._written)
        cells = [(r.place.value, r.value) for r in reads if isinstance(r.place.value, CellType)]
        namespaces: dict[int, tuple[dict[str, Any], dict[str, Any]]] = {}
        for read in reads:
            if not isinstance(read.place.value, CellType):
                _, values = namespaces.setdefault(id(read.place.value), (read.place.value, {}))
                values[read.name] = read.value
        return Surroundings(reads, make_guard(tuple(namespaces.values()), cells))

    def _all(self, values: Iterable[Any]) -> None:
        for value in values:
            if not isinstance(value, _PLAIN) and id(value) not in self._seen:
                self._seen[id(value)] = value
                self._visit(value)

    def _visit(self, value: Any) -> None:
        if isinstance(value, FunctionType):
            self._function(value)
        elif isinstance(value, functools.partial):
            self._all((value.func, *value.args, *value.keywords.values()))
        elif isinstance(value, (tuple, list, dict)):
            if len(value) <= _MOST_ELEMENTS:
                self._all(tuple(value.values() if isinstance(value, dict) else value))
        elif not (isinstance(value, ModuleType) and _is_library_module(value)):
            self._objects.append(value)

    def _function(self, function: FunctionType) -> None:
        code = function.__code__
        if _is_library(code.co_filename):
            return
        names = names_of(code)
        self._attributes |= names.attributes
        namespace = function.__globals__
        builtins: dict[str, Any] = function.__builtins__  # type: ignore[attr-defined]
        self._written.update((id(namespace), name) for name in names.written)
        found: dict[str, Any] = {}
        for name in names.globals:
            found[name] = namespace.get(name, builtins.get(name, UNDEFINED))
            title = f"global {name!r}{_of(namespace.get('__name__'))}"
            self._read(namespace, name, found[name], title)
        owner = function.__qualname__.rpartition(".<locals>")[0] or function.__qualname__
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            if name in names.written_free:
                self._written.add((id(cell), name))
            found[name] = _content(cell)
            self._read(cell, name, found[name], f"variable {name!r} of {owner}()")
        found.update((name, sys.modules[name]) for name in names.modules if name in sys.modules)
        for base, attribute in names.written_attributes:
            if isinstance(found.get(base), ModuleType):
                self._written.add((id(vars(found[base])), attribute))
        self._all(found.values())
        self._all((*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()))
        self._all(vars(function).values())  # what a decorator wraps

    def _module(self, module: ModuleType) -> None:
        namespace = vars(module)
        for name in sorted(self._attributes.intersection(namespace)):
            self._read(namespace, name, namespace[name], f"global {name!r}{_of(module.__name__)}")
            self._all((namespace[name],))

    def _class(self, owner: type) -> None:
        """Follow the methods that somebody calls, and those that Python calls itself."""
        for base in owner.__mro__:
            module = sys.modules.get(base.__module__)
            if module is not None and _is_library_module(module):
                continue
            for name, member in tuple(vars(base).items()):
                if name in self._attributes or name.startswith("__"):
                    self._all((_method(member),))

    def _instance(self, value: Any) -> None:
        kind = type(value)
        self._all(getattr(value, part) for part in _BOUND if hasattr(kind, part))
        held = getattr(value, "__dict__", None)
        if isinstance(held, dict):
            wanted = self._attributes | {"__wrapped__"}
            self._all([part for name, part in tuple(held.items()) if name in wanted])
        self._class(kind)

    def _read(self, place: Any, name: str, value: Any, title: str) -> None:
        self._reads.setdefault(
            (id(place), name), Read(Same(place), name, _key(value), title, value)
        )


_MOST_ELEMENTS = 1024
"""Longer containers hold data and not functions."""
_BOUND = ("__func__", "__self__")
_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis))


def _key(value: Any) -> Hashable:
    return plain_key(value) or Same(value)


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not bound yet
        return UNDEFINED


def _method(member: Any) -> Any:
    """Return the function in a member of a class; what is no method is None."""
    if isinstance(member, property):
        return member.fget
    member = getattr(member, "__func__", member)  # of a static method or a class method
    if isinstance(member, FunctionType):
        return member
    return getattr(member, "__wrapped__", None)


def _of(module: object) -> str:
    return "" if module in ("__main__", None) else f" of module {module}"


@functools.lru_cache(maxsize=4096)
def _is_library(file: str) -> bool:
    if any(part in file for part in _INSTALLED):
        return True
    return str(Path(file).resolve()).startswith(_LIBRARIES)


def _is_library_module(module: ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    if isinstance(file, str):
        return _is_library(file)
    name = module.__name__.partition(".")[0]
    return name != "__main__" and name in sys.stdlib_module_names
