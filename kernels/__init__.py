"""Device functions and kernel skeletons that Numba compiles; imports only numba, math and NumPy."""

from __future__ import annotations
