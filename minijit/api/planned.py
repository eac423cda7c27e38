"""Names of JAX's that are planned: they say so, instead of failing on import."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["grad"]


def grad(function: Any, *args: Any, **kwargs: Any) -> NoReturn:
    """Raise ``NotImplementedError``: differentiation is not part of this release."""
    raise NotImplementedError("minijit.grad is not part of this release")
