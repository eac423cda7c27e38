"""Peers that need not be installed: torch.compile, with a stand-in for PyTorch."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from typing import Any

import numpy as np
import pytest

from minijit.tools import systems as module
from minijit.tools.systems import Device, systems
from minijit.tools.timing import host_clock


class Tensor:
    """A NumPy array on a device, with the methods that bench uses."""

    def __init__(self, array: Any, device: str = "cpu") -> None:
        self.array, self.device = array, device

    def to(self, device: str) -> Tensor:
        return Tensor(self.array, device)

    def cpu(self) -> Tensor:
        return self.to("cpu")

    def numpy(self) -> Any:
        assert self.device == "cpu"
        return self.array


class StandInTorch(types.ModuleType):
    """What bench takes from PyTorch without a GPU; it notes what is compiled."""

    __version__ = "stand-in"

    def __init__(self) -> None:
        super().__init__("torch")
        self.__spec__ = ModuleSpec("torch", None)
        self.compiled: list[bool] = []
        self.from_numpy = Tensor
        self.cuda = types.SimpleNamespace(is_available=lambda: False)
        self.compiler = types.SimpleNamespace(wrap_numpy=self._wrap_numpy)

    def compile(self, function: Callable[..., Any], dynamic: bool) -> Callable[..., Any]:
        self.compiled.append(dynamic)
        return function

    @staticmethod
    def _wrap_numpy(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *tensors: Tensor(function(*(tensor.numpy() for tensor in tensors)))


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> StandInTorch:
    stand_in = StandInTorch()
    monkeypatch.setitem(sys.modules, "torch", stand_in)
    return stand_in


def test_torch_compiles_numpy_code_for_the_cpu(torch: StandInTorch) -> None:
    compared = systems("cpu")
    (system,) = (system for system in compared.systems if system.name == "torch")
    assert (system.version, system.clock) == ("stand-in", host_clock)
    call = system.prepare(lambda xp, x: xp.exp(x) * 2)
    x = np.linspace(-1, 1, 5, dtype=np.float32)
    result = system.wait(call(system.put(x)))
    np.testing.assert_array_equal(system.get(result), np.exp(x) * 2)
    assert torch.compiled == [False]
    assert [compared.systems[place].name for place in (0, -1)] == ["numpy", "minijit"]


def test_torch_without_a_gpu_is_none_of_a_gpus_systems(torch: StandInTorch) -> None:
    device: Device = "cuda"
    absent, found = module._found({"torch": lambda: module._torch(device)})
    assert (absent, found) == ({"torch": "installed without a GPU that it can use"}, [])


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_torch_that_is_not_installed_is_listed(
    monkeypatch: pytest.MonkeyPatch, device: Device
) -> None:
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: None)
    absent, _ = module._found({"torch": lambda: module._torch(device)})
    assert absent == {"torch": "not installed"}
