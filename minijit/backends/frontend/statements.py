"""Statements of kernels: assignments, loops and branches."""

from __future__ import annotations

import ast
import contextlib
import functools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import CodeType, FunctionType
from typing import Any

from minijit.backends.frontend.expressions import Expressions
from minijit.backends.frontend.numba import Numba
from minijit.backends.frontend.sources import free_names
from minijit.backends.frontend.values import FrontendError, Known, Operand, Typed, Unsupported
from minijit.backends.frontend.vectors import CHOICE_OF_LLVM, Uses, Vectors, tell
from minijit.graph.definitions import Definition, definition

__all__ = ["Function"]


class Function(Expressions):
    """One function: the kernel, or a device function that is written in its place.

    A variable lies in a slot of the stack; LLVM moves all slots into registers. Its type is that of
    what it is first assigned. Another type later makes it another variable where everything after
    sees that one. Inside a branch or a loop, where it does not, it is refused: which type the
    variable has at which place takes an analysis like Numba's own.
    """

    def __init__(
        self,
        numba: Numba,
        names: Mapping[str, Operand],
        locate: Callable[[ast.stmt], None] | None = None,
        vectors: Vectors = CHOICE_OF_LLVM,
        callers: tuple[CodeType, ...] = (),
    ) -> None:
        """Know the names of arguments and globals.

        Args:
            numba: Types and writes single operations.
            names: What is known by name already.
            locate: Is told of each statement before it is written.
            vectors: How innermost loops are to run.
            callers: The device functions inside of which this one is written, and itself.
        """
        super().__init__(numba)
        self._names = dict(names)
        self._locate = locate
        self._vectors = vectors
        self._uses = Uses(0)
        self._callers = callers
        self._slots: dict[str, Typed] = {}
        self._depth = 0
        self._loops: list[tuple[Any, Any]] = []
        self._end: Any = None
        self._results: list[tuple[Operand, Any]] = []

    # Names.

    def load(self, name: str) -> Operand | None:
        """Return the value of a variable, or what a name stands for."""
        slot = self._slots.get(name)
        if slot is not None:
            self._uses.load(name)
            return Typed(slot.type, self.numba.builder.load(slot.value))
        return self._names.get(name)

    def assign(self, name: str, operand: Operand) -> None:
        """Give a variable a value of its type."""
        builder = self.numba.builder
        slot = self._slots.get(name)
        value = self.numba.typed(operand)
        if slot is None or (value.type != slot.type and not self._depth):
            with builder.goto_entry_block():
                place = builder.alloca(self.numba.context.get_value_type(value.type), name=name)
            slot = self._slots[name] = Typed(value.type, place)
        if value.type != slot.type:
            raise TypeError(f"{name} is {slot.type} and would become {value.type}")
        builder.store(value.value, slot.value)
        self._uses.assign(name, self._depth)

    # Statements.

    @property
    def _ended(self) -> bool:
        return bool(self.numba.builder.block.is_terminated)

    def run(self, body: Sequence[ast.stmt]) -> None:
        """Write statements; none comes after one that leaves."""
        for statement in body:
            if self._locate is not None:
                self._locate(statement)
            try:
                self._statement(statement)
            except FrontendError:
                raise
            except Exception as error:
                where = f"line {statement.lineno}: {ast.unparse(statement)}"
                raise FrontendError(f"{where}\n{error}") from error
            if self._ended:
                return

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Assign(targets=[target]):
                self._store(target, self.evaluate(node.value))
            case ast.AugAssign():
                before = self.evaluate(node.target)
                self._store(node.target, self.operate(node.op, before, self.evaluate(node.value)))
            case ast.Expr(value=ast.Constant()):
                pass  # a docstring
            case ast.Expr():
                self.evaluate(node.value)
            case ast.If():
                self._if(node)
            case ast.For(target=ast.Name(id=name), orelse=[]):
                self._for(name, node)
            case ast.While(orelse=[]):
                self._while(node)
            case ast.Break():
                self.numba.builder.branch(self._loops[-1][1])
            case ast.Continue():
                self.numba.builder.branch(self._loops[-1][0])
            case ast.Return():
                self._leave(Known(None) if node.value is None else self.evaluate(node.value))
            case ast.Pass():
                pass
            case _:
                raise Unsupported(node)

    def _store(self, target: ast.expr, operand: Operand) -> None:
        match target:
            case ast.Name(id=name):
                self.assign(name, operand)
            case ast.Subscript():
                place = self.evaluate(target.value), self.evaluate(target.slice)
                self.numba.apply(operator.setitem, *place, operand)
            case ast.Tuple(elts=parts) if isinstance(operand, tuple):
                # All values are there before the first of the names changes.
                for part, value in zip(parts, operand, strict=True):
                    self._store(part, value)
            case _:
                raise Unsupported(target)

    def _if(self, node: ast.If) -> None:
        decides = self.condition(node.test)
        if isinstance(decides, Known):
            self.run(node.body if decides.value else node.orelse)
            return
        builder = self.numba.builder
        then, end = builder.append_basic_block("then"), builder.append_basic_block("endif")
        other = builder.append_basic_block("else") if node.orelse else end
        builder.cbranch(decides.value, then, other)
        reached = not node.orelse
        for block, body in ((then, node.body), (other, node.orelse)):
            if body:
                builder.position_at_end(block)
                self._depth += 1
                self.run(body)
                self._depth -= 1
                if not self._ended:
                    builder.branch(end)
                    reached = True
        builder.position_at_end(end)
        if not reached:
            builder.unreachable()

    @contextlib.contextmanager
    def _loop(self) -> Iterator[tuple[Any, Any, Any, Any]]:
        """Blocks of a loop: its test, its body, its step and what comes after it."""
        builder = self.numba.builder
        test, body, step, end = map(builder.append_basic_block, ("test", "body", "step", "end"))
        builder.branch(test)
        builder.position_at_end(test)
        self._loops.append((step, end))
        self._depth += 1
        yield test, body, step, end
        self._depth -= 1
        self._loops.pop()
        if not self._ended:
            builder.branch(step)
        builder.position_at_end(end)

    def _while(self, node: ast.While) -> None:
        builder = self.numba.builder
        with self._loop() as (test, body, step, end):
            decides = self.condition(node.test)
            if isinstance(decides, Known):
                builder.branch(body if decides.value else end)
            else:
                builder.cbranch(decides.value, body, end)
            builder.position_at_end(step)
            builder.branch(test)
            builder.position_at_end(body)
            self.run(node.body)

    def _for(self, name: str, node: ast.For) -> None:
        match node.iter:
            case ast.Call(func=ast.Name(id="range"), keywords=[]) if self.load("range") is None:
                bounds = list(map(self.evaluate, node.iter.args))
            case _:
                raise Unsupported(node.iter)
        if len(bounds) == 1:
            bounds.insert(0, Known(0))
        start, stop, stride = (*bounds, Known(1))[:3]
        if not isinstance(stride, Known) or not stride.value:
            raise TypeError("the step of a range must be a number other than zero")
        numba, builder = self.numba, self.numba.builder
        kind = numba.range_type([start, stop])
        first, last = numba.cast(start, kind), numba.cast(stop, kind)
        # The body may assign to the variable; this does not count.
        with builder.goto_entry_block():
            counter = builder.alloca(first.type)
        builder.store(first, counter)
        with self._loop() as (test, body, step, end):
            place = builder.load(counter)
            compare = builder.icmp_signed if kind.signed else builder.icmp_unsigned
            builder.cbranch(compare("<" if stride.value > 0 else ">", place, last), body, end)
            builder.position_at_end(step)
            by = numba.cast(stride, kind)
            following = builder.add(place, by, flags=("nsw",) if kind.signed else ())
            builder.store(following, counter)
            again = builder.branch(test)
            builder.position_at_end(body)
            before = len(builder.function.blocks)
            self._uses = Uses(self._depth)
            self.assign(name, Typed(kind, place))
            self.run(node.body)
            if not any(map(_loops, node.body)):
                blocks = [body, *builder.function.blocks[before:]]
                tell(self._vectors, again, blocks, self._uses)

    # Functions.

    def inline(self, function: FunctionType, operands: list[Operand]) -> Operand | None:
        """Return the result of a device function, written here; None if it is to be called."""
        code = function.__code__
        tree = None if code in self._callers else definition(code)
        if tree is None:
            return None
        before = self.numba.place()
        try:
            names = free_names(function)
            callee = Function(self.numba, names, callers=(*self._callers, code))
            callee.bind(tree, operands)
            return callee.result(tree)
        except Exception:
            # Numba can do it, or says best why nobody can.
            self.numba.undo(before)
            return None

    def bind(self, tree: Definition, operands: Sequence[Operand]) -> None:
        """Name the arguments; those that are assigned to later are variables from the start."""
        changed = _assigned(tree)
        for argument, operand in zip(tree.args.args, operands, strict=True):
            if argument.arg in changed:
                self.assign(argument.arg, operand)
            else:
                self._names[argument.arg] = operand

    def result(self, tree: Definition) -> Operand:
        """Write the body of a device function and return its result."""
        if isinstance(tree, ast.Lambda):
            return self.evaluate(tree.body)
        match tree.body:
            case [ast.Return(value=ast.expr() as value)]:
                return self.evaluate(value)
        self._end = self.numba.builder.append_basic_block("returned")
        self.run(tree.body)
        if not self._ended:
            self._leave(Known(None))
        self.numba.builder.position_at_end(self._end)
        return self.join(self._results)

    def _leave(self, result: Operand) -> None:
        builder = self.numba.builder
        self._results.append((result, builder.block))
        builder.branch(self._end)


def _loops(node: ast.stmt) -> bool:
    """Whether a statement is a loop or holds one."""
    if isinstance(node, ast.If):
        return any(map(_loops, (*node.body, *node.orelse)))
    return isinstance(node, ast.For | ast.While)


@functools.lru_cache(1024)
def _assigned(tree: Definition) -> frozenset[str]:
    """Return the names that a function assigns to."""
    names = (node for node in ast.walk(tree) if isinstance(node, ast.Name))
    return frozenset(name.id for name in names if isinstance(name.ctx, ast.Store))
