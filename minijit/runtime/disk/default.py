"""The store that the options name."""

from __future__ import annotations

import functools
import os

from minijit.graph.config import config
from minijit.runtime.disk.notice import warn_once
from minijit.runtime.disk.store import Policy, Store

__all__ = ["default_store"]


def default_store() -> Store | None:
    """Return the store that the options name now, the same one for the same options.

    None when ``config.compilation_cache`` is ``"off"``, or there is no folder to keep it in: the
    temporary folder, which all users share, takes its place never.
    """
    settings = config.settings
    if settings.compilation_cache == "off":
        return None
    return _store(
        settings.compilation_cache_dir,
        Policy(
            mode=settings.compilation_cache,
            min_entry_bytes=settings.persistent_cache_min_entry_size_bytes,
            min_compile_seconds=settings.persistent_cache_min_compile_time_secs,
            max_bytes=settings.compilation_cache_max_size,
        ),
    )


@functools.lru_cache(maxsize=16)
def _store(folder: str, policy: Policy) -> Store | None:
    folder = os.path.expanduser(folder or _user_folder())
    if folder.startswith("~"):
        warn_once(
            "home",
            "compiled kernels are not kept, since this user has no home folder: name one for them "
            "in MINIJIT_CACHE_DIR, or set MINIJIT_CACHE=0",
        )
        return None
    return Store(folder, policy)


def _user_folder() -> str:
    import platformdirs  # where no folder is named

    return platformdirs.user_cache_dir("minijit", appauthor=False)
