"""What LLVM allocates for a compile is freed after it."""

from __future__ import annotations

import os
import sys

import pytest

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
