"""What follows about signs from a kernel: a row less its maximum is nowhere above zero."""

from __future__ import annotations

from minijit.lowering.kernel_ir import Constant, Kernel, Map, Operand, Reduce, walk

__all__ = ["signs_of"]

_NEVER_BELOW = frozenset({"abs", "exp", "exp2", "sqrt", "square"})
_Signs = frozenset[int]
_UNKNOWN: _Signs = frozenset()
_POSITIVE: _Signs = frozenset({1})
_NEGATIVE: _Signs = frozenset({-1})
_EITHER = _POSITIVE | _NEGATIVE


def signs_of(kernel: Kernel) -> dict[Operand, frozenset[int]]:
    """Return for floats 1 if they are nowhere below zero, and -1 if they are nowhere above.

    NaN is neither below nor above, and a zero may have either sign.
    """
    signs: dict[Operand, _Signs] = {}
    extrema: dict[Operand, tuple[Operand, _Signs]] = {}
    negated: dict[Operand, Operand] = {}
    for node in walk(kernel.body):
        if isinstance(node, Reduce) and node.monoid.name in ("max", "min"):
            extrema[node.out] = node.args[0], _NEGATIVE if node.monoid.name == "max" else _POSITIVE
        elif isinstance(node, Map) and node.out.dtype.kind == "f":
            known = [_constant(a) if isinstance(a, Constant) else signs.get(a) for a in node.args]
            match node.op.name, node.args:
                case "sub", (left, right) if right in extrema and extrema[right][0] is left:
                    found = extrema[right][1]
                case "sub", (left, right) if left in extrema and extrema[left][0] is right:
                    found = _negated(extrema[left][1])
                case "mul", (left, right) if left is right:
                    found = _POSITIVE
                case "mul", (a, b) if a is negated.get(b) or b is negated.get(a):
                    found = _NEGATIVE
                case name, _:
                    found = _result(name, [each or _UNKNOWN for each in known], node.args)
            if node.op.name == "neg":
                negated[node.out] = node.args[0]
            signs[node.out] = found
    return signs


def _constant(operand: Constant) -> _Signs:
    if operand.dtype.kind != "f":
        return _UNKNOWN
    return _POSITIVE if operand.value > 0 else _NEGATIVE if operand.value < 0 else _EITHER


def _negated(signs: _Signs) -> _Signs:
    return frozenset(-sign for sign in signs)


def _result(name: str, signs: list[_Signs], args: tuple[Operand, ...]) -> _Signs:
    """Return what follows for an operation from what is known of its operands."""
    match name, signs:
        case "neg", [sign]:
            return _negated(sign)
        case "convert_element_type", [sign]:
            return sign
        case ("add", [left, right]) | ("select", [_, left, right]):
            return left & right
        case "sub", [left, right]:
            return left & _negated(right)
        case "max", [left, right]:
            return left & right | _POSITIVE & (left | right)
        case "min", [left, right]:
            return left & right | _NEGATIVE & (left | right)
        case "mul", [left, right]:
            return frozenset(one * other for one in left for other in right)
        case "div", [left, right] if isinstance(args[1], Constant) and args[1].value:
            return frozenset(one * other for one in left for other in right)
        case _:
            return _POSITIVE if name in _NEVER_BELOW else _UNKNOWN
