"""Where a statement belongs: outside of all loops that it does not depend on."""

from __future__ import annotations

from collections.abc import Iterable

from minijit.lowering.kernel_ir import Node, Value, outputs_of

__all__ = ["Scope", "Scopes"]

OUTSIDE = -1


class Scope:
    """Statements that run together.

    Attributes:
        dim: The dimension of the loop whose step they are; -1 outside of loops.
        closed: Whether what is computed inside stays there (the block of a branch), even if it
            depends on nothing that is known here alone.
        body: The statements.
    """

    def __init__(self, dim: int, *, closed: bool = False) -> None:
        """Start without statements."""
        self.dim = dim
        self.closed = closed
        self.body: list[Node] = []


class Scopes:
    """The scopes that are open, the innermost last, and those of loops that come later."""

    def __init__(self) -> None:
        """Open the scope outside of all loops."""
        self._open = [Scope(OUTSIDE)]
        self._waiting: dict[int, Scope] = {}
        self._home: dict[Value, Scope] = {}
        self._dim: dict[Value, int] = {}

    @property
    def outermost(self) -> Scope:
        """The scope of the kernel."""
        return self._open[0]

    def home(self, value: Value) -> Scope:
        """Return the scope that computes ``value``."""
        return self._home[value]

    def dim(self, values: Iterable[Value], dims: Iterable[int] = ()) -> int:
        """Return the innermost loop on which something depends that reads ``values``.

        Loops are numbered from the outside to the inside: an inner one has the larger dimension.
        """
        return max((*(self._dim[value] for value in values), *dims), default=OUTSIDE)

    def put(self, node: Node, dim: int) -> None:
        """Append a statement that depends on the steps of loop ``dim`` and on no loop inside it.

        What a loop needs that is not open yet waits for it.
        """
        if dim != OUTSIDE and all(scope.dim != dim for scope in self._open):
            scope = self._waiting.setdefault(dim, Scope(dim))
        else:
            scope = next(s for s in reversed(self._open) if s.closed or s.dim == dim)
        scope.body.append(node)
        self.define(outputs_of(node), scope, dim)

    def put_here(self, node: Node) -> None:
        """Append a statement to the innermost scope."""
        scope = self._open[-1]
        scope.body.append(node)
        self.define(outputs_of(node), scope, max(s.dim for s in self._open))

    def define(self, values: Iterable[Value], scope: Scope, dim: int) -> None:
        """Note where values are known, and on which loop they depend."""
        for value in values:
            self._home[value], self._dim[value] = scope, dim

    def open_loop(self, dim: int, carries: Iterable[Value]) -> Scope:
        """Open the scope of a step, with what was waiting for it."""
        scope = self._waiting.pop(dim, None) or Scope(dim)
        self._open.append(scope)
        self.define(carries, scope, dim)
        return scope

    def open_block(self) -> Scope:
        """Open the scope of a block of a branch."""
        self._open.append(Scope(max(s.dim for s in self._open), closed=True))
        return self._open[-1]

    def close(self) -> Scope:
        """Close the innermost scope and return it."""
        return self._open.pop()
