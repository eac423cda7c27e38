"""The disk store: compiled binaries and plans by their whole key, in files that are checked.

It knows nothing of kernels or compilers, and imports the standard library (and, for the user's
cache folder, platformdirs) alone: a warm process opens it before anything that is slow to import.
"""

from __future__ import annotations

from minijit.runtime.disk.container import Entry
from minijit.runtime.disk.default import default_store
from minijit.runtime.disk.key import Key
from minijit.runtime.disk.store import Record, Store

__all__ = ["Entry", "Key", "Record", "Store", "default_store"]
