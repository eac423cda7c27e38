"""Products of matrices that kernels compute better than the array library: as sums of products.

The library has routines for large matrices of floats. Of a stack it calls one for each matrix,
which costs more than a small matrix is work; for integers NumPy has none at all.
"""

from __future__ import annotations

import math
from typing import Any

from minijit.graph.aval import ShapedArray
from minijit.graph.jaxpr import Atom, Jaxpr, JaxprEqn, Var
from minijit.graph.trace import bind
from minijit.ops.binary import multiply
from minijit.ops.dot import matmul_p
from minijit.ops.reduce import reduce_any_p, reduce_sum_p
from minijit.ops.shape import expand_dims
from minijit.transforms.blocks import made_of
from minijit.transforms.rewrite import rebuild, resolve, substituted

__all__ = ["sums_of_products"]

_SMALL = 1 << 12
"""Multiplications of a matrix that takes the library longer to call for than to multiply."""


def sums_of_products(jaxpr: Jaxpr) -> Jaxpr:
    """Return ``jaxpr`` with stacks of small matrices, and integers, multiplied in kernels.

    Before: ``c:f32[9,3,3] = matmul a b``; after: ``p:f32[9,3,3,3] = mul`` of ``a`` and ``b`` with
    an axis more each, and ``c = reduce_sum p``. Loops multiply in kernels anyhow.
    """
    if not any(map(_is_small, jaxpr.eqns)):
        return jaxpr
    environment: dict[Var, Atom] = {}
    eqns: list[JaxprEqn] = []
    for eqn in jaxpr.eqns:
        eqn_here = substituted(eqn, tuple(resolve(atom, environment) for atom in eqn.invars))
        made: tuple[JaxprEqn, ...] = (eqn_here,)
        if _is_small(eqn):
            made, (environment[eqn.outvars[0]],) = made_of(eqn_here, _summed, eqn_here.invars)
        eqns += made
    return rebuild(jaxpr, eqns, environment)


def _is_small(eqn: JaxprEqn) -> bool:
    if eqn.primitive is not matmul_p or eqn.outvars[0].aval.size == 0:
        return False
    left, right = (atom.aval for atom in eqn.invars)
    if left.dtype.kind in "biu":
        return left.shape[-1] > 0
    # Products of float16 are not rounded before they are added up.
    stack = max(left.ndim, right.ndim) > 2 and left.dtype.itemsize > 2
    return stack and 0 < _multiplications(left, right) <= _SMALL


def _multiplications(left: ShapedArray, right: ShapedArray) -> int:
    rows = left.shape[-2] if left.ndim > 1 else 1
    return math.prod((rows, left.shape[-1], right.shape[-1] if right.ndim > 1 else 1))


def _summed(left: Any, right: Any) -> tuple[Any]:
    total_p = reduce_any_p if left.dtype.kind == "b" else reduce_sum_p
    left_rank, right_rank = left.ndim, right.ndim
    if left_rank > 1 and right_rank > 1:
        left, right, axis = expand_dims(left, (-1,)), expand_dims(right, (-3,)), -2
    elif left_rank > 1:
        axis = -1
    elif right_rank > 1:
        left, axis = expand_dims(left, (-1,)), -2
    else:
        axis = -1
    products = multiply(left, right)
    return (bind(total_p, products, axes=(products.ndim + axis,)),)
