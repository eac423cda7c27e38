"""Statements of a kernel: what answers a request, written where it is needed least often."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from minijit.graph.index import Affine
from minijit.graph.jaxpr import Atom, JaxprEqn, Literal, Var
from minijit.graph.layout import Layout, contiguous_strides
from minijit.graph.primitive import Kind, find_primitive
from minijit.lowering.demand import (
    Conditions,
    Request,
    Space,
    live_parts,
    operand_indices,
    viewed,
)
from minijit.lowering.gathers import gather_at
from minijit.lowering.kernel_ir import (
    Argument,
    Buffer,
    Constant,
    Gather,
    Guard,
    Index,
    Level,
    Load,
    Map,
    Operand,
    Place,
    Product,
    Read,
    Reduce,
    Role,
    Statement,
    Value,
)
from minijit.lowering.products import ProductForm, product_at
from minijit.lowering.scopes import OUTSIDE, Scopes
from minijit.lowering.stages import indices, operands

__all__ = ["StatementWriter", "flat"]


class StatementWriter:
    """Emits the statements of one kernel, each where it depends on as few loops as possible.

    Attributes:
        space: The iteration space.
        rows: How many of its dimensions are rows.
        layouts: How the inputs lie in memory.
        scopes: The statements so far.
        values: What answers each request, where that is known.
        sources: The equations of the program and of the bodies that are being written.
        bindings: What the inputs of the bodies stand for that are being written: a value that is
            carried, or a value of the program around it with the indices to put first.
    """

    def __init__(self, space: Space, rows: int, layouts: Mapping[Var, Layout]) -> None:
        """Start an empty kernel."""
        self.space = space
        self.rows = rows
        self.layouts = layouts
        self.scopes = Scopes()
        self.sources: dict[Var, JaxprEqn] = {}
        self.bindings: dict[Var, Value | tuple[Atom, tuple[Affine, ...]]] = {}
        self.values: dict[Request, Operand] = {}
        self.guards: dict[Conditions, Value] = {}
        self.scalars: dict[tuple[Var, np.dtype[Any]], Value] = {}
        self.inputs: dict[Var, Buffer] = {}
        self.arguments: dict[tuple[Var, np.dtype[Any]], Argument] = {}
        self.count = 0

    def put(self, statement: Statement) -> None:
        """Append a statement where everything that it reads is known."""
        read = (o for o in operands(statement) if isinstance(o, Value))
        first = len(self.space.extents)
        own = {statement.dim} if isinstance(statement, Product) else set()
        dims = {dim for index in indices(statement) for dim in index.dims} - own
        steps = (dim for dim in dims if dim >= first)
        self.scopes.put(statement, self.scopes.dim(read, steps))

    def declare(self, var: Var) -> None:
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

    def compute(self, eqn: JaxprEqn, request: Request) -> Operand:
        """Write the statements that answer ``request``, a result of ``eqn``."""
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
            case Kind.LIBRARY:
                return self._product(eqn, request)
            case Kind.GATHER:
                return self._gather(eqn, request)
        operands = list(operand_indices(eqn, request, self.space))
        if primitive.kind is Kind.VIEW:
            return self.operand(*operands[0])
        if primitive.name == "convert_element_type":
            atom = eqn.invars[0]
            if isinstance(atom, Var) and self._is_scalar(atom) and _host_casts(atom, aval.dtype):
                return self._read(atom, aval.dtype)
        args = tuple(self.operand(*operand) for operand in operands)
        if primitive.name == "convert_element_type" and args[0].dtype == aval.dtype:
            return args[0]
        level = max((arg.level for arg in args if isinstance(arg, Value)), default=Level.LAUNCH)
        out = self.value(aval.dtype, level)
        self.put(Map(out, primitive, args, eqn.params, str(eqn.source)))
        return out

    def operand(self, atom: Atom, index: tuple[Affine, ...], conditions: Conditions) -> Operand:
        """Return an element of ``atom``, loaded if it has not been computed."""
        if isinstance(atom, Literal):
            return Constant(atom.value, atom.aval.dtype)
        bound = self.bindings.get(atom)
        if isinstance(bound, Value):
            return bound
        if bound is not None:
            outer, first = bound
            return self.operand(outer, first + index, conditions)
        request = Request(atom, index, conditions)
        if request not in self.values:
            self.values[request] = self._load(request)
        return self.values[request]

    def _load(self, request: Request) -> Operand:
        var = request.var
        if self._is_scalar(var):
            return self._read(var, var.aval.dtype)
        place = self._place(var, request.index)
        guard = self._guard(request.conditions)
        level = max(self.level(place.index), guard.level if guard is not None else Level.LAUNCH)
        out = self.value(var.aval.dtype, level)
        self.put(Load(out, place.buffer, place.index, guard))
        return out

    def _place(self, var: Var, index: tuple[Affine, ...]) -> Place:
        layout = self.layouts.get(var)
        strides = contiguous_strides(var.aval.shape) if layout is None else layout.strides
        return Place(list(self.inputs).index(var), flat(index, strides))

    def _source(self, atom: Atom, index: tuple[Affine, ...]) -> tuple[Atom, tuple[Affine, ...]]:
        """Return what an element of ``atom`` is an element of, behind bindings and views."""
        while isinstance(atom, Var) and atom not in self.inputs:
            bound, eqn = self.bindings.get(atom), self.sources.get(atom)
            if isinstance(bound, tuple):
                atom, index = bound[0], bound[1] + index
            elif bound is None and eqn is not None and eqn.primitive.kind is Kind.VIEW:
                index = viewed(eqn, Request(atom, index), self.space)
                atom = eqn.invars[0]
            else:
                break
        return atom, index

    def _in_memory(self, atom: Atom, index: tuple[Affine, ...]) -> Place:
        """Return where the element of a value lies, behind bindings and views."""
        source, index = self._source(atom, index)
        assert isinstance(source, Var)
        return self._place(source, index)

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
            self.scalars[key] = self.value(dtype, Level.LAUNCH)
            read = Read(self.scalars[key], len(self.arguments) - 1)
            self.scopes.outermost.body.append(read)
            self.scopes.define((read.out,), self.scopes.outermost, OUTSIDE)
        return self.scalars[key]

    def _gather(self, eqn: JaxprEqn, request: Request) -> Operand:
        gathered = gather_at(eqn, request, self.space)
        source, at = self._source(gathered.operand, gathered.index)
        if not isinstance(source, Var) or source not in self.inputs:
            # It is repeated along the gathered axes: whatever the positions say, it is this one.
            return self.operand(source, at, ())
        place = self._place(source, at)
        # Along an axis on which a view repeats it there is no stride, whatever the position says.
        strides = {n: s for n, dim in enumerate(gathered.dims) if (s := place.index.stride(dim))}
        known = (term for term in place.index.terms if term[0] not in gathered.dims)
        index = Affine(place.index.offset, tuple(known))
        positions = tuple(self.operand(*gathered.positions[n], request.conditions) for n in strides)
        guard = self._guard(request.conditions)
        levels = [v.level for v in (guard, *positions) if isinstance(v, Value)]
        out = self.value(request.var.aval.dtype, max(self.level(index), *levels, Level.LAUNCH))
        by, line = tuple(strides.values()), str(eqn.source)
        self.put(Gather(out, place.buffer, index, positions, by, guard, line))
        return out

    def _product(self, eqn: JaxprEqn, request: Request) -> Operand:
        """Write a product: of single factors, summed like a row, or of a row and a matrix."""
        product, dtype = product_at(eqn, request, self.space), request.var.aval.dtype
        line, wide = str(eqn.source), _accumulator(dtype)
        if product.form is not ProductForm.WHOLE:
            pair = [self._cast(self.operand(*at, ()), wide, line) for at in product.factors]
            level = max((v.level for v in pair if isinstance(v, Value)), default=Level.LAUNCH)
            out = self.value(wide, level)
            self.put(Map(out, find_primitive("mul"), tuple(pair), {}, line))
            if product.form is ProductForm.REDUCED:
                monoid = find_primitive("reduce_sum").monoid
                assert monoid is not None
                terms, out = out, self.value(dtype, Level.ROW)
                self.put(Reduce(out, monoid, (terms,), (wide,), line))
            return self._cast(out, dtype, line)
        row, matrix = product.factors
        factor = (
            self._cells(self.operand(*row, ()), line) if product.held else self._in_memory(*row)
        )
        out = self.value(wide, Level.CELL)
        self.put(Product(out, factor, self._in_memory(*matrix), product.dim, product.terms, line))
        return self._cast(out, dtype, line)

    def _cells(self, operand: Operand, line: str) -> Value:
        """Return ``operand`` as a value of cells."""
        if isinstance(operand, Value) and operand.level is Level.CELL:
            return operand
        out = self.value(operand.dtype, Level.CELL)
        self.put(Map(out, find_primitive("convert_element_type"), (operand,), {}, line))
        return out

    def _reduce(self, eqn: JaxprEqn, request: Request) -> Value:
        (operand,) = operand_indices(eqn, request, self.space)
        monoid = eqn.primitive.monoid
        assert monoid is not None
        value = self.operand(*operand)
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
        made_for = accumulators[0]
        if monoid.components is not None:
            accumulators = monoid.components(made_for)
        out = self.value(request.var.aval.dtype, Level.ROW)
        self.put(Reduce(out, monoid, args, accumulators, str(eqn.source), made_for))
        return out

    def _select(self, eqn: JaxprEqn, request: Request) -> Operand:
        parts = live_parts(eqn, request, self.space)
        results = []
        for part, conditions in parts:
            atom = eqn.invars[part.operand]
            results.append(self.operand(atom, part.index, (*request.conditions, *conditions)))
        value = results[-1]
        for (_, conditions), chosen in zip(
            reversed(parts[:-1]), reversed(results[:-1]), strict=True
        ):
            guard = self._guard(conditions)
            assert guard is not None
            levels = [v.level for v in (guard, chosen, value) if isinstance(v, Value)]
            out = self.value(request.var.aval.dtype, max(levels))
            select = find_primitive("select")
            self.put(Map(out, select, (guard, chosen, value), {}, str(eqn.source)))
            value = out
        return value

    def _guard(self, conditions: Conditions) -> Value | None:
        if not conditions:
            return None
        unique = tuple(dict.fromkeys(conditions))
        if unique not in self.guards:
            level = max(self.level(expression) for expression, _, _ in unique)
            self.guards[unique] = self.value(np.dtype(np.bool_), level)
            self.put(Guard(self.guards[unique], unique))
        return self.guards[unique]

    def _emit_index(self, index: Affine) -> Value:
        out = self.value(np.dtype(np.int64), self.level(index))
        self.put(Index(out, index))
        return out

    def _cast(self, value: Operand, dtype: np.dtype[Any], line: str) -> Operand:
        if value.dtype == dtype:
            return value
        if isinstance(value, Constant):
            return Constant(dtype.type(value.value), dtype)
        out = self.value(dtype, value.level)
        cast = find_primitive("convert_element_type")
        self.put(Map(out, cast, (value,), {"dtype": dtype, "weak_type": False}, line))
        return out

    def level(self, index: Affine) -> Level:
        """Return how often an index has another value; the steps of loops are left out."""
        dims = [dim for dim in index.dims if dim < len(self.space.extents)]
        if any(dim >= self.rows for dim in dims):
            return Level.CELL
        return Level.ROW if dims else Level.LAUNCH

    def value(self, dtype: np.dtype[Any], level: Level) -> Value:
        """Return a new value."""
        self.count += 1
        return Value(f"v{self.count - 1}", dtype, level)


def flat(index: tuple[Affine, ...], strides: tuple[int, ...]) -> Affine:
    """Return the position in memory of the element at ``index``."""
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
