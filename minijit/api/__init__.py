"""What users call: jit, its stages, and the tools that look at programs without running them."""

from __future__ import annotations

import importlib

__all__ = ["load_operations"]


def load_operations() -> None:
    """Import what traced arrays can do; the first trace asks: importing minijit must be quick."""
    for module in ("numpy", "ops.call", "ops.cond", "ops.print", "ops.scan", "ops.while_loop"):
        importlib.import_module(f"minijit.{module}")
