"""The map schedule: kernels without reductions, several neighbouring elements for each thread.

A thread takes ``groups`` chunks of ``chunk`` neighbours; the chunks of a block lie side by side, so
that a warp reads whole lines. All loads come before the first use. The last block, which runs past
the end, loads and stores element by element.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterator

from minijit.graph.index import Affine
from minijit.graph.layout import contiguous_strides
from minijit.lowering.cuda_emitter import CudaEmitter
from minijit.lowering.cuda_launch import VECTOR_BYTES, CudaLaunch, unrolled_lanes
from minijit.lowering.cuda_vectors import map_chunk, uniform_guards
from minijit.lowering.kernel_ir import Gather, Kernel, Level, Load, Map, Reduce, Statement, Store
from minijit.lowering.source import KernelSource

__all__ = ["MapEmitter", "MapShape", "emit_map", "finished"]

_LARGE = 2**20
_LONG_BODY = 40
_SCALAR_GROUPS = 4
_EASY_LANES = 8


@dataclasses.dataclass(frozen=True, slots=True)
class MapShape:
    """How many elements a thread takes, ``groups`` times ``chunk`` neighbours.

    ``written``: the body is written out for each neighbour, since a loop would not unroll.
    """

    chunk: int
    groups: int
    threads: int
    written: bool = False

    @property
    def lanes(self) -> int:
        """Elements of a thread."""
        return self.chunk * self.groups

    @property
    def stride(self) -> int:
        """Distance between the groups of a thread."""
        return self.chunk * self.threads

    @property
    def tile(self) -> int:
        """Elements of a block."""
        return self.lanes * self.threads


def emit_map(kernel: Kernel, *, vectorize: bool, work: int | None) -> KernelSource:
    """Write a kernel without reductions."""
    size = math.prod(kernel.rows)
    shape = _choose(kernel, size, vectorize)
    widest = max(buffer.dtype.itemsize for buffer in kernel.buffers)
    most = unrolled_lanes(kernel.statements)
    if work is None and most < _EASY_LANES and shape.chunk == VECTOR_BYTES // widest == 2:
        # float64 functions are long: a loop over the two elements of a vector might not unroll.
        shape = dataclasses.replace(shape, groups=1, written=True)
        return finished(MapEmitter(kernel, shape, size), -(-size // shape.tile), vectorize)
    most = min(work or shape.lanes, most)
    while shape.lanes > most:
        halved = "groups" if shape.groups > 1 else "chunk"
        shape = dataclasses.replace(shape, **{halved: getattr(shape, halved) // 2})
    if shape.chunk * widest < VECTOR_BYTES:
        # Too few neighbours for a vector: take elements side by side with other threads instead.
        shape = dataclasses.replace(shape, chunk=1, groups=shape.lanes)
    return finished(MapEmitter(kernel, shape, size), -(-size // shape.tile), vectorize)


def finished(emitter: MapEmitter, grid: int, vectorize: bool) -> KernelSource:
    """Return the source that ``emitter`` writes, to be launched in ``grid`` blocks."""
    emitter.write()
    shape, grid = emitter.shape, max(grid, 1)
    each = f"{shape.groups} x {shape.chunk} elements each"
    note = f"{emitter.schedule}: {grid} blocks of {shape.threads} threads, {each}"
    aligned = tuple(sorted(emitter.aligned))
    sizes = tuple(emitter.sizes.values())
    launch = CudaLaunch(grid, shape.threads, 0, aligned, vectorize, shape.lanes, sizes)
    return KernelSource(emitter.kernel, emitter.writer.text, emitter.names, note, launch)


def _choose(kernel: Kernel, size: int, vectorize: bool) -> MapShape:
    threads = 256 if size >= _LARGE else 128
    chunk = map_chunk(kernel) if vectorize and kernel.rows else 1
    if chunk == 1:
        return MapShape(1, _SCALAR_GROUPS if size >= _LARGE else 1, threads)
    loads = [s for s in kernel.statements if isinstance(s, Load)]
    maps = sum(isinstance(s, Map) for s in kernel.statements)
    widest = max(buffer.dtype.itemsize for buffer in kernel.buffers)
    short = len(loads) <= 4 and maps <= _LONG_BODY and chunk * widest <= VECTOR_BYTES
    return MapShape(chunk, 2 if short and size >= _LARGE else 1, threads)


_Access = Callable[[bool], None]


class MapEmitter(CudaEmitter):
    """Writes one map kernel.

    Attributes:
        shape: The elements of a thread.
        size: Number of elements.
        tail: Whether some threads have fewer elements than others.
        neighbour: Code of the current lane's number in its chunk.
        lane: The same where code is being written for one lane, else empty.
        place_of_group: Code of the number of the group's first element; empty if elements are taken
            in another order than theirs.
        run: The terms of an index that is an element's number.
    """

    schedule = "map"

    def __init__(self, kernel: Kernel, shape: MapShape, size: int) -> None:
        """Start an empty text."""
        super().__init__(kernel)
        self.shape = shape
        self.size = size
        self.inner = len(kernel.rows) - 1
        self.tail = size % shape.tile != 0
        # Whole tiles know nothing of their number; elsewhere one code serves every size.
        if len(kernel.rows) == 1 and self.tail:
            self.sizes = {"extent": size}
        self.neighbour = "k"
        self.lane = ""
        self.place_of_group = ""
        strides = zip(kernel.rows, contiguous_strides(kernel.rows), strict=True)
        self.run = tuple((dim, step) for dim, (n, step) in enumerate(strides) if n > 1)
        self.uniform = uniform_guards(kernel, self.inner, shape.chunk) if shape.chunk > 1 else {}
        """Loads that whole chunks do or leave out, with what decides."""
        self.loads: list[Load] = []
        self.stores: list[Store] = []
        self.body: list[Statement] = []

    def write(self) -> None:
        """Write the whole function."""
        with self.whole_function():
            self.place()
            for statement in self.kernel.statements:
                self._sort(statement)
            self.declare()
            self.read()
            self._compute()
            self.finish()

    def declare(self) -> None:
        """Write the arrays in which a thread holds its elements."""
        for load in self.loads:
            self.local(f"{load.out.name}_", self.shape.lanes, load.out.dtype)
        for store in self.stores:
            dtype = self.kernel.buffers[store.buffer].dtype
            self.local(f"o{store.buffer}_", self.shape.lanes, dtype)

    def read(self) -> None:
        """Write the loads that come before the first use."""
        if self.loads:
            self.in_two_ways(self._load)

    def finish(self) -> None:
        """Write the stores that come after everything else."""
        if self.stores:
            self.in_two_ways(self._store)

    def comes_first(self, load: Load) -> bool:
        """Whether a load comes before everything else."""
        return load.guard is None or load in self.uniform

    def _sort(self, statement: Statement) -> None:
        """Put a statement where it belongs; what exists once a launch is written at once."""
        if isinstance(statement, Reduce):
            raise TypeError("a map kernel has no reductions")
        if isinstance(statement, Store):
            vector = self.vectorizable(
                statement.buffer, statement.index, self.inner, self.shape.chunk
            )
            if statement.level is Level.LAUNCH and self.kernel.rows:
                with self.writer.block(f"if {self.first}:"):
                    self.store(statement)
            else:
                (self.stores if vector else self.body).append(statement)
        elif statement.out.level is Level.LAUNCH:
            self.statement(statement)
        elif isinstance(statement, Load) and self.comes_first(statement):
            self.loads.append(statement)
        else:
            self.body.append(statement)

    def in_two_ways(self, access: _Access) -> None:
        """Write an access for whole tiles and, where the last one is not, for its elements."""
        if not self.tail:
            access(True)
            return
        with self.writer.block(f"if {self.whole}:"):
            access(True)
        with self.writer.block("else:"):
            access(False)

    @contextlib.contextmanager
    def groups(self) -> Iterator[str]:
        """Write the loop over the groups of a thread; yields code of the group's first lane."""
        if self.shape.groups == 1:
            self.group("0")
            yield ""
            return
        with self.writer.block(f"for g in range({self.shape.groups}):"):
            self.group("g")
            yield f"{self.shape.chunk}*g" if self.shape.chunk > 1 else "g"

    @contextlib.contextmanager
    def _lane(self, first: str) -> Iterator[str]:
        """Write the loop over a chunk; yields code of the lane."""
        if self.shape.chunk == 1:
            yield first or "0"
            return
        with self.writer.block(f"for k in range({self.shape.chunk}):"):
            name = self.dims[self.inner]
            self.dims[self.inner], self.lane = f"({name} + k)", "k"
            yield f"{first} + k" if first else "k"
            self.dims[self.inner], self.lane = name, ""

    # Where elements lie; another order of them overrides these.

    first = "start == 0"
    """Code that holds for one thread of the launch."""

    def place(self) -> None:
        """Write where the elements of the thread start."""
        block, thread = self.call("block_index"), self.call("thread_index")
        start = f"{block}*{self.shape.tile} + {thread}*{self.shape.chunk}"
        self.writer.line(f"start = {self.integer(start)}")

    @property
    def end(self) -> str:
        """Code of the number of elements."""
        return next(iter(self.sizes), str(self.size))

    @property
    def whole(self) -> str:
        """Code that holds where all elements of the thread exist."""
        last = self.shape.stride * (self.shape.groups - 1) + self.shape.chunk
        return f"start + {last} <= {self.end}"

    @property
    def inside(self) -> str:
        """Code that holds where the element of the current lane exists."""
        one = self.shape.chunk == 1
        element = self.position if one else f"{self.position} + {self.neighbour}"
        return f"{element} < {self.end}"

    def group(self, number: str) -> None:
        """Write the indices of the first element of group ``number``."""
        position = self.place_of_group = "start"
        if number != "0":
            position, self.place_of_group = "p", f"start + {self.shape.stride}*{number}"
            self.writer.line(f"p = {self.integer(self.place_of_group)}")
        self.position = position
        if self.kernel.rows:
            self.unflatten(position, range(len(self.kernel.rows)))

    def index(self, affine: Affine) -> str:
        """Return code of an index; of what lies as the space does, the element's number.

        That of a group differs from that of another by a constant, which an access adds by itself.
        """
        several = len(self.kernel.rows) > 1
        if not (several and self.place_of_group and affine.terms == self.run):
            return super().index(affine)
        parts = [self.place_of_group, self.lane, str(affine.offset or "")]
        return " + ".join(filter(None, parts)).replace("+ -", "- ")

    def _load(self, whole: bool) -> None:
        with self.groups() as first:
            for load in self.loads:
                guard = self.uniform.get(load)
                if guard is None:
                    self._load_group(load, first, whole)
                    continue
                self.statement(guard)
                with self.writer.block(f"if {guard.out.name}:"):
                    self._load_group(load, first, whole)
                with self.writer.block("else:"), self._lane(first) as lane:
                    self.writer.line(f"{load.out.name}_[{lane}] = {self.zero(load.out.dtype)}")

    def _load_group(self, load: Load, first: str, whole: bool) -> None:
        name, note = f"{load.out.name}_", self.kernel.buffers[load.buffer].name
        if self.vectorizable(load.buffer, load.index, self.inner, self.shape.chunk):
            self._load_chunk(load, name, first, whole, note)
            return
        with self._lane(first) as lane:
            code = self.load_code(load.buffer, self.index(load.index))
            if not whole:
                zero = self.call("zero", f"b{load.buffer}")
                code = f"{code} if {self.inside} else {zero}"
            self.writer.line(f"{name}[{lane}] = {code}", note)

    def _load_chunk(self, load: Load, name: str, first: str, whole: bool, note: str) -> None:
        index = self.index(load.index)
        width = self.vectors(load.buffer, self.shape.chunk)
        if not whole:
            count = self.shape.chunk
            valid = f"{self.end} - {self.position}"
            code = self.call("load_tail", name, first or 0, count, f"b{load.buffer}", index, valid)
            self.writer.line(code, note)
            return
        for part in range(0, self.shape.chunk, width):
            code = self.call(
                "load_vector", name, _plus(first, part), f"b{load.buffer}", _plus(index, part)
            )
            self.writer.line(code, note)

    def _store(self, whole: bool) -> None:
        with self.groups() as first:
            for store in self.stores:
                index = self.index(store.index)
                name, buffer = f"o{store.buffer}_", f"b{store.buffer}"
                note = self.kernel.buffers[store.buffer].name
                width = self.vectors(store.buffer, self.shape.chunk)
                if not whole:
                    count, valid = self.shape.chunk, f"{self.end} - {self.position}"
                    code = self.call("store_tail", buffer, index, name, first or 0, count, valid)
                    self.writer.line(code, note)
                    continue
                for part in range(0, self.shape.chunk, width):
                    code = self.call(
                        "store_vector", buffer, _plus(index, part), name, _plus(first, part)
                    )
                    self.writer.line(code, note)

    def _compute(self) -> None:
        memory = any(isinstance(s, Load | Gather | Store) for s in self.body)
        with self.groups() as first:
            for lanes in self._lanes(first):
                with lanes as lane, contextlib.ExitStack() as stack:
                    if self.tail and memory:
                        stack.enter_context(self.writer.block(f"if {self.inside}:"))
                    for load in self.loads:
                        self.writer.line(f"{load.out.name} = {load.out.name}_[{lane}]")
                    for statement in self.body:
                        self.statement(statement)
                    for store in self.stores:
                        value = self.operand(store.value)
                        self.writer.line(f"o{store.buffer}_[{lane}] = {value}")

    def _lanes(self, first: str) -> Iterator[contextlib.AbstractContextManager[str]]:
        """Yield one loop over a chunk, or each of its lanes where they are written out."""
        if not self.shape.written:
            yield self._lane(first)
            return
        for lane in range(self.shape.chunk):
            yield self._one_lane(lane)

    @contextlib.contextmanager
    def _one_lane(self, lane: int) -> Iterator[str]:
        name, neighbour = self.dims[self.inner], self.neighbour
        self.dims[self.inner], self.neighbour, self.lane = _plus(name, lane), str(lane), str(lane)
        yield str(lane)
        self.dims[self.inner], self.neighbour, self.lane = name, neighbour, ""


def _plus(code: str, number: int) -> str:
    if not code:
        return str(number)
    return f"{code} + {number}" if number else code
