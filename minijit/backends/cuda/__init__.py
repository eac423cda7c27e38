"""The CUDA backend: Numba compiles kernels to cubins, CuPy holds memory and launches them."""

from __future__ import annotations
