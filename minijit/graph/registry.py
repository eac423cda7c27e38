"""What is declared by name: for good, or until the scope in which it was declared closes.

What a scope declares is among the options of the thread that opened it (``config.extensions``), so
it is part of the signature: what was traced inside is not found outside, nor the other way round.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

from minijit.graph.config import config
from minijit.graph.errors import DeclarationError
from minijit.graph.locks import process_lock
from minijit.graph.source_info import user_line

__all__ = ["Extension", "declare", "declared", "find", "in_scope", "outside", "scope", "without"]

_serial = itertools.count()


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Extension:
    """Something that a scope has declared.

    Attributes:
        kind: ``"primitive"``, ``"monoid"``, ``"ufunc"`` or ``"rewrite"``.
        name: Its name; no two of a kind have one name.
        value: What it is.
        serial: Tells it from one that had the name before.
    """

    kind: str
    name: str
    value: Any
    serial: int = dataclasses.field(default_factory=lambda: next(_serial))

    def __repr__(self) -> str:
        """Return what messages say of it."""
        return f"{self.kind} {self.name} #{self.serial}"


_tables: dict[str, dict[str, Any]] = {}
_stack: ContextVar[contextlib.ExitStack | None] = ContextVar("minijit_scope", default=None)
_lock = process_lock()


@contextlib.contextmanager
def scope() -> Iterator[None]:
    """Forget what is declared in the ``with`` block, in this thread, at its end.

    Only the thread that opens the block knows of it, and may use the names again afterwards.
    Programs that were traced inside are not used outside, nor those from outside inside.
    """
    with contextlib.ExitStack() as stack:
        token = _stack.set(stack)
        try:
            yield
        finally:
            _stack.reset(token)


@contextlib.contextmanager
def outside() -> Iterator[None]:
    """Declare for good in the ``with`` block, whatever scopes are open."""
    token = _stack.set(None)
    try:
        yield
    finally:
        _stack.reset(token)


@contextlib.contextmanager
def without(kind: str) -> Iterator[None]:
    """Have nothing of a kind that scopes can declare in the ``with`` block, in this thread."""
    others = tuple(each for each in config.extensions if each.kind != kind)
    with config.override(extensions=others):
        yield


def in_scope() -> bool:
    """Whether this thread has an open scope."""
    return _stack.get() is not None


def declare(kind: str, name: str, value: Any) -> None:
    """Declare ``value`` under ``name``: in the innermost open scope, else for all threads.

    Raises:
        DeclarationError: the name is taken.
    """
    with _lock:
        if find(kind, name) is not None:
            raise DeclarationError(
                f"a {kind} named {name!r} exists already: give this one another name "
                f"(at {user_line()})"
            )
        stack = _stack.get()
        known = (*config.extensions, Extension(kind, name, value))
        if stack is not None:
            stack.enter_context(config.override(extensions=known))
        elif kind == "rewrite":  # programs that were compiled before have to be compiled anew
            config.update("extensions", known)
        else:
            _tables.setdefault(kind, {})[name] = value


def find(kind: str, name: str) -> Any:
    """Return what is declared under a name, or None."""
    for extension in config.extensions:
        if extension.name == name and extension.kind == kind:
            return extension.value
    return _tables.get(kind, {}).get(name)


def declared(kind: str) -> tuple[Any, ...]:
    """Return all that is declared of a kind, in order, that of open scopes last."""
    scoped = (each.value for each in config.extensions if each.kind == kind)
    return (*_tables.get(kind, {}).values(), *scoped)
