"""SECURITY.md states the defaults that the code has."""

from __future__ import annotations

import re
import stat
from pathlib import Path

from minijit.graph.config import Settings
from minijit.runtime.disk import Store, container
from minijit.runtime.disk.store import Policy
from tests.runtime.disk.samples import make_entry, make_key

PAGE = (Path(__file__).resolve().parents[1] / "SECURITY.md").read_text()


def test_stated_defaults_are_those_of_the_code(tmp_path: Path) -> None:
    store, key, settings = Store(tmp_path / "cache"), make_key(), Settings()
    store.put(key, make_entry(key))
    modes = {
        path.is_dir(): f"{stat.S_IMODE(path.stat().st_mode):04o}"
        for path in (tmp_path / "cache").rglob("*")
    }
    stated = dict(re.findall(r"^\| ([^|]*?) \| `(.*?)` \|$", PAGE, re.MULTILINE))
    assert stated == {
        "mode of folders": modes[True],
        "mode of files": modes[False],
        "bytes of a header, at most": str(container.MAX_HEADER_BYTES),
        "bytes of a file, at most": str(container.MAX_ENTRY_BYTES),
        "sections of a file, at most": str(container.MAX_SECTIONS),
        "bytes in all, at most": str(settings.compilation_cache_max_size),
        "files in all, at most": str(Policy().max_entries),
        "seconds that a process waits for another": f"{Policy().lock_seconds:g}",
    }
    assert settings.compilation_cache_dir == ""
    assert Policy().max_bytes == settings.compilation_cache_max_size
