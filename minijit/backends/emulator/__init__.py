"""A CUDA device made of NumPy: it runs the PTX that Numba compiled, and checks every access."""

from __future__ import annotations
