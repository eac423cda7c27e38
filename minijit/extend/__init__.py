"""For authors of primitives: the constructors that minijit's own operations are declared with."""

from __future__ import annotations

from minijit.api import load_operations
from minijit.extend.check import CheckResult, PrimitiveReport, check_primitive
from minijit.extend.custom_call import CustomCall, custom_call
from minijit.extend.elementwise import elementwise
from minijit.extend.pattern import Rewrite, pattern
from minijit.extend.reduction import reduction
from minijit.graph.index import Affine
from minijit.graph.plugins import load_plugin, plugins
from minijit.graph.primitive import (
    LINEAR,
    Contraction,
    Kind,
    Monoid,
    Part,
    Primitive,
    Scalar,
    all_primitives,
    register,
    sequential,
    unsupported,
)
from minijit.graph.registry import scope
from minijit.graph.trace import bind
from minijit.ops.define import choice, plain, typed
from minijit.ops.library import library

__all__ = [
    "LINEAR",
    "Affine",
    "CheckResult",
    "Contraction",
    "CustomCall",
    "Kind",
    "Monoid",
    "Part",
    "Primitive",
    "PrimitiveReport",
    "Rewrite",
    "Scalar",
    "all_primitives",
    "bind",
    "check_primitive",
    "choice",
    "custom_call",
    "elementwise",
    "library",
    "load_plugin",
    "pattern",
    "plain",
    "plugins",
    "reduction",
    "register",
    "scope",
    "sequential",
    "typed",
    "unsupported",
]

load_operations()  # a new primitive must not take the name of one of minijit's own
