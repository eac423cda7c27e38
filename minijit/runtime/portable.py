"""A plan as plain data and back: what another process runs without lowering or compiling.

The data name every kernel by the key of its machine code, which is kept elsewhere, and say how it
is launched. Sources are not among them: whoever asks for one has the program lowered again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from minijit import runtime
from minijit.backends.base import Backend, Binary, Build, Launcher, Support
from minijit.graph.portable import (
    NotPortable,
    checked,
    read_aval,
    read_layout,
    read_param,
    write_aval,
    write_layout,
    write_param,
)
from minijit.graph.primitive import Primitive
from minijit.runtime.binaries import key_of
from minijit.runtime.captured import Captured
from minijit.runtime.disk.key import Key, canonical
from minijit.runtime.launchers import launcher_of, loaded_binary
from minijit.runtime.link import Linker
from minijit.runtime.plan import Plan
from minijit.runtime.steps import EagerStep, KernelStep, Operands, Slot, Step

if TYPE_CHECKING:
    from minijit.lowering.source import KernelSource

__all__ = ["Origin", "read_plan", "write_plan"]


def write_plan(plan: Plan) -> dict[str, Any]:
    """Return a plan as data; the values of its constants are left out.

    Raises:
        NotPortable: a parameter of an operation has no form as data, or a kernel no key.
    """
    writer = _Writer(plan.backend)
    written = writer.plan(plan)
    return {"kernels": writer.programs, "plan": written}


class _Writer:
    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.programs: list[Any] = []
        """What is compiled, of each kernel once; see ``Key``."""
        self._numbers: dict[str, int] = {}

    def plan(self, plan: Plan) -> dict[str, Any]:
        return {
            "name": plan.name,
            "values": list(map(write_aval, plan.avals)),
            "layouts": list(map(write_layout, plan.layouts)),
            "results": plan.results,
            "steps": list(map(self._step, plan.steps)),
        }

    def _step(self, step: Step) -> dict[str, Any]:
        if isinstance(step, KernelStep):
            return self._kernel(step)
        if isinstance(step, EagerStep):
            where = step.primitive.name
            return {
                "library": where,
                "params": {name: write_param(v, where) for name, v in step.params.items()},
                "operands": _write_operands(step.operands),
                "outputs": step.outputs,
                "stored": step.stored,
            }
        host = runtime.host_loop
        if isinstance(step, host.BranchStep):
            return {
                "branches": list(map(self.plan, step.branches)),
                "operands": _write_operands(step.operands),
                "outputs": step.outputs,
                "loose": sorted(step.loose),
            }
        assert isinstance(step, host.LoopStep)
        tactics, until = step.tactics, step.until
        return {
            "body": self.plan(step.body),
            "until": None if until is None else self.plan(until.plan),
            "operands": _write_operands(step.operands),
            "outputs": step.outputs,
            "loose": sorted(step.loose),
            "consts": step.consts,
            "carries": len(step.carries),
            "rows": [step.steps.start, step.steps.stop, step.steps.step],
            "tactics": [tactics.in_graph, tactics.ahead, tactics.text],
        }

    def _kernel(self, step: KernelStep) -> dict[str, Any]:
        source = step.source()
        key = key_of(self.backend, source)
        if key is None:
            raise NotPortable(
                f"kernel {step.name} calls a scalar function that reads an object without a text "
                "form: let it close over numbers and functions only"
            )
        number = self._numbers.setdefault(key.name, len(self.programs))
        if number == len(self.programs):
            self.programs.append(key.program)
        return {
            "kernel": number,
            "name": step.name,
            "text": step.text_bytes,
            "interface": self.backend.interface(source, loaded_binary(step.launcher)),
            "inputs": step.inputs,
            "outputs": step.outputs,
            "arguments": step.arguments,
        }


def _write_operands(operands: Operands) -> list[Any]:
    return [write_param(operand, "a step") for operand in operands]


class Origin(NamedTuple):
    """Where that comes from which the data of a plan leave out.

    Attributes:
        find: Returns machine code by its key; the name of the kernel is for messages.
        build: Returns that of a further source, should one be needed.
        lower: Lowers the program again, with machine code from what it is given.
        primitive: Returns the primitive of a name.
    """

    find: Callable[[Key, str], Binary]
    build: Build
    lower: Callable[[Build], Plan]
    primitive: Callable[[str], Primitive]


def read_plan(
    data: Any,
    backend: Backend,
    consts: Sequence[Any],
    captured: Captured,
    check_nans: bool,
    origin: Origin,
) -> Plan:
    """Return the plan that ``write_plan`` wrote, ready to run.

    Args:
        data: What it wrote, on a backend with the same environment.
        backend: Where it runs.
        consts: Values of its constants there.
        captured: What must not have changed when it runs.
        check_nans: Whether a NaN among the results is an error.
        origin: Where the rest comes from.

    Raises:
        NotPortable: the data are no plan.
        Whatever ``origin.find`` raises.
    """

    def read() -> Plan:
        return _Reader(backend, data["kernels"], origin).plan(
            data["plan"], consts, captured, check_nans
        )

    return checked(read, "plan")


class _Sources:
    """Sources of the kernels of a plan, lowered again when the first one is asked for."""

    def __init__(self, lower: Callable[[], Plan]) -> None:
        self._lower = lower
        self._kernels: tuple[KernelStep, ...] = ()

    def of(self, number: int) -> Any:
        """Return the source of the kernel that comes at this place."""
        if not self._kernels:
            self._kernels = self._lower().kernels
        return self._kernels[number].source()


class _Reader:
    def __init__(self, backend: Backend, programs: Sequence[Any], origin: Origin) -> None:
        self.backend = backend
        self.origin = origin
        environment = backend.environment()
        self.keys = [Key(program, environment) for program in programs]
        self.sources = _Sources(partial(origin.lower, self._binary))
        self.kernels = 0
        self.binaries: dict[str, Binary] = {}

    def plan(self, data: Any, consts: Sequence[Any], captured: Captured, check_nans: bool) -> Plan:
        linker = Linker(self.backend, map(read_aval, data["values"]))
        steps = [self._step(step, linker) for step in data["steps"]]
        layouts = list(map(read_layout, data["layouts"]))
        results = self._slots(data["results"], linker)
        return linker.plan(data["name"], steps, layouts, consts, captured, results, check_nans)

    def _body(self, data: Any) -> Plan:
        """Return a plan that a step runs: it has no constants, and gives no results to users."""
        return self.plan(data, (), Captured((), ()), check_nans=False)

    def _step(self, data: Any, linker: Linker) -> Step:
        outputs = self._slots(data["outputs"], linker)
        if "kernel" in data:
            return self._kernel(data, linker)
        operands: Operands = tuple(map(read_param, data["operands"]))
        self._slots((operand for operand in operands if isinstance(operand, int)), linker)
        if "library" in data:
            primitive = self.origin.primitive(data["library"])
            params = {name: read_param(value) for name, value in data["params"].items()}
            return linker.library(primitive, params, operands, outputs, data["stored"])
        loose = frozenset(data["loose"])
        if "branches" in data:
            branches = tuple(map(self._body, data["branches"]))
            return runtime.host_loop.BranchStep(operands, outputs, loose, branches)
        # In the order in which they were lowered, which is that of the sources.
        until = None if data["until"] is None else self._body(data["until"])
        asked, fixed = data["consts"]
        return runtime.host_loop.LoopStep.linked(
            linker,
            operands,
            outputs,
            loose,
            (asked, fixed),
            data["carries"],
            self._body(data["body"]),
            until,
            range(*data["rows"]),
            runtime.tactics.Tactics(*data["tactics"]),
        )

    @staticmethod
    def _slots(numbers: Iterable[Any], linker: Linker) -> tuple[Slot, ...]:
        """Return places of values, all of which there are."""
        slots = tuple(numbers)
        if not all(type(slot) is int and 0 <= slot < len(linker.avals) for slot in slots):
            raise NotPortable(f"{slots} are no slots")
        return slots

    def _kernel(self, data: Any, linker: Linker) -> KernelStep:
        key, interface = self.keys[data["kernel"]], data["interface"]
        source = partial(self.sources.of, self.kernels)
        self.kernels += 1

        def load(binary: Binary) -> Launcher:
            # Loading may ask for the source, and lowering again for the machine code.
            self.binaries[key.name] = binary
            return self.backend.load(interface, binary, source, self.origin.build)

        launcher = launcher_of(
            (self.backend, key),
            canonical(interface),
            partial(self.origin.find, key, data["name"]),
            load,
        )
        self.binaries[key.name] = loaded_binary(launcher)
        slots = (self._slots(data[name], linker) for name in ("inputs", "outputs", "arguments"))
        return linker.kernel(data["name"], source, data["text"], launcher, *slots)

    def _binary(self, source: KernelSource | Support) -> Binary:
        """Return the machine code of a source: of a kernel of this plan that which it runs."""
        if not isinstance(source, Support):
            key = key_of(self.backend, source)
            if key is not None and key.name in self.binaries:
                return self.binaries[key.name]
        return self.origin.build(source)
