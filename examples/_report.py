"""What the examples share: the options, where arrays live, and the comparison that they print."""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

import minijit
from minijit.graph.jaxpr import Jaxpr, JaxprEqn, subjaxprs
from minijit.graph.primitive import Kind
from minijit.tools.timing import interleaved_medians, repeated

PACKAGES = {"sklearn": "scikit-learn", "skimage": "scikit-image"}


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """Where an example runs.

    Attributes:
        name: ``"NumPy"`` or ``"CuPy"``: what runs the function eagerly.
        put: Moves a NumPy array there.
        get: Brings an array back.
        quick: Whether to take small data and little time.
    """

    name: str
    put: Callable[[Any], Any]
    get: Callable[[Any], Any]
    quick: bool


def place(documentation: str | None) -> Place:
    """Read ``--device`` and ``--quick`` from the command line."""
    parser = argparse.ArgumentParser(description=documentation)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--quick", action="store_true", help="small data, short timing")
    options = parser.parse_args()
    if options.device == "cpu":
        return Place("NumPy", np.asarray, np.asarray, options.quick)
    cupy = optional("cupy", 'pip install "minijit[cuda13]"')
    try:
        cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        sys.exit(f"no GPU for --device cuda: {error}\n-> python -m minijit doctor")
    return Place("CuPy", cupy.asarray, cupy.asnumpy, options.quick)


def optional(module: str, remedy: str = 'pip install "minijit[examples]"') -> ModuleType:
    """Import a package that only some examples need, or say how to get it and stop."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        name = module.partition(".")[0]
        sys.exit(f"this example needs {PACKAGES.get(name, name)} ({error})\n-> {remedy}")


def compare(
    title: str,
    function: Callable[..., Any],
    where: Place,
    *arrays: Any,
    eager: Callable[..., Any] | None = None,
) -> None:
    """Print how the jitted function compares with the eager one on the same arguments.

    Args:
        title: Printed first.
        function: Plain NumPy code; CuPy arrays answer it as well.
        where: Where to run.
        *arrays: NumPy arrays or numbers.
        eager: The same with Python's loops and branches, if the function has minijit's.
    """
    eager = eager or function
    arguments = [where.put(a) if isinstance(a, np.ndarray) else a for a in arrays]
    jitted = minijit.jit(function)
    expected, fused = _tuple(eager(*arguments)), _tuple(jitted(*arguments))
    pairs = [(where.get(a), where.get(b)) for a, b in zip(expected, fused, strict=True)]
    difference = max(float(np.max(np.abs(a - b), initial=0.0)) for a, b in pairs)
    with minijit.debug.count() as events:
        jitted(*arguments)
    seconds = interleaved_medians(
        {
            "eager": repeated(eager, arguments, _wait),
            "jitted": repeated(jitted, arguments, _wait),
        },
        0.01 if where.quick else 0.5,
    )
    jaxpr = minijit.make_jaxpr(function)(*arguments)
    operations = (
        f"{eager_operations(jaxpr)} operations{' a step' if _ends_by_itself(jaxpr) else ''}"
    )
    print(title)
    print(f"  largest difference  {difference:.1e}")
    print(f"  eager {where.name:12s}  {seconds['eager'] * 1e3:9.3f} ms, {operations}")
    print(f"  minijit             {seconds['jitted'] * 1e3:9.3f} ms, {steps(events)}")


def eager_operations(jaxpr: Jaxpr) -> int:
    """Count the operations for which an array library would run a loop: all but views.

    Of a loop that ends by a condition one step is counted, of a branch the longest case.
    """
    return sum(map(_operations, jaxpr.eqns))


def _operations(eqn: JaxprEqn) -> int:
    bodies = [eager_operations(body) for body in subjaxprs(eqn)]
    match eqn.primitive.kind:
        case Kind.CALL:
            return sum(bodies)
        case Kind.LOOP:
            return sum(bodies) * int(eqn.params.get("length", 1))
        case Kind.BRANCH:
            return max(bodies)
        case kind:
            return int(kind is not Kind.VIEW)


def _ends_by_itself(jaxpr: Jaxpr) -> bool:
    """Whether there is a loop of which nobody knows how many steps it takes."""
    return any(
        eqn.primitive.name == "while" or any(map(_ends_by_itself, subjaxprs(eqn)))
        for eqn in jaxpr.eqns
    )


def steps(events: Any) -> str:
    """Return how many kernels one call launched, and how often it called the array library."""
    kernels, calls = events["launch"], events["eager"]
    text = f"{kernels} kernel{'s' if kernels != 1 else ''}"
    return f"{text}, {calls} library call{'s' if calls != 1 else ''}" if calls else text


def _tuple(result: Any) -> tuple[Any, ...]:
    return tuple(result) if isinstance(result, tuple | list) else (result,)


def _wait(result: Any) -> Any:
    """Launches on a GPU return before they have run."""
    for array in _tuple(result):
        if hasattr(array, "__cuda_array_interface__"):
            array.device.synchronize()
    return result
