"""Attributes of classes, and globals of the function's own package: read like any other global."""

from __future__ import annotations

import importlib
import re
import sys
import textwrap
from collections import Counter
from pathlib import Path

import pytest

import minijit
from tests.api.test_reads import module, values
from tests.conftest import Device

Counts = Counter[str]

MEMBERS: dict[str, tuple[str, str, str]] = {
    "constant": ("s = 2.0", "return x * C.s", "C.s = 3.0"),
    "inherited": ("s = 2.0", "return x * D.s", "C.s = 3.0"),
    "hidden later": ("s = 2.0", "return x * D.s", "D.s = 3.0"),
    "function": (
        "def m(x): return x * 2.0",
        "return C.m(x)",
        "def three(x): return x * 3.0\nC.m = three",
    ),
    "static method": (
        "@staticmethod\n    def m(x): return x * 2.0",
        "return C.m(x)",
        "C.m = staticmethod(lambda x: x * 3.0)",
    ),
    "class method": (
        "s = 2.0\n    @classmethod\n    def m(cls, x): return x * cls.s",
        "return D.m(x)",
        "C.s = 3.0",
    ),
    "method": (
        "def m(self, x): return x * 2.0\n    def n(self, x): return self.m(x)",
        "return c.n(x)",
        "C.m = lambda self, x: x * 3.0",
    ),
}


@pytest.mark.parametrize("name", MEMBERS)
def test_attributes_of_classes_are_read(device: Device, counts: Counts, name: str) -> None:
    member, body, change = MEMBERS[name]
    classes = f"class C:\n    {member}\nclass D(C): pass\nc = D()\n"
    m = module("m", f"{classes}def f(x):\n    {body}")
    f = minijit.jit(m.f)
    assert values(device, f) == [2, 2]
    exec(change, vars(m))
    assert values(device, f) == [3, 3]
    assert counts["trace"] == 2
    (told,) = f.explain().misses[-1].changes
    assert re.fullmatch(r"attribute '\w' of class [CD]", told.what)


def test_attributes_of_classes_that_are_written_are_no_part_of_the_key(
    device: Device, counts: Counts
) -> None:
    source = """
        class C:
            calls = 0
            def m(self, x):
                type(self).calls += 1
                C.last = C.calls
                return x * 2
        c = C()
        def f(x): return c.m(x) * C.calls
    """
    f = minijit.jit(module("m", textwrap.dedent(source)).f)
    assert values(device, f) == [2, 2]
    assert counts["trace"] == 1


def test_the_package_of_the_function_is_followed_where_it_is_installed(
    device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "site-packages"
    for package in ("mine", "other"):
        (folder / package).mkdir(parents=True)
        (folder / package / "__init__.py").write_text("")
    (folder / "other" / "part.py").write_text("scale = 1.0\ndef inner(x): return x * scale")
    (folder / "mine" / "part.py").write_text("scale = 2.0\ndef inner(x): return x * scale")
    (folder / "mine" / "whole.py").write_text(
        "from mine import part\nimport other.part\n"
        "def f(x): return part.inner(x) * other.part.inner(1.0)"
    )
    monkeypatch.syspath_prepend(str(folder))
    try:
        whole = importlib.import_module("mine.whole")
        f = minijit.jit(whole.f)
        assert values(device, f) == [2, 2]
        whole.part.scale = 3.0
        assert values(device, f) == [3, 3]
        whole.other.part.scale = 5.0  # another library: taken as it is
        assert values(device, f) == [3, 3]
    finally:
        for name in [name for name in sys.modules if name.split(".")[0] in ("mine", "other")]:
            del sys.modules[name]
