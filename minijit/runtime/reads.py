"""What a function and its callees read: globals, closure variables, attributes of classes.

A change of what a name stands for is a new signature. What the functions themselves bind is a side
effect, and no part of it. What a container or another object holds is not looked at: it counts by
identity, as do functions; numbers, strings and tuples of them count by value.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import sys
from collections.abc import Hashable, Iterable
from pathlib import Path
from types import CellType, FunctionType, ModuleType
from typing import Any, cast

from minijit.graph.identity import Same
from minijit.runtime.guard import UNDEFINED, Guard, make_guard
from minijit.runtime.names import names_of
from minijit.runtime.signature import Read, plain_key

__all__ = ["UNDEFINED", "Surroundings", "surroundings"]

_MINIJIT = f"{Path(__file__).resolve().parent.parent}/"
_STANDARD = f"{Path(os.__file__).resolve().parent}/"
_ARRAYS = ("numpy", "cupy")
_INSTALLED = ("/site-packages/", "/dist-packages/", "<frozen ")


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


def surroundings(function: object, arguments: Iterable[object] = ()) -> Surroundings:
    """Return what ``function``, and all that it can call, read of their surroundings now.

    Functions are found where a name, a default, an element, ``functools.partial`` or a decorator
    leads to them, and methods by their names. Installed libraries are taken as they are, but for
    the one that ``function`` itself belongs to, unless that is NumPy or CuPy. ``exec`` and
    ``globals()["name"]`` cannot be seen.

    Args:
        function: The function that is traced.
        arguments: What it is called with; traced and static ones.
    """
    own = _package(getattr(function, "func", function))
    walk = _Walk("" if own in _ARRAYS else own)
    walk.follow((function, *arguments))
    return walk.result()


class _Walk:
    """Follows names from functions to functions, each once.

    Any object may be passed to any function: of each, those attributes count that some function
    that was found mentions.
    """

    def __init__(self, own: str) -> None:
        self._own = own  # the package that is followed though it is installed
        self._reads: dict[tuple[int, str], Read] = {}
        self._written: set[tuple[int, str]] = set()
        self._seen: dict[int, object] = {}  # values keep their ids while they are here
        self._objects: list[Any] = []
        self._attributes: set[str] = set()
        self._stored: set[str] = set()

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
        reads = tuple(read for at, read in self._reads.items() if not self._is_written(at, read))
        cells: list[tuple[CellType, Any]] = []
        members: list[tuple[type, str, Any]] = []
        namespaces: dict[int, tuple[dict[str, Any], dict[str, Any]]] = {}
        for read in reads:
            place = read.place.value
            if isinstance(place, CellType):
                cells.append((place, read.value))
            elif isinstance(place, type):
                members.append((place, read.name, read.value))
            else:
                namespaces.setdefault(id(place), (place, {}))[1][read.name] = read.value
        return Surroundings(reads, make_guard(tuple(namespaces.values()), cells, members))

    def _is_written(self, at: tuple[int, str], read: Read) -> bool:
        # Through what an attribute of a class is bound cannot be told: cls, self, type(self) ...
        return at in self._written or (
            isinstance(read.place.value, type) and read.name in self._stored
        )

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
        elif not (isinstance(value, ModuleType) and self._is_library_module(value)):
            self._objects.append(value)

    def _is_library_module(self, module: ModuleType) -> bool:
        file = getattr(module, "__file__", None)
        package = module.__name__.partition(".")[0]
        if isinstance(file, str):
            return _is_library(file, package == self._own)
        return package != "__main__" and package in sys.stdlib_module_names

    def _function(self, function: FunctionType) -> None:
        code = function.__code__
        self._all(vars(function).values())  # what a decorator wraps
        if _is_library(code.co_filename, _package(function) == self._own):
            self._all(map(_content, function.__closure__ or ()))
            return
        names = names_of(code)
        self._attributes |= names.attributes
        self._stored |= names.stored
        namespace = function.__globals__
        builtins: dict[str, Any] = cast(Any, function).__builtins__
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
        for base, attribute in names.standing_attributes:
            if isinstance(found.get(base), ModuleType):
                self._written.add((id(vars(found[base])), attribute))
        self._all(found.values())
        self._all((*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()))

    def _module(self, module: ModuleType) -> None:
        namespace = vars(module)
        for name in sorted(self._attributes.intersection(namespace)):
            self._read(namespace, name, namespace[name], f"global {name!r}{_of(module.__name__)}")
            self._all((namespace[name],))

    def _class(self, owner: type) -> None:
        """Read the attributes that somebody names, and follow methods.

        Those count that somebody names, and those that Python calls itself.
        """
        bases = []
        for base in owner.__mro__:
            module = sys.modules.get(base.__module__)
            if module is None or not self._is_library_module(module):
                bases.append(base)
        found: set[str] = set()
        for position, base in enumerate(bases):
            for name, member in tuple(vars(base).items()):
                named = name in self._attributes
                if named or name.startswith("__"):
                    self._all((_method(member),))
                if named and name not in found:
                    found.add(name)
                    # Those before it might hide it one day.
                    for place in bases[: position + 1]:
                        value = vars(place).get(name, UNDEFINED)
                        title = f"attribute {name!r} of class {place.__qualname__}"
                        self._read(place, name, value, title)

    def _instance(self, value: Any) -> None:
        kind = type(value)
        self._all(getattr(value, part) for part in _BOUND if hasattr(kind, part))
        held = getattr(value, "__dict__", None)
        if isinstance(held, dict):
            wanted = self._attributes | {"__wrapped__", "__rules__"}
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


def _package(value: Any) -> str:
    return str(getattr(value, "__module__", "")).partition(".")[0]


@functools.lru_cache(maxsize=4096)
def _is_library(file: str, own: bool) -> bool:
    if any(part in file for part in _INSTALLED) and not own:
        return True
    path = str(Path(file).resolve())
    if path.startswith(_MINIJIT):
        return True
    # Installed packages may lie inside the standard library's folder.
    return path.startswith(_STANDARD) and not (own and any(part in path for part in _INSTALLED))
