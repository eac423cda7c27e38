"""minijit: an array JIT that traces NumPy and CuPy code and fuses it into Numba kernels."""

from __future__ import annotations

from pathlib import Path

# In a source tree the folder `kernels` stands beside the package; installed, it is inside.
if not (Path(__file__).parent / "kernels").is_dir():
    __path__.append(str(Path(__file__).parent.parent))

from minijit import debug, extend, lax, numpy
from minijit.api.abstract import ShapeDtypeStruct
from minijit.api.inspect import block_until_ready, eval_shape, make_jaxpr
from minijit.api.jit import Jitted, clear_caches, disable_jit, jit
from minijit.api.planned import grad, vmap
from minijit.api.stages import Compiled, KernelInfo, Lowered
from minijit.backends.array import Array
from minijit.backends.registry import default_device, devices
from minijit.graph import errors
from minijit.graph.config import config
from minijit.graph.errors import (
    ConcretizationTypeError,
    NonConcreteBooleanIndexError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
    UnexpectedTracerError,
)
from minijit.graph.jaxpr import Jaxpr
from minijit.graph.tracer import Tracer

__version__ = "0.1.0"

__all__ = [
    "Array",
    "Compiled",
    "ConcretizationTypeError",
    "Jaxpr",
    "Jitted",
    "KernelInfo",
    "Lowered",
    "NonConcreteBooleanIndexError",
    "ShapeDtypeStruct",
    "Tracer",
    "TracerArrayConversionError",
    "TracerBoolConversionError",
    "TracerIntegerConversionError",
    "UnexpectedTracerError",
    "block_until_ready",
    "clear_caches",
    "config",
    "debug",
    "default_device",
    "devices",
    "disable_jit",
    "errors",
    "eval_shape",
    "extend",
    "grad",
    "jit",
    "lax",
    "make_jaxpr",
    "numpy",
    "vmap",
]
