"""A structured kernel cut into loops over lanes: what runs in vectors, what once, in what order."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence

from minijit.lowering.kernel_ir import (
    Branch,
    Kernel,
    Loop,
    Node,
    Operand,
    Product,
    Reduce,
    Statement,
    Store,
    Value,
    blocks,
    outputs_of,
    walk,
)
from minijit.lowering.stages import indices, operands

__all__ = ["Cases", "Item", "Lanes", "Once", "Same", "Steps", "Structure", "reads"]

_REPEATED = 48
"""Most statements that may be written once more to spare values a way through memory."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Same:
    """``out = source``: another name."""

    out: Value
    source: Operand


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Once:
    """A statement that gives the same for all lanes."""

    statement: Statement | Same


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Lanes:
    """One loop over the lanes; when a lane's statements are done, its ``writes`` happen at once.

    A ``Reduce`` among the statements gives its result after the loop.
    """

    statements: tuple[Statement | Same, ...]
    writes: tuple[tuple[Value, Operand], ...] = ()

    @property
    def defined(self) -> set[Value]:
        """The values that each lane computes."""
        return {s.out for s in self.statements if not isinstance(s, Store | Reduce)}

    @property
    def read(self) -> dict[Value, None]:
        """The values that it reads and does not compute, in order."""
        found = [o for s in self.statements for o in reads(s)] + [o for _, o in self.writes]
        own = self.defined
        return {o: None for o in found if isinstance(o, Value) and o not in own}


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """A loop. What its lanes carry is written by the lanes; what they share is its own affair."""

    node: Loop
    condition: tuple[Item, ...]
    body: tuple[Item, ...]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Cases:
    """A branch; its results are written or named by its blocks."""

    node: Branch
    blocks: tuple[tuple[Item, ...], ...]


Item = Once | Lanes | Product | Steps | Cases
Writes = tuple[tuple[Value, Operand], ...]


class Structure:
    """The items of a kernel for vectors along some dimensions, or for none.

    Attributes:
        lanes: The dimensions along which the lanes lie: one of the rows, or all columns; none when
            every point is computed by itself.
        varying: The values that differ from lane to lane.
        uniform: Whether all predicates are the same for all lanes.
        items: The kernel's body.
    """

    def __init__(self, kernel: Kernel, lanes: Iterable[int]) -> None:
        """Cut ``kernel`` into items."""
        self.kernel, self.lanes = kernel, frozenset(lanes)
        self.varying: set[Value] = set()
        known = -1
        while self.lanes and known < len(self.varying):
            known = len(self.varying)
            self._spread(kernel.body)
        self.uniform = not self.varying.intersection(_predicates(kernel.body))
        self.items = self._items(kernel.body, ()) if self.uniform else ()

    def everything(self, items: Sequence[Item] | None = None) -> Iterator[Item]:
        """Yield all items, those inside others too."""
        for item in self.items if items is None else items:
            yield item
            for inner in _inside(item):
                yield from self.everything(inner)

    def _spread(self, body: Iterable[Node]) -> None:
        """Add to ``varying`` what follows from what is in it, once through ``body``."""
        for node in body:
            for block in blocks(node):
                self._spread(block.body)
            match node:
                case Loop():
                    rows = zip(node.carries, node.outs, node.inits, node.body.results, strict=True)
                    for carry, out, *sources in rows:
                        if self.varying.intersection([carry, *_values(sources)]):
                            self.varying |= {carry, out}
                case Branch():
                    for out, *sources in zip(
                        node.outs, *(block.results for block in node.blocks), strict=True
                    ):
                        if self.varying.intersection(_values(sources)):
                            self.varying.add(out)
                case Store():
                    pass
                case _:
                    if isinstance(node, Product):
                        # Every cell reads all of its row: it has to lie in an array.
                        self.varying |= _values([node.row])
                    if self._varies(node):
                        self.varying.add(node.out)

    def _varies(self, statement: Statement) -> bool:
        """Whether the result of a statement differs from lane to lane."""
        if isinstance(statement, Product):
            return True
        if isinstance(statement, Reduce):
            # One of several rows at once has another result than its neighbours.
            return any(dim < len(self.kernel.rows) for dim in self.lanes)
        along = any(self.lanes.intersection(index.dims) for index in indices(statement))
        return along or bool(self.varying.intersection(_values(operands(statement))))

    def _differs(self, node: Node) -> bool:
        """Whether a statement, or one inside it, is not the same for all lanes."""
        for each in walk((node,)):
            if isinstance(each, Reduce) or self.varying.intersection(outputs_of(each)):
                return True
            if isinstance(each, Store) and (
                self.lanes.intersection(each.index.dims) or each.value in self.varying
            ):
                return True
        return False

    def _items(self, body: Sequence[Node | Same], writes: Writes) -> tuple[Item, ...]:
        """Return the items of a block, which end with ``writes``."""
        done: list[Item] = []
        lanes: list[Statement | Same] = []
        place = 0
        while place < len(body):
            node = body[place]
            place += 1
            if _awaits(lanes, _read_in(node)) or _multiplied(lanes, node):
                done += self._lanes(lanes, ())
                lanes = []
            if isinstance(node, Same):
                if node.out in self.varying:
                    lanes.append(node)
                else:
                    done.append(Once(node))
            elif not self._differs(node):
                # What is the same for all lanes depends on none of those that wait.
                done.append(self._shared(node))
            elif isinstance(node, Product):
                done.append(node)
            elif isinstance(node, Loop):
                starts = self._differing(zip(node.carries, node.inits, strict=True))
                done += self._lanes(lanes, starts)
                lanes = []
                done.append(self._steps(node))
            elif isinstance(node, Branch):
                after = list(_straight(body[place:]))
                last = place + len(after) == len(body)
                if self._repeats(lanes, node, after):
                    own = writes if last else ()
                    done.append(self._cases(node, lanes, after, own))
                    lanes = []
                    place += len(after)
                    writes = () if last else writes
                else:
                    done += self._lanes(lanes, ())
                    lanes = []
                    done.append(self._cases(node, [], [], ()))
            else:
                lanes.append(node)
        if _awaits(lanes, (source for _, source in writes)):
            done += self._lanes(lanes, ())
            lanes = []
        return (*done, *self._lanes(lanes, writes))

    def _shared(self, node: Node) -> Item:
        match node:
            case Loop():
                return self._steps(node)
            case Branch():
                return self._cases(node, [], [], ())
        return Once(node)

    def _lanes(self, statements: list[Statement | Same], writes: Writes) -> list[Item]:
        return [Lanes(tuple(statements), writes)] if statements or writes else []

    def _steps(self, node: Loop) -> Steps:
        condition = () if node.condition is None else self._items(node.condition.body, ())
        nexts = self._differing(zip(node.carries, node.body.results, strict=True))
        return Steps(node, condition, self._items(node.body.body, nexts))

    def _cases(
        self,
        node: Branch,
        before: list[Statement | Same],
        after: list[Statement | Same],
        writes: Writes,
    ) -> Cases:
        """Return a branch whose blocks begin with ``before`` and end with ``after``."""
        found: list[tuple[Item, ...]] = []
        merged = bool(before or after or writes)
        for block in node.blocks:
            pairs = list(zip(node.outs, block.results, strict=True))
            named = [Same(*pair) for pair in pairs if merged or pair[0] not in self.varying]
            own = writes if merged else self._differing(pairs)
            found.append(self._items([*before, *block.body, *named, *after], own))
        return Cases(node, tuple(found))

    def _repeats(
        self, before: list[Statement | Same], node: Branch, after: list[Statement | Same]
    ) -> bool:
        """Whether what stands around a branch is better written in each of its blocks."""
        straight = not any(blocks(inner) for block in node.blocks for inner in block.body)
        again = (len(before) + len(after)) * (len(node.blocks) - 1)
        return straight and again <= _REPEATED

    def _differing(self, pairs: Iterable[tuple[Value, Operand]]) -> Writes:
        """Return those of the ``(target, source)`` whose target differs and is not the source."""
        return tuple(pair for pair in pairs if pair[0] in self.varying and pair[0] is not pair[1])


def _awaits(lanes: Sequence[Statement | Same], found: Iterable[Operand]) -> bool:
    """Whether one of the operands is reduced by the lanes: it is known when all have run."""
    reduced = {s.out for s in lanes if isinstance(s, Reduce)}
    return bool(reduced) and bool(reduced.intersection(_values(found)))


def _multiplied(lanes: Sequence[Statement | Same], node: Node | Same) -> bool:
    """Whether a product reads what lanes compute: all of them have to run before."""
    return isinstance(node, Product) and any(
        not isinstance(s, Store) and s.out is node.row for s in lanes
    )


def _read_in(node: Node | Same) -> Iterator[Operand]:
    """Yield what a statement reads, with what those inside it read."""
    if isinstance(node, Same):
        yield node.source
        return
    for each in walk((node,)):
        match each:
            case Loop():
                yield from each.inits
            case Branch():
                yield each.index
            case _:
                yield from operands(each)
        for block in blocks(each):
            yield from block.results


def reads(statement: Statement | Same) -> tuple[Operand, ...]:
    """Return the values and constants that a statement reads."""
    return (statement.source,) if isinstance(statement, Same) else operands(statement)


def _values(found: Iterable[object]) -> set[Value]:
    return {operand for operand in found if isinstance(operand, Value)}


def _inside(item: Item) -> tuple[tuple[Item, ...], ...]:
    match item:
        case Steps():
            return item.condition, item.body
        case Cases():
            return item.blocks
    return ()


def _predicates(body: Iterable[Node]) -> Iterator[Operand]:
    for node in walk(body):
        if isinstance(node, Branch):
            yield node.index
        elif isinstance(node, Loop) and node.condition is not None and not node.together:
            yield from node.condition.results


def _straight(body: Sequence[Node | Same]) -> Iterator[Statement | Same]:
    """Yield statements up to the first that holds others."""
    for node in body:
        if isinstance(node, Loop | Branch):
            return
        yield node
