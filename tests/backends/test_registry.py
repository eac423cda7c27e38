"""Which device a call runs on, and arrays of other libraries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import minijit
from minijit.backends.registry import adopt, backend_of, default_device, devices, get_backend


class Tensor:
    """An array of another library, seen only through DLPack."""

    def __init__(self, data: np.ndarray) -> None:
        self._data = data

    def __dlpack__(self, **options: Any) -> Any:
        return self._data.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._data.__dlpack_device__()


def test_a_tensor_is_read_in_place() -> None:
    data = np.arange(6, dtype=np.float32).reshape(2, 3)
    adopted = adopt(Tensor(data))
    assert isinstance(adopted, np.ndarray)
    assert np.shares_memory(adopted, data)


def test_tensors_are_arguments_like_any_array() -> None:
    data = np.arange(6, dtype=np.float32).reshape(2, 3)
    f = minijit.jit(lambda x, tree: x * 2 + tree["b"])
    result = f(Tensor(data), {"b": Tensor(data.T[:1].T)})
    np.testing.assert_array_equal(result, data * 2 + data.T[:1].T)
    f(data, {"b": data.T[:1].T})
    assert f._cache_size() == 1


def test_other_values_come_back_as_they_are() -> None:
    for value in (1, 2.5, None, "x", np.float32(1), np.ones(3)):
        assert adopt(value) is value


def test_unknown_devices_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="no device 'tpu'; the devices are cpu, cuda"):
        get_backend("tpu")


def test_the_default_device_is_the_one_of_the_arguments() -> None:
    assert backend_of([np.ones(3), 2.0]).name == "cpu"
    assert devices()[0] == "cpu"
    with default_device("cpu"):
        assert backend_of([]).name == "cpu"


def test_the_chosen_device_is_listed_first() -> None:
    real = devices()
    assert "cuda-emulated" not in real
    with default_device("cuda-emulated"):
        assert devices() == ("cuda-emulated", *real)
