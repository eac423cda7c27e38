"""Puts the emulated device under numba-cuda in every process that has this folder on its path."""

from __future__ import annotations

import sys
from typing import Any


class _BeforeTheDriver:
    """An import hook that finds nothing: it only acts just before numba-cuda binds the driver."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name == "numba.cuda.cudadrv.driver":
            sys.meta_path.remove(self)
            from tests.numba_cuda.install import install

            install()


sys.meta_path.insert(0, _BeforeTheDriver())
