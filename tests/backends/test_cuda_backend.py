"""The CUDA backend around a device made of NumPy: compiling, packing, loading, launching."""

from __future__ import annotations

import ctypes
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from minijit.backends.base import load_source
from minijit.backends.cuda.arguments import ArgumentBlock, BlockPerThread
from minijit.backends.cuda.backend import CudaBackend
from minijit.backends.cuda.device import CudaUnavailableError, CupyDevice
from minijit.graph import events
from minijit.lowering.kernel_ir import Kernel
from minijit.tools.machine import find_driver
from tests.lowering.cuda_kernels import adam, gelu, softmax
from tests.lowering.kernel_builder import Builder, constant


class DeviceArray(np.ndarray):  # type: ignore[type-arg]
    """Stands for ``cupy.ndarray``."""

    __cuda_array_interface__ = None


class RecordingDevice:
    """Keeps what it is asked to load and to launch."""

    compute_capability = (8, 0)
    xp: Any = np

    def __init__(self) -> None:
        self.loaded: list[tuple[bytes, str, int, int, int]] = []
        self.launched: list[tuple[str, int]] = []
        self.arguments: list[list[bytes]] = []
        self.count = 0
        self.waits = 0

    def load(self, code: bytes, entry: str, grid: int, block: int, shared: int) -> Any:
        self.loaded.append((code, entry, grid, block, shared))
        number = len(self.loaded) - 1

        def launch(arguments: int) -> None:
            addresses = (ctypes.c_uint64 * self.count).from_address(arguments)
            self.arguments.append([ctypes.string_at(address, 8) for address in addresses])
            self.launched.append((entry, number))

        return launch

    def empty(self, shape: Sequence[int], dtype: Any) -> Any:
        return np.empty(shape, dtype).view(DeviceArray)

    def asarray(self, value: Any) -> Any:
        return np.array(value).view(DeviceArray)

    def pointer(self, array: Any) -> int:
        return int(array.ctypes.data)

    def array_class(self) -> type:
        return DeviceArray

    def wait(self) -> None:
        self.waits += 1


def aligned(count: int, dtype: Any = np.float32, offset: int = 0) -> Any:
    """An array whose address is a multiple of 64, plus ``offset`` elements."""
    raw = np.zeros(count * np.dtype(dtype).itemsize + 128, np.uint8)
    start = -raw.ctypes.data % 64 + offset * np.dtype(dtype).itemsize
    return raw[start : start + count * np.dtype(dtype).itemsize].view(dtype)


def prepared(kernel: Kernel) -> tuple[RecordingDevice, CudaBackend, Any]:
    device = RecordingDevice()
    device.count = len(kernel.buffers) + len(kernel.arguments)
    backend = CudaBackend(device)
    source = backend.emit(kernel)
    return device, backend, load_source(backend, source, backend.compile(source))


def test_launch_passes_pointers_and_scalars_in_order() -> None:
    device, _, launch = prepared(adam(4096))
    arrays = [aligned(4096) for _ in range(7)]
    launch((*arrays, 0.25))
    assert device.launched == [("adam", 0)]
    *pointers, rate = device.arguments[0]
    assert [int.from_bytes(p, "little") for p in pointers] == [a.ctypes.data for a in arrays]
    assert np.frombuffer(rate, np.float32)[0] == np.float32(0.25)


def test_grid_and_block_cover_the_kernel() -> None:
    device, backend, _ = prepared(softmax(100, 128))
    code, entry, grid, block, shared = device.loaded[0]
    launch = backend.emit(softmax(100, 128)).launch
    assert code.startswith(b"\x7fELF")
    assert (entry, grid, block, shared) == ("softmax", launch.grid, launch.block, 0)


def test_unaligned_buffers_run_a_kernel_without_vectors() -> None:
    device, _, launch = prepared(gelu(1000))
    launch((aligned(1000), aligned(1000)))
    assert len(device.loaded) == 1
    launch((aligned(1000, offset=1), aligned(1000)))
    launch((aligned(1000), aligned(1000, offset=3)))
    assert [number for _, number in device.launched] == [0, 1, 1]
    assert len(device.loaded) == 2
    assert device.loaded[0][0] != device.loaded[1][0]


def test_buffers_that_need_no_alignment_are_not_asked_for_it() -> None:
    build = Builder((1000,))
    build.store(build.map("mul", build.load([3]), constant(2.0)), [2])
    device, _, launch = prepared(build.kernel())
    launch((aligned(3000, offset=1), aligned(2000, offset=1)))
    assert [number for _, number in device.launched] == [0]


def test_spilling_kernels_are_written_again_with_less_work(monkeypatch: pytest.MonkeyPatch) -> None:
    from minijit.backends.cuda import compiler as module

    real, works = module.compile_source, []

    def crowded(source: Any, cc: Any) -> Any:
        works.append(source.launch.work)
        binary = real(source, cc)
        spills = 64 * max(source.launch.work - 4, 0)
        resources = {**binary.resources, "spill_stores": spills, "spill_loads": spills}
        return type(binary)(binary.code, binary.entry, resources)

    monkeypatch.setattr(module, "compile_source", crowded)
    backend = CudaBackend(RecordingDevice())
    source = backend.emit(softmax(4096, 512))
    binary = backend.compile(source)
    assert works == [16, 8, 4]
    assert binary.resources["spill_stores"] == 0
    assert binary.resources["work"] == 4
    # More threads for a row, so other launch parameters than the first source has.
    load_source(backend, source, binary)
    device = backend.device
    assert isinstance(device, RecordingDevice)
    (_, _, grid, block, _) = device.loaded[-1]
    assert grid * block > source.launch.grid * source.launch.block


def test_a_stack_that_less_work_does_not_shrink_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    build = Builder((4096,))
    build.store(build.map("sin", build.load([1], np.float64)), [1])
    backend = CudaBackend(RecordingDevice())
    source = backend.emit(build.kernel())
    binary = backend.compile(source)
    assert binary.resources["stack"] > 0
    assert binary.resources["work"] == source.launch.work


def test_emit_and_compile_need_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    backend = CudaBackend(cc=(9, 0))
    assert backend.compile(backend.emit(gelu(4096))).resources["cc"] == 90
    with pytest.raises(CudaUnavailableError, match="CuPy is not installed"):
        backend.allocator((3,), np.dtype(np.float32))()


def test_missing_gpu_names_cause_and_remedies() -> None:
    driver = find_driver()
    if not isinstance(driver, str) and driver.gpus:
        pytest.skip("this machine has a GPU")
    for make in (CupyDevice, CudaBackend):
        with pytest.raises(CudaUnavailableError) as caught:
            make()
        for part in ("driver", "minijit[cuda13]", "device='cpu'", "doctor"):
            assert part in str(caught.value)


class RecordingStream:
    """Stands for ``cupy.cuda.Stream``: what happened on it, in order."""

    made: list[RecordingStream]

    def __init__(self, non_blocking: bool = False) -> None:
        self.events: list[str] = ["non-blocking" if non_blocking else "blocking"]
        RecordingStream.made.append(self)

    def __enter__(self) -> None:
        self.events.append("current")

    def __exit__(self, *_: object) -> None:
        self.events.append("left")

    def begin_capture(self) -> None:
        self.events.append("begin")

    def end_capture(self) -> Any:
        self.events.append("end")
        return SimpleNamespace(launch=lambda: self.events.append("launch"))


def test_capture_is_on_a_stream_of_its_own_and_always_ends() -> None:
    device = object.__new__(CupyDevice)  # without looking for a GPU
    device.xp = SimpleNamespace(cuda=SimpleNamespace(Stream=RecordingStream))
    RecordingStream.made = []
    replay = device.capture(lambda: RecordingStream.made[0].events.append("kernels"))
    replay()
    captured = ["non-blocking", "current", "begin", "kernels", "end", "left"]
    assert RecordingStream.made[0].events == [*captured, "launch"]
    with pytest.raises(ZeroDivisionError):
        device.capture(lambda: 1 // 0)  # type: ignore[arg-type, return-value]
    assert RecordingStream.made[1].events == [*captured[:3], *captured[4:]]


def test_capability_is_the_devices_unless_given() -> None:
    assert CudaBackend(RecordingDevice()).cc == (8, 0)
    assert CudaBackend(RecordingDevice(), (9, 0)).cc == (9, 0)


def test_copies_to_the_device_are_counted() -> None:
    backend = CudaBackend(RecordingDevice())
    seen: list[dict[str, Any]] = []
    with events.subscribe(lambda event, data: seen.append({"event": event, **data})):
        array = backend.asarray(np.zeros(5, np.float32))
        assert backend.asarray(array) is array
        backend.asarray(SimpleNamespace(__cuda_array_interface__={}))
    assert seen == [{"event": "copy_to_device", "bytes": 20}]
    assert backend.is_array(array)
    assert not backend.is_array(np.zeros(5))


def test_results_wait_for_the_device() -> None:
    device = RecordingDevice()
    backend = CudaBackend(device)
    array = backend.allocator((2, 3), np.dtype(np.float32))()
    result = backend.result(array)
    assert isinstance(result, DeviceArray)
    assert result.block_until_ready() is result
    assert device.waits == 1
    assert np.shares_memory(result, array)
    assert type(result) is type(backend.result(array))
    backend.synchronize()
    assert device.waits == 2


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("bool", True), ("int8", -3), ("int16", -300), ("int32", -70000), ("int64", -(2**40)),
        ("uint8", 200), ("uint16", 60000), ("uint32", 2**31), ("uint64", 2**63 + 1),
        ("float32", 0.1), ("float64", 0.1),
    ],
)  # fmt: skip
def test_scalars_are_packed_as_their_dtype(dtype: str, value: Any) -> None:
    for given in (value, np.dtype(dtype).type(value)):
        local = BlockPerThread(1, [np.dtype(dtype)])
        local.pack(2**63 + 8, given)
        addresses = (ctypes.c_uint64 * 2).from_address(local.block.address)
        assert ctypes.c_uint64.from_address(addresses[0]).value == 2**63 + 8
        raw = ctypes.string_at(addresses[1], np.dtype(dtype).itemsize)
        assert np.frombuffer(raw, dtype)[0] == np.dtype(dtype).type(value)


def packed_float(dtype: Any, value: Any) -> Any:
    local = BlockPerThread(0, [np.dtype(dtype)])
    local.pack(value)
    address = ctypes.c_uint64.from_address(local.block.address).value
    return np.frombuffer(ctypes.string_at(address, 4), np.float32)[0]


# The last one is rounded to even if it goes by way of float32.
@pytest.mark.parametrize("value", [np.float16(0.1), 0.1, 70000, 1e300, 1 + 2**-11 + 2**-40])
def test_float16_scalars_travel_as_float32(value: Any) -> None:
    with np.errstate(over="ignore"):
        assert packed_float(np.float16, value) == np.float32(np.float16(value))


def test_numbers_beyond_float32_are_packed_as_infinity() -> None:
    assert packed_float(np.float32, 1e300) == np.inf
    assert packed_float(np.float32, -1e300) == -np.inf


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
@pytest.mark.parametrize("sign", ["", "u"])
def test_integers_that_do_not_fit_are_refused(sign: str, dtype: str) -> None:
    name = sign + dtype
    local, limits = BlockPerThread(1, [np.dtype(name)]), np.iinfo(name)
    for number in (limits.min - 1, limits.max + 1, 2**70):
        with pytest.raises(
            OverflowError, match=f"Python integer {number} out of bounds for {name}"
        ):
            local.pack(8, number)
    local.pack(8, limits.min)
    local.pack(8, limits.max)


def test_threads_do_not_share_an_argument_block() -> None:
    local = BlockPerThread(2, [])
    found: list[ArgumentBlock] = []
    threads = [threading.Thread(target=lambda: found.append(local.block)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(Counter(b.address for b in [local.block, *found])) == 4
    assert local.block is local.block
