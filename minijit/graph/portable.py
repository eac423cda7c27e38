"""A program as plain data and back: JSON that another process reads, arrays as raw bytes.

Nothing in the data is code: primitives are found by name among those that the reading process has
declared, and every type is checked again by the primitive's own rule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from minijit.graph.aval import ShapedArray
from minijit.graph.jaxpr import Atom, Jaxpr, JaxprEqn, Literal, Var
from minijit.graph.layout import Layout
from minijit.graph.primitive import find_primitive
from minijit.graph.source_info import SourceLine
from minijit.graph.tree import TreeDef, flatten, unflatten

__all__ = [
    "NotPortable",
    "checked",
    "read_aval",
    "read_jaxpr",
    "read_layout",
    "read_param",
    "read_tree",
    "write_aval",
    "write_jaxpr",
    "write_layout",
    "write_param",
    "write_tree",
]

_T = TypeVar("_T")

_PLAIN = (bool, int, float, str, type(None))


class NotPortable(ValueError):
    """Something has no form as plain data, or data are no program; the message says what."""


def write_aval(aval: ShapedArray) -> list[Any]:
    """Return a type as data."""
    return [list(aval.shape), aval.dtype.str, aval.weak_type]


def read_aval(data: Any) -> ShapedArray:
    """Return the type that ``write_aval`` wrote."""
    match data:
        case [list(shape), str(dtype), bool(weak)] if all(_is_size(extent) for extent in shape):
            return ShapedArray(tuple(shape), _dtype(dtype), weak)
    raise NotPortable(f"{data!r} is no type of an array")


def write_layout(layout: Layout) -> list[Any]:
    """Return a layout as data."""
    return [list(layout.strides), layout.by_value]


def read_layout(data: Any) -> Layout:
    """Return the layout that ``write_layout`` wrote."""
    match data:
        case [list(strides), bool(by_value)] if all(type(stride) is int for stride in strides):
            return Layout(tuple(strides), by_value)
    raise NotPortable(f"{data!r} is no layout of an array")


def write_jaxpr(jaxpr: Jaxpr, *, places: bool = True) -> dict[str, Any]:
    """Return a program as data, its constants' values left out.

    Args:
        jaxpr: The program.
        places: Whether the data say where it was written, and what its inputs are called there.
            Without, they are equal for programs that compute the same in the same way under the
            same name.

    Raises:
        NotPortable: a parameter of an operation has no form as data.
    """
    numbers = {var: n for n, var in enumerate((*jaxpr.invars, *jaxpr.constvars))}

    def atom(atom: Atom) -> Any:
        if isinstance(atom, Literal):
            return [*write_aval(atom.aval), np.asarray(atom.value).tobytes().hex()]
        return numbers[atom]

    eqns = []
    for eqn in jaxpr.eqns:
        operands = [atom(operand) for operand in eqn.invars]
        for var in eqn.outvars:
            numbers[var] = len(numbers)
        where = f"{eqn.primitive.name} ({eqn.source})"
        written = {
            "primitive": eqn.primitive.name,
            "operands": operands,
            "results": [write_aval(var.aval) for var in eqn.outvars],
            "params": {n: write_param(v, where, places=places) for n, v in eqn.params.items()},
        }
        if places:
            file = str(eqn.source).partition(":")[0]
            written["line"] = [file, eqn.source.line, eqn.source.function]
        eqns.append(written)

    def inputs(variables: Sequence[Var]) -> list[Any]:
        return [[var.name if places else "", *write_aval(var.aval)] for var in variables]

    return {
        "name": jaxpr.name,
        "inputs": inputs(jaxpr.invars),
        "constants": inputs(jaxpr.constvars),
        "eqns": eqns,
        "results": [atom(var) for var in jaxpr.outvars],
    }


def read_jaxpr(data: Any, consts: Sequence[Any]) -> Jaxpr:
    """Return the program that ``write_jaxpr`` wrote, with these values of its constants.

    Raises:
        NotPortable: the data are no program, or ask for a primitive that is not declared here.
    """
    return checked(lambda: _read_jaxpr(data, tuple(consts)), "program")


def _read_jaxpr(data: Mapping[str, Any], consts: tuple[Any, ...]) -> Jaxpr:
    inputs = tuple(Var(read_aval(aval), str(name)) for name, *aval in data["inputs"])
    constants = tuple(Var(read_aval(aval), str(name)) for name, *aval in data["constants"])
    known = [*inputs, *constants]

    def atom(written: Any) -> Atom:
        if isinstance(written, int):
            return known[written] if written >= 0 else known[len(known)]
        *aval, value = written
        kind = read_aval(aval)
        (number,) = np.frombuffer(bytes.fromhex(value), kind.dtype)
        return Literal(number, kind)

    eqns = []
    for eqn in data["eqns"]:
        operands = tuple(map(atom, eqn["operands"]))
        results = tuple(Var(read_aval(aval)) for aval in eqn["results"])
        params = {name: read_param(value) for name, value in eqn["params"].items()}
        file, line, function = eqn["line"]
        source = SourceLine(str(file), int(line), str(function))
        primitive = _primitive(eqn["primitive"])
        found = primitive.abstract_eval(*(operand.aval for operand in operands), **params)
        found = tuple(found) if primitive.multiple_results else (found,)
        if [(a.shape, a.dtype) for a in found] != [(v.aval.shape, v.aval.dtype) for v in results]:
            raise NotPortable(f"{primitive.name} gives other types here: {found}")
        eqns.append(JaxprEqn(primitive, operands, results, params, source))
        known += results
    outvars = tuple(map(atom, data["results"]))
    return Jaxpr(inputs, constants, consts, tuple(eqns), outvars, str(data["name"]))


def _primitive(name: Any) -> Any:
    try:
        return find_primitive(name)
    except KeyError:
        raise NotPortable(
            f"the program uses the primitive {name!r}, which this process has not declared: import "
            "the module that declares it first"
        ) from None


def write_param(value: Any, where: str, *, places: bool = True) -> Any:
    """Return a parameter of an operation as data.

    Args:
        value: The parameter.
        where: Whose it is, for the message.
        places: As in ``write_jaxpr``.

    Raises:
        NotPortable: it has no form as data.
    """
    match value:
        case tuple():
            return {"tuple": [write_param(item, where, places=places) for item in value]}
        case np.dtype():
            return {"dtype": value.str}
        case np.generic():
            return {"scalar": [value.dtype.str, value.tobytes().hex()]}
        case Jaxpr() if not value.consts:
            return {"jaxpr": write_jaxpr(value, places=places)}
        case _ if type(value) in _PLAIN:
            return value if type(value) is not float else {"float": value.hex()}
    raise NotPortable(f"{where} has a parameter {value!r}, which cannot be written to a file")


def read_param(data: Any) -> Any:
    """Return the parameter that ``write_param`` wrote."""
    match data:
        case {"tuple": list(items)}:
            return tuple(map(read_param, items))
        case {"dtype": str(name)}:
            return _dtype(name)
        case {"scalar": [str(name), str(value)]}:
            return np.frombuffer(bytes.fromhex(value), _dtype(name))[0]
        case {"jaxpr": dict(body)}:
            return _read_jaxpr(body, ())
        case {"float": str(value)}:
            return float.fromhex(value)
        case _ if type(data) in _PLAIN:
            return data
    raise NotPortable(f"{data!r} is no parameter")


def write_tree(treedef: TreeDef) -> Any:
    """Return a structure as data.

    Raises:
        NotPortable: it has other containers than tuples, lists, dicts and None.
    """
    return _write_node(unflatten(treedef, range(treedef.num_leaves)))


def _write_node(node: Any) -> Any:
    if node is None:
        return None
    if type(node) is int:
        return node
    if type(node) in (tuple, list):
        return {type(node).__name__: [_write_node(child) for child in node]}
    if type(node) is dict and all(type(key) in (str, int, bool) for key in node):
        return {"dict": [[key, _write_node(child)] for key, child in node.items()]}
    raise NotPortable(
        f"{type(node).__module__}.{type(node).__qualname__} cannot be written to a file: export "
        "functions of tuples, lists, dicts (with strings or integers as keys) and None"
    )


def read_tree(data: Any) -> TreeDef:
    """Return the structure that ``write_tree`` wrote.

    Raises:
        NotPortable: the data are no structure.
    """
    tree = checked(lambda: _read_node(data), "structure")
    leaves, treedef = flatten(tree)
    if sorted(leaves) != list(range(len(leaves))):
        raise NotPortable("the leaves of a structure are not numbered")
    return treedef


def _read_node(data: Any) -> Any:
    match data:
        case None | int():
            return data
        case {"tuple": list(items)}:
            return tuple(map(_read_node, items))
        case {"list": list(items)}:
            return list(map(_read_node, items))
        case {"dict": list(items)}:
            return {key: _read_node(child) for key, child in items}
    raise NotPortable(f"{data!r} is no part of a structure")


def checked(read: Callable[[], _T], what: str) -> _T:
    """Return what ``read`` returns; let no malformed data raise anything but ``NotPortable``."""
    try:
        return read()
    except NotPortable:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise NotPortable(f"the data are no {what}: {error!r}") from error


def _is_size(value: Any) -> bool:
    return type(value) is int and value >= 0


def _dtype(name: str) -> np.dtype[Any]:
    dtype = np.dtype(name)
    if dtype.kind not in "biufc" or not dtype.isnative:
        raise NotPortable(f"arrays of {name} are not supported")
    return dtype
