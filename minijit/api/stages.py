"""The stages between a function and its runs: ``Lowered`` to look at, ``Compiled`` to run."""

from __future__ import annotations

import dataclasses
import os
import textwrap
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from minijit import runtime
from minijit.graph.jaxpr import Jaxpr, subjaxprs
from minijit.graph.primitive import Kind
from minijit.runtime.memory_cache import Program
from minijit.runtime.plan import Plan
from minijit.runtime.signature import Signature

if TYPE_CHECKING:
    from minijit.backends.emulator.report import KernelReport
    from minijit.lowering.source import KernelSource
    from minijit.runtime.memory import MemoryStats

__all__ = ["Compiled", "KernelInfo", "Lowered"]


@dataclasses.dataclass(frozen=True, slots=True)
class KernelInfo:
    """One kernel of a compiled program.

    Attributes:
        name: Its name.
        source: The Numba source.
        inputs: Type and name of each input buffer and scalar.
        outputs: Type and name of each output buffer.
        schedule: How its iteration space is mapped to the machine.
        ir: The kernel IR as text.
    """

    name: str
    source: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    schedule: str
    ir: str

    def __str__(self) -> str:
        """Return everything, for reading."""
        return "\n".join(
            (
                f"kernel {self.name}",
                f"  in:  {', '.join(self.inputs)}",
                f"  out: {', '.join(self.outputs)}",
                f"  schedule: {self.schedule}",
                textwrap.indent(self.source, "    "),
            )
        )


def describe(source: KernelSource) -> KernelInfo:
    """Return what users are shown of a kernel."""
    kernel = source.kernel
    inputs = [f"{b.dtype.name}[{b.size}] {b.name}" for b in kernel.inputs]
    inputs += [f"{a.dtype.name} {a.name}" for a in kernel.arguments]
    outputs = [f"{b.dtype.name}[{b.size}] {b.name}" for b in kernel.outputs]
    return KernelInfo(
        kernel.name, source.text, tuple(inputs), tuple(outputs), source.schedule, str(kernel)
    )


class Lowered:
    """A traced program for one signature."""

    def __init__(
        self,
        program: Program,
        compile_now: Callable[[], Plan],
        call: Callable[[Sequence[Any], dict[str, Any]], Any],
        leaves: Callable[[Sequence[Any], dict[str, Any]], list[Any]],
        signature: Signature,
    ) -> None:
        """Keep what compiling needs; made by ``Jitted.lower``."""
        self._signature = signature
        self._program = program
        self._compile = compile_now
        self._call = call
        self._leaves = leaves

    @property
    def jaxpr(self) -> Jaxpr:
        """The program as traced."""
        return self._program.jaxpr

    def as_text(self) -> str:
        """Return the simplified program, as it is partitioned into kernels."""
        return str(runtime.pipeline.optimize(self._program.jaxpr))

    def emulate(
        self, *args: Any, compute_capability: tuple[int, int] = (9, 0), **kwargs: Any
    ) -> KernelReport:
        """Run once on an emulated GPU and return what each launch cost, and the results.

        Whatever the device is, the program is compiled for CUDA for this run. Ordinary calls and
        their caches are not concerned.

        Args:
            *args: Arguments of exactly the types it was lowered for.
            compute_capability: Of the GPU, by default that of an H100.
            **kwargs: Arguments by name.

        Raises:
            TypeError: a type, a static value or the structure differs.
            RuntimeError: a kernel does what a GPU forbids; the message says which and where.
        """
        leaves = self._leaves(args, kwargs)
        return runtime.emulation.emulate(self._program, leaves, compute_capability)

    def compile(self) -> Compiled:
        """Compile, or take the program from the cache; ordinary calls will find it there."""
        return Compiled(self._program, self._compile(), self._call, self._leaves, self._signature)


class Compiled:
    """A compiled program; calling it does not trace.

    It compiles again only for arrays that lie in memory in another way than those it was made for.
    """

    def __init__(
        self,
        program: Program,
        plan: Plan,
        call: Callable[[Sequence[Any], dict[str, Any]], Any],
        leaves: Callable[[Sequence[Any], dict[str, Any]], list[Any]],
        signature: Signature,
    ) -> None:
        """Keep the plan; made by :meth:`Lowered.compile`."""
        self._signature = signature
        self._program = program
        self._plan = plan
        self._call = call
        self._leaves = leaves

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run on arguments of exactly the types it was compiled for.

        Raises:
            TypeError: a type, a static value or the structure differs.
        """
        return self._call(args, kwargs)

    def emulate(
        self, *args: Any, compute_capability: tuple[int, int] = (9, 0), **kwargs: Any
    ) -> KernelReport:
        """Run once on an emulated GPU: see :meth:`Lowered.emulate`."""
        leaves = self._leaves(args, kwargs)
        return runtime.emulation.emulate(self._program, leaves, compute_capability)

    def export(self, path: str | os.PathLike[str]) -> None:
        """Write the compiled program to one file, which :func:`minijit.load` reads.

        The file holds the program, its machine code and copies of the arrays that the function
        captured; static arguments are part of the program. It runs where the same versions of the
        compilers are installed, on the same kind of processor or GPU, without the function and
        without compiling.

        Args:
            path: The file; one that is there is replaced at once or not at all.

        Raises:
            ValueError: part of the program has no form as data, or it is too large.
            OSError: the file cannot be written.
        """
        signature = self._signature
        runtime.artifact.write_artifact(
            os.path.abspath(os.fspath(path)),
            self._program.jaxpr,
            signature.names,
            signature.treedef,
            self._program.out_tree,
            self._plan,
        )

    def kernels(self) -> tuple[KernelInfo, ...]:
        """Return the kernels in launch order."""
        return tuple(map(describe, self._plan.sources))

    def as_text(self) -> str:
        """Return the sources of all kernels."""
        return "\n\n".join(map(str, self.kernels()))

    def cost_analysis(self) -> dict[str, float]:
        """Return what one call costs, counted from program and kernels, and what compiling took.

        ``flops``, ``bytes accessed`` and ``peak memory`` (bytes) of a call, ``kernels`` of the
        program, ``compile seconds``. Of branches the costliest is counted, of a loop that ends when
        a condition fails one step.
        """
        flops = _flops(runtime.pipeline.optimize(self._program.jaxpr))
        return {
            "flops": float(flops),
            "bytes accessed": float(self._plan.traffic),
            "peak memory": float(self.memory_analysis().peak_memory_in_bytes),
            "kernels": float(len(self._plan.kernels)),
            "compile seconds": self._plan.compile_seconds,
        }

    def memory_analysis(self) -> MemoryStats:
        """Return the bytes that arguments, results, captured arrays and temporaries take."""
        return runtime.memory.memory_of(self._plan)


def _flops(jaxpr: Jaxpr) -> int:
    total = 0
    for eqn in jaxpr.eqns:
        bodies = [_flops(body) for body in subjaxprs(eqn)]
        if eqn.primitive.kind is Kind.LOOP:
            total += eqn.params.get("length", 1) * sum(bodies)
        elif eqn.primitive.kind is Kind.BRANCH:
            total += max(bodies)
        else:
            counted = eqn.invars[0] if eqn.primitive.kind is Kind.REDUCTION else eqn.outvars[0]
            total += eqn.primitive.flops * counted.aval.size
    return total
