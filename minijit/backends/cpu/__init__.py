"""The CPU: Numba compiles kernels to object code, llvmlite loads it, our own threads run it."""

from __future__ import annotations
