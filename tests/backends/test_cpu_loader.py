"""What LLVM allocates is freed: for a compile after it, code when nobody runs it any more."""

from __future__ import annotations

import os
import sys

import pytest

from minijit.backends.cpu import loader
from minijit.backends.cpu.loader import target_machine

ROUNDS = 300


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_pass_managers_are_freed() -> None:
    import llvmlite.binding as llvm

    machine = target_machine(3)
    options = llvm.create_pipeline_tuning_options(speed_level=3)

    def optimise(rounds: int) -> None:
        for _ in range(rounds):
            module = llvm.parse_assembly("define i64 @f(i64 %x) { ret i64 %x }")
            builder = llvm.create_pass_builder(machine, options)
            builder.getModulePassManager().run(module, builder)

    optimise(ROUNDS // 10)
    before = resident()
    optimise(ROUNDS)
    assert resident() - before < ROUNDS * 10 * 2**10


def test_code_may_outlive_its_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """At exit Python sets the names of a module to None, and frees what is left afterwards."""
    dropped, engine = loader._dropped, object()
    code = loader.Code(engine, 1)
    monkeypatch.setattr(loader, "_dropped", None)
    code.__del__()
    assert dropped.pop() is engine
    code._engine = None
    del code
    assert dropped.pop() is None
