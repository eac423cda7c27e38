"""Lowering: a group of nodes becomes a kernel in IR, every value at the index it is needed at."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from minijit.graph.index import Affine, SplitDimension
from minijit.graph.jaxpr import Atom, JaxprEqn, Literal, Var
from minijit.graph.primitive import Kind, find_primitive
from minijit.lowering.demand import (
    Conditions,
    Demand,
    Program,
    Request,
    Space,
    follow,
    live_parts,
    operand_indices,
)
from minijit.lowering.kernel_ir import (
    Argument,
    Buffer,
    Constant,
    Guard,
    Index,
    Kernel,
    Level,
    Load,
    Map,
    Operand,
    Read,
    Reduce,
    Role,
    Statement,
    Store,
    Value,
)
from minijit.lowering.partition import Group, Member

__all__ = ["Layout", "Lowered", "contiguous_strides", "lower_group"]


@dataclasses.dataclass(frozen=True, slots=True)
class Layout:
    """How a value lies in memory.

    Attributes:
        strides: In elements, one an axis.
        by_value: Whether it is a scalar that the host passes by value; it has no address then.
    """

    strides: tuple[int, ...]
    by_value: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Lowered:
    """A kernel with the values that its buffers and arguments stand for, in order."""

    kernel: Kernel
    buffers: tuple[Var, ...]
    arguments: tuple[Var, ...]


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides, in elements, of a C-ordered array."""
    strides = []
    step = 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def lower_group(
    program: Program,
    group: Group,
    stored: frozenset[Var],
    layouts: Mapping[Var, Layout],
    name: str,
) -> Lowered:
    """Write the kernel of ``group``.

    Args:
        program: The program.
        group: One of its kernels.
        stored: Values in memory between steps; inputs need not be listed.
        layouts: Of the inputs; other values are contiguous.
        name: What to call the kernel.
    """
    rows = [d for d in range(len(group.extents)) if d not in group.reduced]
    cols = sorted(group.reduced)
    order = {d: position for position, d in enumerate(rows + cols)}
    extents = tuple(group.extents[d] for d in rows + cols)
    columns = tuple(Affine.dim(order[d], group.extents[d]) for d in cols if group.extents[d] != 1)
    space = Space(extents, columns)
    places = {d: Affine.dim(order[d], n) for d, n in enumerate(group.extents)}
    is_row = [True] * len(rows) + [False] * len(cols)
    members = {member.var for member in group.members}
    memory = stored.union(program.jaxpr.invars, program.jaxpr.constvars) - members
    while True:
        roots = [Request(m.var, _placed(m, places)) for m in group.members]
        try:
            demand = follow(program, roots, space, memory)
            break
        except SplitDimension as split:
            space, replaced = space.split(split.dim, split.inner)
            places = {d: a.substituted(replaced) for d, a in places.items()}
            is_row[split.dim : split.dim + 1] = [is_row[split.dim]] * 2
    outputs = [root for root in roots if root.var in stored]
    writer = _KernelWriter(program, space, sum(is_row), layouts)
    return writer.write(demand, outputs, name)


def _placed(member: Member, places: Mapping[int, Affine]) -> tuple[Affine, ...]:
    return tuple(Affine() if dim is None else places[dim] for dim in member.axes)


class _KernelWriter:
    """Emits the statements of one kernel."""

    def __init__(
        self, program: Program, space: Space, rows: int, layouts: Mapping[Var, Layout]
    ) -> None:
        self.program = program
        self.space = space
        self.rows = rows
        self.layouts = layouts
        self.body: list[Statement] = []
        self.values: dict[Request, Operand] = {}
        self.guards: dict[Conditions, Value] = {}
        self.scalars: dict[tuple[Var, np.dtype[Any]], Value] = {}
        self.inputs: dict[Var, Buffer] = {}
        self.arguments: dict[tuple[Var, np.dtype[Any]], Argument] = {}
        self.count = 0

    def write(self, demand: Demand, outputs: list[Request], name: str) -> Lowered:
        for request in demand.loaded:
            self._declare(request.var)
        for request in demand.computed:
            definition = self.program.definition(request.var)
            assert definition is not None
            self.values[request] = self._compute(definition, request)
        written: dict[Var, Buffer] = {}
        for request in outputs:
            aval = request.var.aval
            label = f"out{len(written)}"
            written[request.var] = Buffer(label, aval.dtype, Role.OUTPUT, True, aval.size)
            index = _flat(request.index, contiguous_strides(aval.shape))
            value = self.values[request]
            level = max(
                self._level(index), value.level if isinstance(value, Value) else Level.LAUNCH
            )
            self.body.append(Store(len(self.inputs) + len(written) - 1, index, value, level))
        kernel = Kernel(
            name,
            self.space.extents[: self.rows],
            self.space.extents[self.rows :],
            (*self.inputs.values(), *written.values()),
            tuple(self.arguments.values()),
            tuple(self.body),
        )
        scalars = tuple(var for var, _ in self.arguments)
        return Lowered(kernel, (*self.inputs, *written), scalars)

    def _declare(self, var: Var) -> None:
        """Declare the buffer of a loaded value; scalars are declared when they are read."""
        layout = self.layouts.get(var)
        if var in self.inputs or (layout is not None and layout.by_value):
            return
        label = _identifier(var.name) or "x"
        taken = {buffer.name for buffer in self.inputs.values()}
        if label in taken or not var.name:
            label = f"{label}{len(self.inputs)}"
        strides = contiguous_strides(var.aval.shape) if layout is None else layout.strides
        contiguous = layout is None or all(
            n == 1 or own == c
            for n, own, c in zip(
                var.aval.shape, strides, contiguous_strides(var.aval.shape), strict=True
            )
        )
        self.inputs[var] = Buffer(label, var.aval.dtype, Role.INPUT, contiguous, var.aval.size)

    def _compute(self, eqn: JaxprEqn, request: Request) -> Operand:
        aval = request.var.aval
        primitive = eqn.primitive
        match primitive.kind:
            case Kind.INDEX:
                position = self._emit_index(request.index[eqn.params["axis"]])
                return self._cast(position, aval.dtype, str(eqn.source))
            case Kind.PIECEWISE:
                return self._select(eqn, request)
            case Kind.REDUCTION:
                return self._reduce(eqn, request)
        operands = list(operand_indices(eqn, request, self.space))
        if primitive.kind is Kind.VIEW:
            return self._operand(*operands[0])
        if primitive.name == "convert_element_type":
            atom = eqn.invars[0]
            if isinstance(atom, Var) and self._is_scalar(atom) and _host_casts(atom, aval.dtype):
                return self._read(atom, aval.dtype)
        args = tuple(self._operand(*operand) for operand in operands)
        if primitive.name == "convert_element_type" and args[0].dtype == aval.dtype:
            return args[0]
        level = max((arg.level for arg in args if isinstance(arg, Value)), default=Level.LAUNCH)
        out = self._value(aval.dtype, level)
        self.body.append(Map(out, primitive, args, eqn.params, str(eqn.source)))
        return out

    def _operand(self, atom: Atom, index: tuple[Affine, ...], conditions: Conditions) -> Operand:
        if isinstance(atom, Literal):
            return Constant(atom.value, atom.aval.dtype)
        request = Request(atom, index, conditions)
        if request not in self.values:
            self.values[request] = self._load(request)
        return self.values[request]

    def _load(self, request: Request) -> Operand:
        var = request.var
        if self._is_scalar(var):
            return self._read(var, var.aval.dtype)
        layout = self.layouts.get(var)
        strides = contiguous_strides(var.aval.shape) if layout is None else layout.strides
        index = _flat(request.index, strides)
        guard = self._guard(request.conditions)
        level = max(self._level(index), guard.level if guard is not None else Level.LAUNCH)
        out = self._value(var.aval.dtype, level)
        self.body.append(Load(out, list(self.inputs).index(var), index, guard))
        return out

    def _is_scalar(self, var: Var) -> bool:
        layout = self.layouts.get(var)
        return layout is not None and layout.by_value

    def _read(self, var: Var, dtype: np.dtype[Any]) -> Value:
        """Return a scalar argument; the host converts it to ``dtype`` before the launch."""
        key = (var, dtype)
        if key not in self.scalars:
            label = _identifier(var.name) or "scalar"
            if any(argument.name == label for argument in self.arguments.values()):
                label = f"{label}_{len(self.arguments)}"
            self.arguments[key] = Argument(label, dtype)
            self.scalars[key] = self._value(dtype, Level.LAUNCH)
            self.body.append(Read(self.scalars[key], len(self.arguments) - 1))
        return self.scalars[key]

    def _reduce(self, eqn: JaxprEqn, request: Request) -> Value:
        (operand,) = operand_indices(eqn, request, self.space)
        monoid = eqn.primitive.monoid
        assert monoid is not None
        value = self._operand(*operand)
        args: tuple[Operand, ...] = (value,)
        accumulators: tuple[np.dtype[Any], ...] = (_accumulator(value.dtype),)
        if monoid.position:
            extents = [
                n for axis, n in enumerate(eqn.invars[0].aval.shape) if axis in eqn.params["axes"]
            ]
            wide = [
                (s, n)
                for s, n in zip(contiguous_strides(tuple(extents)), extents, strict=True)
                if n != 1
            ]
            parts = [(s, c) for (s, _), c in zip(wide, self.space.columns, strict=True)]
            args = (value, self._emit_index(Affine.total(parts)))
            accumulators = (*accumulators, np.dtype(np.int64))
        out = self._value(request.var.aval.dtype, Level.ROW)
        self.body.append(Reduce(out, monoid, args, accumulators, str(eqn.source)))
        return out

    def _select(self, eqn: JaxprEqn, request: Request) -> Operand:
        parts = live_parts(eqn, request, self.space)
        results = []
        for part, conditions in parts:
            atom = eqn.invars[part.operand]
            results.append(self._operand(atom, part.index, (*request.conditions, *conditions)))
        value = results[-1]
        for (_, conditions), chosen in zip(
            reversed(parts[:-1]), reversed(results[:-1]), strict=True
        ):
            guard = self._guard(conditions)
            assert guard is not None
            levels = [v.level for v in (guard, chosen, value) if isinstance(v, Value)]
            out = self._value(request.var.aval.dtype, max(levels))
            select = find_primitive("select")
            self.body.append(Map(out, select, (guard, chosen, value), {}, str(eqn.source)))
            value = out
        return value

    def _guard(self, conditions: Conditions) -> Value | None:
        if not conditions:
            return None
        unique = tuple(dict.fromkeys(conditions))
        if unique not in self.guards:
            level = max(self._level(expression) for expression, _, _ in unique)
            self.guards[unique] = self._value(np.dtype(np.bool_), level)
            self.body.append(Guard(self.guards[unique], unique))
        return self.guards[unique]

    def _emit_index(self, index: Affine) -> Value:
        out = self._value(np.dtype(np.int64), self._level(index))
        self.body.append(Index(out, index))
        return out

    def _cast(self, value: Value, dtype: np.dtype[Any], line: str) -> Value:
        if value.dtype == dtype:
            return value
        out = self._value(dtype, value.level)
        cast = find_primitive("convert_element_type")
        self.body.append(Map(out, cast, (value,), {"dtype": dtype, "weak_type": False}, line))
        return out

    def _level(self, index: Affine) -> Level:
        if any(dim >= self.rows for dim in index.dims):
            return Level.CELL
        return Level.ROW if index.dims else Level.LAUNCH

    def _value(self, dtype: np.dtype[Any], level: Level) -> Value:
        self.count += 1
        return Value(f"v{self.count - 1}", dtype, level)


def _flat(index: tuple[Affine, ...], strides: tuple[int, ...]) -> Affine:
    return Affine.total(list(zip(strides, index, strict=True)))


def _host_casts(scalar: Var, dtype: np.dtype[Any]) -> bool:
    """Whether the host may convert: a Python number, unless it is cut to an integer.

    The host rounds a NumPy integer twice on its way to float32, by way of float64.
    """
    return scalar.aval.weak_type and not (scalar.aval.dtype.kind == "f" and dtype.kind in "iu")


def _accumulator(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(np.float32) if dtype == np.float16 else dtype


def _identifier(name: str) -> str:
    """Return ``name`` (an argument's path such as ``params['w']``) as a Python identifier."""
    words = "".join(c if c.isalnum() else " " for c in name).split()
    return "_".join(words) if words and not words[0][0].isdigit() else ""
