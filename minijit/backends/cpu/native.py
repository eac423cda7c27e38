"""The launch path in machine code: a builtin that unpacks arrays and runs units on threads.

It is LLVM assembly that llvmlite compiles, and that is kept on disk as kernels are: no Python runs
between the call and the kernel, and threads never need the interpreter's lock. Layouts of the three
records it reads:

- a launch (int64 array): entry, number of arguments, units, scratch bytes, mode, the addresses of
  the pool, of None and of OverflowError, then the kind of each argument (:class:`Kind`), then the
  value of each, of which only sizes have one;
- the pool (int64 array): :class:`Slot`;
- tuples and NumPy arrays: the offset of the first item and of the data pointer, both verified.
"""

from __future__ import annotations

import ctypes
import enum
import functools
import platform
import string
import sys
from functools import partial
from typing import Any

import numpy as np

from minijit.backends.base import Binary, Build, Support
from minijit.backends.cpu.assembly import ALONE, LAUNCH
from minijit.backends.cpu.loader import compile_assembly, load_object
from minijit.backends.cpu.pool_assembly import NO_POOL, POOL
from minijit.graph.interrupts import uninterrupted
from minijit.graph.locks import process_lock

__all__ = [
    "HEADER",
    "THREADS_SUPPORTED",
    "Kind",
    "LaunchPath",
    "Mode",
    "Slot",
    "launch_path",
]

THREADS_SUPPORTED = sys.platform == "linux"
"""Whether kernels run on several threads: the pool is written for Linux (unnamed semaphores)."""
_LOOKS = 2500
"""How often a thread looks for work, or for the end of it, before it sleeps: some 50 microseconds,
about what it takes to wake up."""
_PAUSES = {"x86_64": "call void @llvm.x86.sse2.pause()"}
"""Instructions that let a processor wait a little between two looks, and spare its neighbour."""
HEADER = 8
"""Number of fields of a launch record before the argument kinds."""
_lock = process_lock()


_PYTHON_FUNCTIONS = (
    "PyErr_ExceptionMatches",
    "PyErr_Format",
    "PyErr_NoMemory",
    "PyErr_Occurred",
    "PyEval_RestoreThread",
    "PyEval_SaveThread",
    "PyFloat_AsDouble",
    "PyLong_AsLongLong",
    "PyLong_AsUnsignedLongLong",
    "PyNumber_Index",
    "PyObject_IsTrue",
    "Py_DecRef",
    "Py_IncRef",
)
_THREAD_FUNCTIONS = (
    "pthread_create",
    "pthread_detach",
    "pthread_sigmask",
    "sem_post",
    "sem_trywait",
    "sem_wait",
    "sigfillset",
)


class Kind(enum.IntEnum):
    """How an argument of a launch is converted; integers must fit."""

    BUFFER = 0
    FLOAT32 = 1
    FLOAT64 = 2
    BOOL = 3
    # The last two bits tell the width.
    INT8 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    UINT8 = 8
    UINT16 = 9
    UINT32 = 10
    UINT64 = 11
    SIZE = 12  # not given by the caller: known to the launch


class Mode(enum.IntEnum):
    """Who runs the units of a launch."""

    HOLDING = 0  # this thread, keeping the interpreter's lock: the work is shorter than a hand-over
    ALONE = 1  # this thread, with the lock released
    PARALLEL = 2  # all threads of the pool


class Slot(enum.IntEnum):
    """Fields of the pool's record; its semaphores and its counter have their own cache lines."""

    BUSY = 0
    ENTRY = 1
    UNITS = 2
    SCRATCH = 3
    ARGUMENTS = 4
    WANTED = 5
    STARTED = 6
    NEXT = 16
    WAKE = 32
    DONE = 48
    SIZE = 64


@functools.cache
def _symbols() -> dict[str, int]:
    """Return the address of every function that the launch path calls."""
    process = ctypes.CDLL("ucrtbase" if sys.platform == "win32" else None)
    functions = {name: getattr(ctypes.pythonapi, name) for name in _PYTHON_FUNCTIONS}
    functions |= {name: getattr(process, name) for name in ("malloc", "free")}
    if THREADS_SUPPORTED:
        functions |= {name: getattr(process, name) for name in _THREAD_FUNCTIONS}
    return {
        name: ctypes.cast(function, ctypes.c_void_p).value or 0
        for name, function in functions.items()
    }


def _offsets() -> tuple[int, int]:
    """Return where a tuple keeps its items and a NumPy array its data pointer.

    Raises:
        RuntimeError: this interpreter or NumPy lays them out in another way.
    """
    item, data = tuple.__basicsize__, object.__basicsize__
    probe = (np.empty(3),)
    found = ctypes.c_int64.from_address(id(probe) + item).value
    pointer = ctypes.c_int64.from_address(id(probe[0]) + data).value
    if found != id(probe[0]) or pointer != probe[0].ctypes.data:
        raise RuntimeError("minijit does not know how this interpreter lays out tuples and arrays")
    return item, data


@functools.cache
def _source() -> Support:
    """Return the source of the launch path, the same in all processes of one interpreter.

    Raises:
        RuntimeError: this interpreter or NumPy lays objects out in an unknown way.
    """
    item, data = _offsets()
    fields: dict[str, int | str] = {
        "item": item,
        "data": data,
        "header": HEADER,
        "SIZE_KIND": int(Kind.SIZE),
    }
    fields |= {slot.name: int(slot) for slot in Slot}
    fields |= {"LOOKS": _LOOKS, "PAUSE": _PAUSES.get(platform.machine(), "")}
    pool = POOL if THREADS_SUPPORTED else NO_POOL
    text = string.Template(ALONE + pool + LAUNCH).substitute(fields)

    def compile() -> Binary:
        return Binary(uninterrupted(partial(compile_assembly, text)), "launch", {})

    return Support("launch_path", text, compile)


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class LaunchPath:
    """The launch path, loaded."""

    def __init__(self, binary: Binary) -> None:
        """Load its machine code."""
        self._code = load_object(binary.code, binary.entry, _symbols())
        takes_one_argument = 0x0008  # METH_O
        self._definition = _MethodDef(
            b"launch", self._code.address, takes_one_argument, b"Run one kernel."
        )
        self._create = ctypes.PYFUNCTYPE(
            ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p
        )(("PyCFunction_NewEx", ctypes.pythonapi))

    def builtin(self, record: np.ndarray[Any, np.dtype[np.int64]]) -> Any:
        """Return the builtin function that runs a launch record, which it keeps alive."""
        return self._create(ctypes.addressof(self._definition), record, None)


# For ever: threads of the pool run its code.
_loaded: dict[Support, LaunchPath] = {}


def launch_path(build: Build | None = None) -> LaunchPath:
    """Return the launch path of this process; ``build`` has its machine code, if it is given."""
    source = _source()
    if source not in _loaded:
        binary = source.compile() if build is None else build(source)
        # A second one, made by a thread at the same time, must not replace the first.
        with _lock:
            if source not in _loaded:
                _loaded[source] = uninterrupted(partial(LaunchPath, binary))
    return _loaded[source]
