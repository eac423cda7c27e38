"""The launch path in machine code: a builtin that unpacks arrays and runs units on threads.

It is LLVM assembly, compiled once a process by llvmlite: no Python runs between the call and the
kernel, and threads never need the interpreter's lock. Layouts of the three records it reads:

- a launch (int64 array): entry, number of arguments, units, scratch bytes, mode, pool, then the
  kind of each argument (:class:`Kind`), then the value of each, of which only sizes have one;
- the pool (int64 array): :class:`Slot`;
- tuples and NumPy arrays: the offset of the first item and of the data pointer, both verified.
"""

from __future__ import annotations

import ctypes
import enum
import functools
import string
import sys
from typing import Any

import numpy as np

from minijit.backends.cpu import assembly
from minijit.backends.cpu.loader import Code, load_text
from minijit.graph.locks import process_lock

__all__ = ["HEADER", "THREADS_SUPPORTED", "Kind", "Mode", "Slot", "builtin", "native_code"]

THREADS_SUPPORTED = sys.platform == "linux"
"""Whether kernels run on several threads: the pool is written for Linux (unnamed semaphores)."""
HEADER = 6
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


def _python(name: str) -> str:
    return _constant(getattr(ctypes.pythonapi, name))


@functools.cache
def _process() -> ctypes.CDLL:
    return ctypes.CDLL("ucrtbase" if sys.platform == "win32" else None)


def _libc(name: str) -> str:
    return _constant(getattr(_process(), name))


def _constant(function: Any) -> str:
    address = ctypes.cast(function, ctypes.c_void_p).value
    return f"inttoptr (i64 {address} to ptr)"


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
def _native_code() -> Code:
    item, data = _offsets()
    fields: dict[str, Any] = {name: _python(name) for name in _PYTHON_FUNCTIONS}
    fields["none"] = f"inttoptr (i64 {id(None)} to ptr)"
    fields["OverflowError"] = f"inttoptr (i64 {id(OverflowError)} to ptr)"
    fields |= {"item": item, "data": data, "header": HEADER, "SIZE_KIND": int(Kind.SIZE)}
    fields |= {name: _libc(name) for name in ("malloc", "free")}
    pool = assembly.NO_POOL
    if THREADS_SUPPORTED:
        fields |= {slot.name: int(slot) for slot in Slot}
        fields |= {name: _libc(name) for name in _THREAD_FUNCTIONS}
        pool = assembly.POOL
    text = assembly.ALONE + pool + assembly.LAUNCH
    return load_text(string.Template(text).substitute(fields))


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


def native_code() -> Code:
    """Return the compiled launch path of this process."""
    # A second one, made by a thread at the same time, would be unloaded with its address in use.
    with _lock:
        return _native_code()


@functools.cache
def _method() -> tuple[Any, Any]:
    takes_one_argument = 0x0008  # METH_O
    address = native_code().address("launch")
    definition = _MethodDef(b"launch", address, takes_one_argument, b"Run one kernel.")
    create = ctypes.PYFUNCTYPE(
        ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p
    )(("PyCFunction_NewEx", ctypes.pythonapi))
    return definition, create


def builtin(record: np.ndarray[Any, np.dtype[np.int64]]) -> Any:
    """Return the builtin function that runs a launch record, which it keeps alive."""
    with _lock:
        definition, create = _method()
    return create(ctypes.addressof(definition), record, None)
