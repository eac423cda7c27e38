"""minijit: an array JIT that traces NumPy and CuPy code and fuses it into Numba kernels."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

# In a source tree the folder `kernels` stands beside the package; installed, it is inside.
if not (Path(__file__).parent / "kernels").is_dir():
    __path__.append(str(Path(__file__).parent.parent))

from minijit.api.abstract import ShapeDtypeStruct
from minijit.api.caches import clear_caches
from minijit.api.exported import Loaded, load
from minijit.api.inspect import block_until_ready, eval_shape, make_jaxpr
from minijit.api.jit import Jitted, jit
from minijit.api.stages import Compiled, KernelInfo, Lowered
from minijit.api.warmup import warmup
from minijit.backends.array import Array
from minijit.backends.registry import default_device, devices
from minijit.graph import errors
from minijit.graph.config import config
from minijit.graph.errors import (
    ConcretizationTypeError,
    DeclarationError,
    ForkedCUDAError,
    NonConcreteBooleanIndexError,
    RecompileLimitError,
    RecompileWarning,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
    UnexpectedTracerError,
)
from minijit.graph.jaxpr import Jaxpr
from minijit.graph.mode import disable_jit
from minijit.graph.tracer import Tracer

if TYPE_CHECKING:
    from minijit import bucketing as bucketing
    from minijit import debug as debug
    from minijit import extend as extend
    from minijit import lax as lax
    from minijit import numpy as numpy
    from minijit.api.autodiff import grad as grad
    from minijit.api.autodiff import jvp as jvp
    from minijit.api.autodiff import linearize as linearize
    from minijit.api.autodiff import value_and_grad as value_and_grad
    from minijit.api.autodiff import vjp as vjp
    from minijit.api.custom_derivatives import custom_jvp as custom_jvp
    from minijit.api.custom_derivatives import custom_vjp as custom_vjp
    from minijit.api.jacobians import hessian as hessian
    from minijit.api.jacobians import jacfwd as jacfwd
    from minijit.api.jacobians import jacrev as jacrev
    from minijit.api.vectorize import vmap as vmap

__version__ = "0.1.0"

__all__ = [
    "Array",
    "Compiled",
    "ConcretizationTypeError",
    "DeclarationError",
    "ForkedCUDAError",
    "Jaxpr",
    "Jitted",
    "KernelInfo",
    "Loaded",
    "Lowered",
    "NonConcreteBooleanIndexError",
    "RecompileLimitError",
    "RecompileWarning",
    "ShapeDtypeStruct",
    "Tracer",
    "TracerArrayConversionError",
    "TracerBoolConversionError",
    "TracerIntegerConversionError",
    "UnexpectedTracerError",
    "block_until_ready",
    "bucketing",
    "clear_caches",
    "config",
    "custom_jvp",
    "custom_vjp",
    "debug",
    "default_device",
    "devices",
    "disable_jit",
    "errors",
    "eval_shape",
    "extend",
    "grad",
    "hessian",
    "jacfwd",
    "jacrev",
    "jit",
    "jvp",
    "lax",
    "linearize",
    "load",
    "make_jaxpr",
    "numpy",
    "value_and_grad",
    "vjp",
    "vmap",
    "warmup",
]


# Imported when they are used: importing minijit must be quick. See SPEC 1.
_LAZY = frozenset({"bucketing", "debug", "extend", "lax", "numpy"})
_TRANSFORMATIONS = {
    name: f"minijit.api.{module}"
    for module, names in {
        "autodiff": ("grad", "jvp", "linearize", "value_and_grad", "vjp"),
        "custom_derivatives": ("custom_jvp", "custom_vjp"),
        "jacobians": ("hessian", "jacfwd", "jacrev"),
        "vectorize": ("vmap",),
    }.items()
    for name in names
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return importlib.import_module(f"minijit.{name}")
    if name in _TRANSFORMATIONS:
        return getattr(importlib.import_module(_TRANSFORMATIONS[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
