"""`python -m minijit demo`: a function from Python to kernels, checked against NumPy and timed."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

import minijit
from minijit.tools.system import System
from minijit.tools.systems import systems
from minijit.tools.timing import first_call, interleaved_medians, repeated
from minijit.tools.workloads import Workload, as_tuple, find, largest_error

_TIMED = ("softmax 4096x1024", "gelu 4M", "black-scholes 1M")
_SECONDS_EACH = 0.4


def softmax(x: Any) -> Any:
    """Plain NumPy: nothing in it knows that it will be traced."""
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def main(argv: Sequence[str]) -> int:
    """Print the demonstration; 1 when a result differs from NumPy's by more than it may."""
    parser = argparse.ArgumentParser(prog="python -m minijit demo", description=__doc__)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    options = parser.parse_args(argv)
    if options.device not in minijit.devices():
        print(f"no {options.device} device here: see python -m minijit doctor", file=sys.stderr)
        return 1
    started = time.perf_counter()
    compared = systems(options.device).systems
    eager, ours = compared[0], compared[-1]
    x = ours.put(find(_TIMED[0]).make_inputs()[0])
    _title("1. The devices")
    print(*minijit.devices(), sep="\n")
    _title("2. softmax, traced: its jaxpr")
    print(minijit.make_jaxpr(softmax)(x))
    _title("3. softmax, lowered and compiled: its kernels")
    for kernel in minijit.jit(softmax).lower(x).compile().kernels():
        print(f"kernel {kernel.name}")
        print(f"  inputs    {_list(kernel.inputs)}")
        print(f"  outputs   {_list(kernel.outputs)}")
        print(f"  schedule  {kernel.schedule}")
        print(kernel.source)
    _title(f"4. The same results as eager {eager.name}, in less time")
    wrong = [name for name in _TIMED if not _compare(find(name), eager, ours)]
    print(
        f"\n{time.perf_counter() - started:.1f} s in all" + "".join(f"; WRONG: {n}" for n in wrong)
    )
    return 1 if wrong else 0


def _compare(workload: Workload, eager: System, ours: System) -> bool:
    """Print one line on a workload; whether minijit's result is within its tolerance."""
    inputs = [ours.put(x) for x in workload.make_inputs()]
    plain = eager.prepare(workload.function)
    fused = ours.prepare(workload.function)
    result, first = first_call(lambda: ours.wait(fused(*inputs)))
    expected = [eager.get(out) for out in as_tuple(plain(*inputs))]
    got = [ours.get(out) for out in as_tuple(result)]
    difference = max(float(np.max(np.abs(a - b))) for a, b in zip(got, expected, strict=True))
    calls = {
        "eager": repeated(plain, inputs, eager.wait),
        "fused": repeated(fused, inputs, ours.wait),
    }
    medians = interleaved_medians(calls, _SECONDS_EACH)
    slow, fast = medians["eager"] * 1e3, medians["fused"] * 1e3
    kernels = len(fused.lower(*inputs).compile().kernels())
    print(
        f"{workload.name:18s} largest difference {difference:.1e}   "
        f"eager {slow:7.2f} ms   fused {fast:7.2f} ms   {slow / fast:5.1f}x   "
        f"{kernels} kernel{'s' if kernels > 1 else ''}, first call {first * 1e3:.0f} ms"
    )
    return largest_error(got, expected) <= workload.tolerance


def _list(items: Sequence[object]) -> str:
    return ", ".join(str(item) for item in items)


def _title(text: str) -> None:
    print(f"\n{text}\n{'-' * len(text)}")
