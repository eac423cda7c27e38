"""Exported programs: they run without their function, and only what is theirs."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minijit
from minijit import lax
from minijit.backends.registry import get_backend
from minijit.runtime.disk.container import decode_any, encode
from minijit.runtime.disk.key import Key
from tests.conftest import Device

ROOT = Path(__file__).parents[2]
X = np.linspace(-1, 1, 24, dtype=np.float32).reshape(4, 6)
W = np.arange(36, dtype=np.float32).reshape(6, 6).T / 20  # captured, and not in C order


@minijit.jit(static_argnames="power")
def step(x: Any, params: dict[str, Any], power: int = 2) -> Any:
    scaled = (x @ W) * params["scale"] ** power
    return {"sum": scaled.sum(-1), "all": [np.tanh(scaled), params["shift"] - scaled]}


@minijit.jit
def looped(x: Any) -> Any:
    def body(carry: Any, row: Any) -> Any:
        carry = lax.cond(row.sum() > 0, lambda c: c + row, lambda c: c - row, carry)
        return carry, np.cumsum(carry)

    return lax.scan(body, x[0], x)


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    return tmp_path / "program.minijit"


def exported(file: Path, function: Any, *args: Any, **kwargs: Any) -> minijit.Loaded:
    function.lower(*args, **kwargs).compile().export(file)
    return minijit.load(file)


def test_a_program_with_everything(file: Path, device: Device, counts: Counter[str]) -> None:
    x = device.put(X)
    params = {"shift": device.put(X), "scale": 1.5}
    program = exported(file, step, x, params, power=3)
    minijit.clear_caches()
    before = counts["compile"]
    got = device.get(program(x, params=params))
    assert counts["compile"] == before
    want = device.get(step(x, params, power=3))
    assert list(got) == list(want) == ["sum", "all"]
    for one, other in zip([got["sum"], *got["all"]], [want["sum"], *want["all"]], strict=True):
        assert one.tobytes() == other.tobytes()
    assert program.device == device.name
    assert str(program.in_avals[0]) == "f32[4,6]"
    assert len(program.out_avals) == 3


def test_what_is_loaded_is_not_compiled_again(file: Path, counts: Counter[str]) -> None:
    compiled = looped.lower(X).compile()
    before = counts["compile"]
    compiled.export(file)  # with the disk cache off, as in all tests
    assert counts["compile"] == before


def test_loops_and_branches(file: Path, device: Device) -> None:
    x = device.put(X)
    program = exported(file, looped, x)
    for one, other in zip(device.get(program(x)), device.get(looped(x)), strict=True):
        assert one.tobytes() == other.tobytes()


def test_views_that_are_not_aligned_find_their_kernel(file: Path) -> None:
    with minijit.default_device("cuda-emulated"):
        backend = get_backend("cuda-emulated")
        memory = backend.asarray(np.arange(33, dtype=np.float32))
        f = minijit.jit(lambda x: x * 2 + 1)
        program = exported(file, f, memory[:32])
        minijit.clear_caches()
        np.testing.assert_array_equal(program(memory[1:]), np.arange(1, 33) * 2 + 1)


def test_a_process_without_the_function_and_without_a_compiler(file: Path) -> None:
    exported(file, looped, X)
    program = f"""
        import json, sys
        import numpy as np
        import minijit

        x = np.frombuffer(bytes.fromhex("{X.tobytes().hex()}"), np.float32).reshape(4, 6)
        results = [r.tobytes().hex() for r in minijit.load({str(file)!r})(x)]
        unwanted = ("numba", "networkx", "minijit.lowering", "minijit.transforms")
        print(json.dumps([results, [m for m in sys.modules if m.startswith(unwanted)]]))
    """
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "MINIJIT_CACHE": "off"}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        env=environment, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    results, imported = json.loads(done.stdout)
    assert results == [np.asarray(r).tobytes().hex() for r in looped(X)]
    assert imported == []


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((), {}, "lacks x"),
        ((X, X), {}, "takes 1 arguments, not 2"),
        ((X,), {"x": X}, "was given 'x', twice"),
        ((), {"y": X}, "was given 'y', which it does not take"),
        (([X],), {}, "the structure is"),
        ((X[:2],), {}, r"x: f32\[4,6\] -> f32\[2,6\]"),
        ((X.astype(np.float64),), {}, r"x: f32\[4,6\] -> f64\[4,6\]"),
        ((np.asfortranarray(X),), {}, r"x has strides \(1, 4\).*ascontiguousarray"),
    ],
)
def test_other_arguments_are_refused(
    file: Path, args: tuple[Any, ...], kwargs: dict[str, Any], message: str
) -> None:
    program = exported(file, looped, X)
    with pytest.raises(TypeError, match=message):
        program(*args, **kwargs)


def test_other_compilers_are_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exported(file, looped, X)
    backend = get_backend("cpu")
    now = {**backend.environment(), "numba": "0.1"}
    monkeypatch.setattr(backend, "environment", lambda: now)
    with pytest.raises(RuntimeError, match=r"export it again here \(numba: \S+ -> 0.1\)"):
        minijit.load(file)


def test_a_kernel_of_another_program_is_not_run(file: Path, tmp_path: Path) -> None:
    """A file that was put together from two has a checksum, and is refused all the same."""
    other = tmp_path / "other"
    exported(file, looped, X)
    minijit.jit(lambda x: x - 1).lower(X).compile().export(other)
    key, entry = decode_any(file.read_bytes())
    _, wrong = decode_any(other.read_bytes())
    graph = json.loads(entry.sections["graph"])
    graph["kernels"] = json.loads(wrong.sections["graph"])["kernels"]
    sections = {
        **entry.sections,
        "graph": json.dumps(graph).encode(),
        "code": wrong.sections["code"],
    }
    file.write_bytes(encode(key, type(entry)(entry.meta, sections)))
    minijit.clear_caches()
    with pytest.raises(RuntimeError, match="the file has no kernel"):
        minijit.load(file)


def test_damaged_files_are_refused(file: Path) -> None:
    exported(file, looped, X)
    good = file.read_bytes()
    dice = random.Random(7)
    for _ in range(200):
        data = bytearray(good)
        data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
        file.write_bytes(bytes(data[: dice.choice([len(data), dice.randrange(len(data))])]))
        with pytest.raises(ValueError, match="was not loaded"):
            minijit.load(file)


def test_a_cached_kernel_is_no_program(file: Path) -> None:
    exported(file, looped, X)
    _, entry = decode_any(file.read_bytes())
    file.write_bytes(encode(Key({"code": ""}, {}), entry))
    with pytest.raises(ValueError, match="a cached kernel, not an exported program"):
        minijit.load(file)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="the system has no file modes")
def test_a_file_that_others_may_write_needs_trust(file: Path) -> None:
    exported(file, looped, X)
    file.chmod(0o666)
    with pytest.raises(ValueError, match=r"others can write it.*trust=True"):
        minijit.load(file)
    assert minijit.load(file, trust=True)(X)[0].shape == (6,)


def test_what_has_no_form_as_data_is_refused(file: Path) -> None:
    with pytest.raises(ValueError, match=r"complex cannot be written|cannot be written to a file"):
        exported(file, minijit.jit(lambda x: {(1, 2): x}), X)
