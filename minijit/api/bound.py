"""A jitted method of one instance."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minijit.api.jit import Jitted
    from minijit.api.stages import Lowered
    from minijit.runtime.report import CacheEntries, Explanation, Stats

__all__ = ["Bound"]


class Bound:
    """``instance.method``: a jitted function whose first argument is given, and static.

    It is to a jitted function what Python's bound method is to a function.
    """

    __slots__ = ("__func__", "__self__")

    def __init__(self, function: Jitted[..., Any], instance: object) -> None:
        """Bind ``function``, whose first argument is static, to ``instance``."""
        self.__func__ = function
        self.__self__ = instance

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the method."""
        return self.__func__._call((self.__self__, *args), kwargs)

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Trace for this signature; see :meth:`Jitted.lower`."""
        return self.__func__._lower((self.__self__,), args, kwargs)

    def clear_cache(self) -> None:
        """Drop all compiled programs of the method, for all instances."""
        self.__func__.clear_cache()

    def stats(self) -> Stats:
        """Return counts over all instances; see :meth:`Jitted.stats`."""
        return self.__func__.stats()

    def entries(self) -> CacheEntries:
        """Return the signatures in the cache, those of all instances."""
        return self.__func__.entries()

    def explain(self) -> Explanation:
        """Return why the method was compiled, for all instances; see :meth:`Jitted.explain`."""
        return self.__func__.explain()

    def _cache_size(self) -> int:
        """Return the number of signatures in the cache, those of all instances."""
        return self.__func__._cache_size()

    @property
    def __wrapped__(self) -> Any:
        """The method that is not jitted."""
        return types.MethodType(self.__func__._function, self.__self__)

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        """The function's documentation."""
        return self.__func__.__doc__

    def __getattr__(self, name: str) -> Any:
        """Return the function's name and the like."""
        return getattr(self.__func__, name)

    def __eq__(self, other: object) -> bool:
        """Whether ``other`` is the same method of the same instance."""
        if not isinstance(other, Bound):
            return NotImplemented
        return self.__self__ is other.__self__ and self.__func__ is other.__func__

    def __hash__(self) -> int:
        """Return a hash by identity."""
        return hash((id(self.__self__), id(self.__func__)))

    def __repr__(self) -> str:
        """Return function and instance."""
        return f"<{self.__func__!r} bound to {self.__self__!r}>"

    def __reduce__(self) -> Any:
        """Pickle by name."""
        return getattr, (self.__self__, self.__func__._function.__name__)
