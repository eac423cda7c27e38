"""Runs generated CUDA kernels in plain Python: each thread a generator, warps in step at exchanges.

The generated text and the device functions in it are executed as they are; only the intrinsics,
which are LLVM code, have Python stand-ins. Memory is checked: no access outside a buffer, no
misaligned vector, no output element written twice, no read of shared memory that another warp
writes without a barrier in between.
"""

from __future__ import annotations

import ast
import ctypes
import inspect
import math
import textwrap
import types
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any

import numpy as np
from numba import cuda
from numba.core import types as numba_types
from numba.cuda.dispatcher import CUDADispatcher

from minijit.kernels.cuda import VOCABULARY
from minijit.kernels.cuda.tile import load_tile, store_tile
from minijit.kernels.cuda.warp import shuffle_from, shuffle_xor
from minijit.lowering.cuda import emit_cuda
from minijit.lowering.kernel_ir import Kernel
from minijit.lowering.source import KernelSource
from minijit.lowering.symbols import resolve_all
from tests.lowering.kernel_builder import evaluate, random_inputs

__all__ = ["Pointer", "compared", "in_python", "run"]

_COLLECTIVE = (cuda.syncthreads, shuffle_from, shuffle_xor)
_WARP = 32


class Pointer:
    """A buffer in global memory that checks its accesses."""

    def __init__(self, array: np.ndarray[Any, Any], aligned: bool = True, origin: int = 0) -> None:
        assert array.ndim == 1
        self.array = array
        self.aligned = aligned
        self.origin = origin
        self.writes = np.zeros(array.size, np.int64)
        self.vectors = 0
        self.owner = array
        self.register = np.dtype(np.float32) if array.dtype == np.float16 else array.dtype

    @staticmethod
    def of(array: np.ndarray[Any, Any]) -> Pointer:
        """Return a pointer to the first element of an array of any strides, aligned as it is."""
        low, high = np.lib.array_utils.byte_bounds(array)
        size, address = array.itemsize, array.ctypes.data
        memory = (ctypes.c_char * (high - low)).from_address(low)
        flat = np.frombuffer(memory, array.dtype)
        pointer = Pointer(flat, address % 16 == 0, (address - low) // size)
        # The view by address alone would not keep the memory.
        pointer.owner = array
        return pointer

    def get(self, index: int) -> Any:
        index += self.origin
        assert 0 <= index < self.array.size, f"load of element {index} of {self.array.size}"
        return self.register.type(self.array[index])

    def set(self, index: int, value: Any) -> None:
        index += self.origin
        assert 0 <= index < self.array.size, f"store to element {index} of {self.array.size}"
        self.writes[index] += 1
        self.array[index] = value

    def vector(self, index: int, count: int = 0) -> int:
        count = count or 16 // self.array.itemsize
        assert self.aligned, "vector access to an unaligned buffer"
        assert index % count == 0, f"vector access to element {index}, not a multiple of {count}"
        self.vectors += 1
        return count


class _Shared:
    """Shared memory of a block; finds warps that meet in a slot with no barrier in between."""

    def __init__(self, block: _Block, count: int, dtype: Any) -> None:
        self.block = block
        self.dtype = np.dtype(dtype)
        self.array = np.zeros(count, self.dtype)
        # The phase, between two barriers, and the warp of a slot's last write and last read.
        self.written = [(-1, -1)] * count
        self.read = [(-1, -1)] * count

    def __setitem__(self, index: Any, value: Any) -> None:
        assert 0 <= index < self.array.size
        self._meet(self.read[index])
        self._meet(self.written[index])
        self.array[index] = value
        self.written[index] = self._now

    def __getitem__(self, index: Any) -> Any:
        assert 0 <= index < self.array.size
        assert self.written[index][0] >= 0, "read of shared memory that was not written"
        self._meet(self.written[index])
        self.read[index] = self._now
        return self.array[index]

    @property
    def _now(self) -> tuple[int, int]:
        return self.block.phase, self.block.thread // _WARP

    def _meet(self, other: tuple[int, int]) -> None:
        phase, warp = self._now
        assert other[0] < phase or other[1] == warp, "race in shared memory"


class _Block:
    """The state of the block that is running, which intrinsics read."""

    def __init__(self) -> None:
        self.number = self.thread = self.phase = 0
        self.shared: list[_Shared] = []
        self.allocated: dict[int, int] = {}

    def allocate(self, count: int, dtype: Any, alignment: int = 0) -> _Shared:
        place = self.allocated.get(self.thread, 0)
        self.allocated[self.thread] = place + 1
        if place == len(self.shared):
            self.shared.append(_Shared(self, count, dtype))
        return self.shared[place]


def run(source: KernelSource, buffers: Sequence[Pointer], scalars: Sequence[Any] = ()) -> None:
    """Execute every block of a kernel on ``buffers``.

    Raises:
        AssertionError: an access is out of bounds or misaligned, an output element is not written
            exactly once, threads meet at different exchanges, or shared memory races.
    """
    state = _Block()
    kernel = _kernel(source, _Converter(state))
    scalars = [*scalars, *map(np.int64, source.launch.sizes)]
    threads = source.launch.block
    assert threads % _WARP == 0
    with np.errstate(all="ignore"):
        for block in range(source.launch.grid):
            state.__init__()  # type: ignore[misc]
            state.number = block
            _run_block(state, [kernel(*buffers, *scalars) for _ in range(threads)])
    for position, buffer in enumerate(source.kernel.buffers):
        if buffer.role.value == "out":
            assert (buffers[position].writes <= 1).all(), "an element was written twice"


def compared(
    kernel: Kernel, scalars: Sequence[Any] = (), tolerance: float = 1e-5, **options: Any
) -> tuple[KernelSource, list[Pointer]]:
    """Run a kernel thread by thread, compare every output with NumPy's.

    Returns:
        The source, and the buffers: inputs, then outputs.
    """
    source = emit_cuda(kernel, **options)
    inputs = random_inputs(kernel)
    expected = evaluate(kernel, inputs, scalars)
    outputs = [np.zeros(b.size, b.dtype) for b in kernel.outputs]
    aligned = source.launch.aligned
    buffers = [Pointer(array, n in aligned) for n, array in enumerate([*inputs, *outputs])]
    run(source, buffers, scalars)
    for result, wanted in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(result, wanted, rtol=tolerance, atol=tolerance)
    return source, buffers


def in_python(name: str) -> Callable[..., Any]:
    """Return the device function ``name`` of the vocabulary in which nothing meets."""
    function: Callable[..., Any] = _Converter(_Block()).convert(VOCABULARY[name])
    return function


def _kernel(source: KernelSource, converter: _Converter) -> Callable[..., Any]:
    found = resolve_all(source.names)
    names = {name: converter.convert(value) for name, value in found.items()}
    return _compiled(source.text, source.kernel.name, names, found, always=True)


class _Converter:
    """Turns what kernels refer to into Python: intrinsics, device functions, types, libdevice."""

    def __init__(self, state: _Block) -> None:
        self.state = state
        self.known: dict[int, Any] = {
            id(VOCABULARY[name]): function for name, function in _stand_ins(state).items()
        }
        self.known[id(shuffle_from)] = lambda value, lane: ("shuffle", value, int(lane) % _WARP)
        self.known[id(shuffle_xor)] = lambda value, mask: (
            "shuffle",
            value,
            state.thread % _WARP ^ int(mask),
        )
        self.known[id(load_tile)] = _load_tile
        self.known[id(store_tile)] = _store_tile
        self.known[id(cuda.syncthreads)] = lambda: ("barrier",)
        self.kept: list[Any] = []

    def convert(self, value: Any) -> Any:
        if id(value) in self.known:
            return self.known[id(value)]
        if isinstance(value, numba_types.Type):
            return np.bool_ if value == numba_types.boolean else np.dtype(value.name).type
        if isinstance(value, CUDADispatcher):
            function = self.known[id(value)] = self.function(value.py_func)
            self.kept.append(value)
            return function
        if getattr(math, getattr(value, "__name__", ""), None) is value:
            return lambda *args: type(args[0])(_math(value, *args))
        return value

    def function(self, function: types.FunctionType) -> Callable[..., Any]:
        found = inspect.getclosurevars(function)
        raw = {**found.globals, **found.nonlocals}
        names = {name: self.convert(value) for name, value in raw.items()}
        if any(_collective(value) for value in raw.values()):
            text = textwrap.dedent(inspect.getsource(function))
            return _compiled(text, function.__name__, names, raw)
        if not any(names[name] is not raw[name] for name in raw):
            return function
        cells = tuple(types.CellType(names[name]) for name in function.__code__.co_freevars)
        scope = {**function.__globals__, **names}
        return types.FunctionType(function.__code__, scope, function.__name__, None, cells)


def _math(function: Callable[..., float], *args: Any) -> float:
    try:
        return function(*args)
    except OverflowError:
        return math.inf
    except ValueError:
        return math.nan


def _collective(value: Any) -> bool:
    if value in _COLLECTIVE:
        return True
    if not isinstance(value, CUDADispatcher):
        return False
    found = inspect.getclosurevars(value.py_func)
    return any(_collective(v) for v in {**found.globals, **found.nonlocals}.values())


class _Exchanges(ast.NodeTransformer):
    """Makes every call in which threads meet a ``yield``."""

    def __init__(self, raw: dict[str, Any]) -> None:
        self.raw = raw

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        match node.func:
            case ast.Name(id=name):
                value = self.raw.get(name)
            case ast.Attribute(value=ast.Name(id=name), attr=member):
                value = getattr(self.raw.get(name), member, None)
            case _:
                value = None
        if value is None or not _collective(value):
            return node
        return ast.Yield(node) if value in _COLLECTIVE else ast.YieldFrom(node)


def _compiled(
    text: str, name: str, names: dict[str, Any], raw: Any, always: bool = False
) -> Callable[..., Any]:
    tree = ast.parse(text)
    assert isinstance(tree.body[0], ast.FunctionDef)
    tree.body[0].decorator_list = []
    if always:
        # A kernel in which threads never meet must be a generator as well.
        tree.body[0].body.insert(0, ast.parse("if False:\n    yield").body[0])
    tree = ast.fix_missing_locations(_Exchanges(dict(raw)).visit(tree))
    scope = dict(names)
    exec(compile(tree, f"<simt {name}>", "exec"), scope)
    return scope[name]


def _run_block(state: _Block, threads: list[Generator[Any, Any, None]]) -> None:
    warps = [list(range(first, first + _WARP)) for first in range(0, len(threads), _WARP)]
    answers: list[Any] = [None] * len(threads)
    waiting = warps
    while waiting:
        at_barrier = [
            warp for warp in waiting if _run_warp(state, threads, warp, answers) == "barrier"
        ]
        assert not at_barrier or len(at_barrier) == len(warps), "a warp misses a barrier"
        state.phase += 1
        waiting = at_barrier


def _run_warp(
    state: _Block, threads: list[Generator[Any, Any, None]], warp: list[int], answers: list[Any]
) -> str:
    """Run a warp to its next barrier or to its end."""
    while True:
        requests = [_resume(state, threads, thread, answers) for thread in warp]
        kinds = {request[0] for request in requests}
        assert len(kinds) == 1, f"threads of a warp diverge: {kinds}"
        if kinds != {"shuffle"}:
            return requests[0][0]
        for request, thread in zip(requests, warp, strict=True):
            answers[thread] = requests[request[2]][1]


def _resume(
    state: _Block, threads: list[Generator[Any, Any, None]], thread: int, answers: list[Any]
) -> tuple[Any, ...]:
    state.thread = thread
    try:
        answer, answers[thread] = answers[thread], None
        return threads[thread].send(answer)
    except StopIteration:
        return ("end",)


def _garbage(count: int, dtype: Any) -> np.ndarray[Any, Any]:
    # Registers hold anything before they are written.
    return np.frombuffer(b"\xa5" * (count * np.dtype(dtype).itemsize), dtype).copy()


def _load_tile(tile: _Shared, place: int, pointer: Pointer, index: int) -> None:
    for lane in range(pointer.vector(index, _vector(tile, place))):
        tile[place + lane] = pointer.get(index + lane)


def _store_tile(pointer: Pointer, index: int, tile: _Shared, place: int) -> None:
    for lane in range(pointer.vector(index, _vector(tile, place))):
        pointer.set(index + lane, tile[place + lane])


def _vector(tile: _Shared, place: int) -> int:
    """Return how many elements of a tile are 128 bits, which must be aligned."""
    count = 16 // tile.dtype.itemsize
    assert place % count == 0, f"vector access to element {place}, not a multiple of {count}"
    return count


def _stand_ins(state: _Block) -> dict[str, Any]:
    """Return Python functions that do what the docstrings of the device functions say."""

    def load_vector(into: Any, first: int, pointer: Pointer, index: int) -> None:
        for lane in range(pointer.vector(index)):
            into[first + lane] = pointer.get(index + lane)

    def store_vector(pointer: Pointer, index: int, values: Any, first: int) -> None:
        for lane in range(pointer.vector(index)):
            pointer.set(index + lane, values[first + lane])

    def load_tail(into: Any, first: int, count: int, pointer: Any, index: int, valid: int) -> None:
        for k in range(count):
            into[first + k] = pointer.get(index + k) if k < valid else pointer.register.type(0)

    def store_tail(
        pointer: Any, index: int, values: Any, first: int, count: int, valid: int
    ) -> None:
        for k in range(min(count, valid)):
            pointer.set(index + k, values[first + k])

    def narrow(value: int) -> int:
        assert -(2**31) <= value < 2**31, f"{value} does not fit in int32"
        return int(value)

    namespace = types.SimpleNamespace(
        syncthreads=lambda: ("barrier",),
        local=types.SimpleNamespace(array=_garbage),
        shared=types.SimpleNamespace(array=state.allocate),
    )
    stand_ins = {
        "advance": lambda position, step: position + step,
        "block_index": lambda: state.number,
        "cuda": namespace,
        "load": lambda pointer, index: pointer.get(index),
        "load_tail": load_tail,
        "load_vector": load_vector,
        "maximum": np.maximum,
        "minimum": np.minimum,
        "narrow": narrow,
        "quotient": lambda index, divisor: index // divisor,
        "remainder": lambda index, divisor: index % divisor,
        **{name: getattr(np, name) for name in ("ceil", "floor", "trunc")},
        "round_half": lambda value: np.float32(np.float16(value)),
        "store": lambda pointer, index, value: pointer.set(index, value),
        "store_tail": store_tail,
        "store_vector": store_vector,
        "thread_index": lambda: state.thread,
        "zero": lambda pointer: pointer.register.type(0),
        **{f"{name}_from_float": np.dtype(name).type for name in _integers()},
    }
    # NumPy's conversions keep the signs of NaNs anyway.
    signed = ("load", "load_tail", "load_vector", "round_half")
    return stand_ins | {f"{name}_signed": stand_ins[name] for name in signed}


def _integers() -> Iterable[str]:
    for width in (8, 16, 32, 64):
        yield from (f"int{width}", f"uint{width}")
