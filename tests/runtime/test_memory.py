"""What a call needs in memory, as counted from its plan."""

from __future__ import annotations

from typing import Any

import numpy as np

import minijit
from minijit import lax
from tests.conftest import Device

X = np.linspace(-1, 1, 64 * 64, dtype=np.float32).reshape(64, 64)
BYTES = X.nbytes
W = np.eye(64, dtype=np.float32)


def memory(function: Any, *args: Any) -> Any:
    return minijit.jit(function).lower(*args).compile().memory_analysis()


def test_one_kernel_has_no_temporaries(device: Device) -> None:
    found = memory(lambda x: np.exp(x - x.max(-1, keepdims=True)), device.put(X))
    assert found.argument_size_in_bytes == found.output_size_in_bytes == BYTES
    assert found.temp_size_in_bytes == found.constant_size_in_bytes == 0
    assert found.generated_code_size_in_bytes > 0
    assert found.peak_memory_in_bytes == 2 * BYTES


def test_values_between_steps_are_counted_while_they_live(device: Device) -> None:
    # Each product is a step of its own; at any time one operand and one result live.
    found = memory(lambda x: (((x @ W) @ W) @ W) @ W, device.put(X))
    assert found.constant_size_in_bytes == BYTES
    assert found.temp_size_in_bytes == 2 * BYTES


def test_a_loop_that_the_host_drives_has_two_sets_of_carries(device: Device) -> None:
    def program(x: Any) -> Any:
        return lax.fori_loop(0, 5, lambda i, c: np.cumsum(c, 0).T @ x, x)

    found = memory(program, device.put(X))
    assert found.output_size_in_bytes == BYTES
    assert 2 * BYTES <= found.temp_size_in_bytes <= 4 * BYTES


def test_costs_have_peak_and_seconds() -> None:
    compiled = minijit.jit(lambda x: x * 2).lower(X).compile()
    costs = compiled.cost_analysis()
    assert costs["peak memory"] == compiled.memory_analysis().peak_memory_in_bytes
    assert 0 < costs["compile seconds"] < 600
