"""Whole programs on the CUDA backend: compiled to cubins, then run thread by thread in Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import minijit
from minijit.backends import registry
from minijit.backends.array import Array
from minijit.backends.base import Binary, Build, Launcher
from minijit.backends.cuda.backend import CudaBackend
from minijit.lowering.kernel_ir import Role
from minijit.lowering.source import KernelSource
from minijit.runtime.launchers import clear_kernels
from tests.lowering.simt import Pointer, run


class OnDevice(Array):
    """Stands for an array in device memory."""


class SimtBackend(CudaBackend):
    """Compiles as the CUDA backend does; NumPy memory, kernels run by the Python stand-in."""

    xp: Any = np

    def __init__(self) -> None:
        super().__init__(cc=(9, 0))
        self.sources: list[KernelSource] = []

    def compile(self, source: KernelSource) -> Binary:
        self.sources.append(source)
        binary = super().compile(source)
        used = binary.resources
        assert (used["spill_stores"], used["spill_loads"]) == (0, 0)
        return binary

    def load(
        self,
        interface: Mapping[str, Any],
        binary: Binary,
        source: Callable[[], KernelSource],
        build: Build | None = None,
    ) -> Launcher:
        count = interface["buffers"]

        def launch(arguments: tuple[Any, ...]) -> None:
            pointers = [Pointer.of(array) for array in arguments[:count]]
            run(source(), pointers, arguments[count:])
            for pointer, buffer in zip(pointers, source().kernel.buffers, strict=True):
                if buffer.role is Role.OUTPUT:
                    assert (pointer.writes == 1).all(), "an output element was not written"

        return launch

    def allocator(self, shape: Sequence[int], dtype: Any) -> Callable[[], Any]:
        return lambda: self.result(np.full(shape, 77, dtype))

    def asarray(self, value: Any) -> Any:
        # What comes from the host is C-ordered on the device, as with CuPy.
        return np.array(value, order="C").view(OnDevice)

    def is_array(self, value: object) -> bool:
        return isinstance(value, OnDevice)

    def result(self, array: Any) -> Any:
        return array.view(OnDevice)

    def synchronize(self) -> None:
        """Nothing runs in the background."""


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimtBackend]:
    clear_kernels()
    stand_in = SimtBackend()
    monkeypatch.setitem(registry._backends, "cuda", stand_in)
    with minijit.default_device("cuda"):
        yield stand_in
    clear_kernels()


RANDOM = np.random.default_rng(5)


def floats(*shape: int, dtype: Any = np.float32) -> Any:
    return RANDOM.standard_normal(shape).astype(dtype)


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def layernorm(x: Any, weight: Any, bias: Any) -> Any:
    mean = x.mean(axis=-1, keepdims=True)
    centred = x - mean
    variance = (centred * centred).mean(axis=-1, keepdims=True)
    return centred / np.sqrt(variance + np.float32(1e-5)) * weight + bias


def image_filter(x: Any) -> Any:
    p = np.pad(x, 1)
    return (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]) / np.float32(4)


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "chain": (lambda x, y: np.tanh(x) * y + 1, (floats(1000), floats(1000))),
    "outer": (lambda x, y: x[:, None] * y[None, :], (floats(30), floats(40))),
    "transpose": (lambda x: x.T + 1, (floats(33, 20),)),
    "flip": (lambda x: x[::-1, ::2] * 2, (floats(9, 16),)),
    "concatenate": (lambda x, y: np.concatenate([x, y + 1], axis=1), (floats(5, 8), floats(5, 3))),
    "pad": (image_filter, (floats(12, 20),)),
    "where": (lambda x: np.where(x > 0, x, np.float32(0.1) * x), (floats(515),)),
    "bools": (lambda x, y: (x > y) & (x < 1), (floats(600), floats(600))),
    "integers": (lambda x: (x * 3 // 2) % 7, (np.arange(-300, 300, dtype=np.int32),)),
    "half": (lambda x: np.exp(x) * x, (floats(520, dtype=np.float16),)),
    "double": (lambda x: np.exp(x) * x, (floats(520, dtype=np.float64),)),
    "scalar": (lambda x, s: x * s + s, (floats(100), 2.5)),
    "softmax": (softmax, (floats(37, 100),)),
    "softmax_wide": (softmax, (floats(3, 2048),)),
    "softmax_strided": (softmax, (floats(200, 37).T,)),
    "layernorm": (layernorm, (floats(8, 256), floats(256), floats(256))),
    "variance": (lambda x: x.var(axis=0), (floats(50, 70),)),
    "sum_all": (lambda x: x.sum(), (floats(300, 70),)),
    "sum_split": (lambda x: (x * x).sum(), (floats(40_000),)),
    "sum_middle": (lambda x: x.sum(axis=1), (floats(4, 9, 20),)),
    "sum_outer": (lambda x: x.sum(axis=(0, 2)), (floats(4, 9, 20),)),
    "sum_int": (lambda x: x.sum(axis=1), (np.arange(600, dtype=np.int32).reshape(20, 30),)),
    "sum_half": (lambda x: x.sum(axis=1), (floats(6, 200, dtype=np.float16),)),
    "max_columns": (lambda x: x.max(axis=0), (floats(90, 33),)),
    "argmax": (lambda x: x.argmax(axis=1), (floats(9, 130),)),
    "argmin_all": (lambda x: x.argmin(), (floats(40, 50),)),
    "any_all": (lambda x: ((x > 2).any(axis=1), (x > -3).all(axis=1)), (floats(20, 60),)),
    "two_outputs": (lambda x: (x + 1, np.sqrt(np.abs(x))), (floats(400),)),
    "one_element": (lambda x: x.sum(axis=1) + x.max(axis=1), (floats(40, 1),)),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_gives_numpys_result(name: str, backend: SimtBackend) -> None:
    function, arguments = PROGRAMS[name]
    results = minijit.jit(function)(*arguments)
    expected = function(*arguments)
    assert backend.sources, "nothing was compiled for CUDA"
    several = isinstance(expected, tuple)
    pairs = zip(results, expected, strict=True) if several else [(results, expected)]
    tolerance = 2e-3 if name in ("half", "sum_half") else 1e-5
    for result, wanted in pairs:
        assert result.dtype == wanted.dtype
        np.testing.assert_allclose(result, wanted, rtol=tolerance, atol=tolerance)


def on_device(value: Any) -> Any:
    return value.view(OnDevice) if isinstance(value, np.ndarray) else value


VIEWS: dict[str, Callable[[Any], Any]] = {
    "transposed": lambda x: x.reshape(8, 6).T,
    "reversed": lambda x: x.reshape(6, 8)[::-1, ::-1],
    "stepped": lambda x: np.repeat(x, 2).reshape(6, 16)[:, ::2],
    "broadcast": lambda x: np.broadcast_to(x[:8], (6, 8)),
}


@pytest.mark.parametrize("put", [on_device, lambda value: value], ids=["device", "host"])
@pytest.mark.parametrize("name", VIEWS)
def test_strides_are_those_of_the_device(
    name: str, put: Callable[[Any], Any], backend: SimtBackend
) -> None:
    """Arrays of the device are read in place, others in the strides of their copies."""
    x, y = floats(6, 8), VIEWS[name](floats(48))
    f = minijit.jit(lambda x, y: x + y * 2)
    for _ in range(2):
        np.testing.assert_array_equal(f(put(x), put(y)), x + y * 2)
    captured = put(y)
    g = minijit.jit(lambda x: x + minijit.numpy.multiply(captured, 2))
    for _ in range(2):
        np.testing.assert_array_equal(g(put(x)), x + y * 2)
    copies = 0 if put is on_device else 2
    assert (f.stats()["copies"], g.stats()["copies"]) == (2 * copies, copies)


def test_elementwise_programs_give_numpys_bits(backend: SimtBackend) -> None:
    def function(x: Any, y: Any) -> Any:
        return np.sqrt(np.abs(x)) * y + x / y - np.minimum(x, y)

    x, y = floats(1000), floats(1000)
    assert minijit.jit(function)(x, y).tobytes() == function(x, y).tobytes()


def test_rows_with_their_reductions_are_one_kernel(backend: SimtBackend) -> None:
    minijit.jit(softmax)(floats(16, 64))
    assert len(backend.sources) == 1


def test_long_reductions_are_two_kernels(backend: SimtBackend) -> None:
    minijit.jit(lambda x: x.sum())(floats(50_000))
    assert len(backend.sources) == 2
