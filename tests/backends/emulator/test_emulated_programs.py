"""Whole programs on the emulated device: traced, fused, compiled to PTX, and that PTX run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import minijit
from minijit.backends import registry
from minijit.backends.emulator.backend import EmulatedBackend
from minijit.backends.emulator.device import EmulatedDevice
from minijit.runtime.launchers import clear_kernels
from tests.backends.test_cuda_programs import PROGRAMS
from tests.sampling import paired

CAPABILITIES = ((8, 0), (9, 0), (10, 0))


@pytest.fixture
def backend(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[EmulatedBackend]:
    clear_kernels()
    device = EmulatedDevice(request.param, count=True, block_order=7)
    emulated = EmulatedBackend(device, request.param)
    for name in ("cuda", emulated.name):
        monkeypatch.setitem(registry._backends, name, emulated)
    with minijit.default_device("cuda"):
        yield emulated
    clear_kernels()


@pytest.mark.parametrize(
    ("name", "backend"), paired(PROGRAMS, CAPABILITIES), ids=str, indirect=["backend"]
)
def test_program_gives_numpys_result(name: str, backend: EmulatedBackend) -> None:
    function, arguments = PROGRAMS[name]
    # A new function: programs are kept by function, and would still belong to another device.
    results = minijit.jit(lambda *values: function(*values))(*arguments)
    expected = function(*arguments)
    assert backend.device.counters, "no kernel ran"
    several = isinstance(expected, tuple)
    pairs = zip(results, expected, strict=True) if several else [(results, expected)]
    tolerance = 2e-3 if name in ("half", "sum_half") else 1e-5
    for result, wanted in pairs:
        assert result.dtype == wanted.dtype
        np.testing.assert_allclose(np.asarray(result), wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("backend", CAPABILITIES, ids=str, indirect=True)
def test_elementwise_programs_give_numpys_bits(backend: EmulatedBackend) -> None:
    def function(x: Any, y: Any) -> Any:
        return np.sqrt(np.abs(x)) * y + x / y - np.minimum(x, y)

    random = np.random.default_rng(5)
    x, y = (random.standard_normal(1000).astype(np.float32) for _ in range(2))
    assert minijit.jit(function)(x, y).tobytes() == function(x, y).tobytes()


def test_the_device_is_chosen_by_name_and_finds_places_in_long_rows() -> None:
    """A long argmax is split: its two kernels reduce a pair of value and position twice."""
    x = np.random.default_rng(0).standard_normal(50_000).astype(np.float32)
    f = minijit.jit(lambda v: (v.argmax(), v.argmin(), v.max()))
    with minijit.default_device("cuda-emulated"):
        largest, smallest, most = f(x)
    assert (int(largest), int(smallest), float(most)) == (x.argmax(), x.argmin(), x.max())
    assert f.stats()["copies"] == 1
    assert "cuda-emulated" not in minijit.devices()
