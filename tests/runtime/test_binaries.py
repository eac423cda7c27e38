"""Kernels from the disk: a warm process compiles nothing, and never runs what is not its own."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minijit
from minijit.backends.registry import get_backend
from minijit.graph.events import subscribe
from minijit.graph.primitive import Kind, Primitive, Scalar
from minijit.graph.trace import bind
from minijit.runtime.disk import default_store
from tests.conftest import Device

ROOT = Path(__file__).parents[2]
X = np.linspace(-1, 1, 4 * 33, dtype=np.float32).reshape(4, 33)


def forget() -> None:
    """What a new process does not know."""
    minijit.clear_caches()


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def test_the_disk_takes_the_place_of_the_compiler(
    folder: Path, device: Device, counts: Counter[str]
) -> None:
    x = device.put(X)
    cold = device.get(minijit.jit(softmax)(x))
    assert (counts["compile"], counts["disk_hit"]) == (1, 0)
    forget()
    warm = device.get(minijit.jit(softmax)(x))
    assert (counts["compile"], counts["disk_hit"]) == (1, 1)
    assert cold.tobytes() == warm.tobytes()


def test_a_kernel_is_missed_once(folder: Path) -> None:
    minijit.jit(lambda x: x + 1)(X)  # and what calls kernels is loaded
    store = default_store()
    assert store is not None
    before = store.stats()
    minijit.jit(softmax)(X)
    forget()
    minijit.jit(softmax)(X)
    after = store.stats()
    counts = {name: after[name] - before[name] for name in ("misses", "writes", "hits")}
    assert counts == {"misses": 2, "writes": 2, "hits": 2}  # each of its plan, and of the kernel


def test_another_name_finds_the_same_kernel(folder: Path, counts: Counter[str]) -> None:
    minijit.jit(lambda x: np.exp(x) * 4)(X)

    def renamed(values: Any) -> Any:
        return np.exp(values) * 4

    np.testing.assert_allclose(minijit.jit(renamed)(X), np.exp(X) * 4, rtol=1e-6)
    assert (counts["compile"], counts["disk_hit"]) == (1, 1)


def test_every_signature_has_an_entry_of_its_own(folder: Path, counts: Counter[str]) -> None:
    f = minijit.jit(lambda x: np.cumsum(np.exp(x), 0).sum(1))
    values = [X, X.astype(np.float64), X[:2], np.asfortranarray(X), X[:, ::2]]
    want = [np.cumsum(np.exp(x), 0).sum(1) for x in values]
    for _ in range(2):
        for x, expected in zip(values, want, strict=True):
            np.testing.assert_allclose(f(x), expected, rtol=1e-5)
        forget()
    assert counts["disk_hit"] == counts["compile"] > len(values) - 1


def test_what_does_not_compile_is_not_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(source: Any) -> Any:
        raise RuntimeError("the compiler gave up")

    with monkeypatch.context() as patch:
        patch.setattr(get_backend("cpu"), "compile", fail)
        f = minijit.jit(softmax)
        for _ in range(3):
            with pytest.raises(RuntimeError, match="gave up"):
                f(X)
    store = default_store()
    assert store is not None
    assert list(store) == []
    f(X)
    assert sorted(record.meta["name"] for record in store) == ["softmax", "softmax_kernel"]


def test_other_compilers_are_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = get_backend("cpu")
    now = backend.environment()
    with monkeypatch.context() as patch:
        patch.setattr(backend, "environment", lambda: {**now, "numba": "0.1"})
        minijit.jit(softmax)(X)
    forget()
    heard: list[dict[str, Any]] = []
    with subscribe(lambda event, data: heard.append(data) if event == "environment" else None):
        minijit.jit(softmax)(X)
    (event,) = heard
    assert [before["numba"] for before in event["before"]] == ["0.1"]
    assert event["now"] == now


def scaled_primitive(factor: Any) -> Primitive:
    def make(dtype: Any) -> Any:
        def scaled(x: Any) -> Any:
            return x * dtype.type(factor) if factor else x

        return scaled

    return Primitive(
        name="scaled",
        kind=Kind.ELEMENTWISE,
        doc="x times a factor.",
        abstract_eval=lambda x: x,
        eager=lambda xp, x: x * factor,
        scalar=Scalar(make),
    )


def test_scalar_functions_of_users_are_told_apart(folder: Path, counts: Counter[str]) -> None:
    for factor in (2.0, 3.0, 2.0):
        op = scaled_primitive(factor)
        np.testing.assert_array_equal(minijit.jit(lambda x, op=op: bind(op, x))(X), X * factor)
    assert (counts["compile"], counts["disk_hit"]) == (2, 1)


def test_what_a_scalar_function_read_first_is_not_kept_as_something_else(
    folder: Path, counts: Counter[str]
) -> None:
    namespace: dict[str, Any] = {"factor": np.float32(2)}
    exec("def scaled(x):\n    return x * factor", namespace)
    scaled = namespace["scaled"]
    op = dataclasses.replace(scaled_primitive(2.0), scalar=Scalar(lambda _: scaled))

    def run() -> Any:
        minijit.clear_caches()
        return minijit.jit(lambda x: bind(op, x))(X)

    np.testing.assert_array_equal(run(), X * 2)
    namespace["factor"] = np.float32(3)
    run()
    assert (counts["compile"], counts["not_kept"]) == (2, 1)
    namespace["factor"] = np.float32(2)
    np.testing.assert_array_equal(run(), X * 2)
    assert (counts["compile"], counts["disk_hit"]) == (2, 1)
    store = default_store()
    assert store is not None
    kernels = [record for record in store if record.key and "code" in record.key.program]
    assert len(kernels) == 1


def test_a_scalar_function_that_cannot_be_described_is_compiled_anew(
    folder: Path, counts: Counter[str]
) -> None:
    class Factor(float):
        """Its text form need not say everything."""

    for _ in range(2):
        op = scaled_primitive(Factor(2.0))
        minijit.jit(lambda x, op=op: bind(op, x))(X)
    assert (counts["compile"], counts["disk_hit"], counts["not_kept"]) == (2, 0, 2)


def test_a_warm_process_imports_no_compiler_and_nothing_that_lowers(tmp_path: Path) -> None:
    program = """
        import sys
        import numpy as np
        import minijit
        from minijit.graph.events import count

        @minijit.jit
        def softmax(x):
            e = np.exp(x - x.max(-1, keepdims=True))
            return e / e.sum(-1, keepdims=True)

        with count() as events:
            result = softmax(np.arange(24, dtype=np.float32).reshape(4, 6))
        modules = sorted(sys.modules)
        import json
        print(json.dumps([events["compile"], modules, np.asarray(result).tobytes().hex()]))
    """
    compilers = {"numba", "networkx", "cupy", "scipy"}
    # What only a program needs that is lowered, or asked for, or of the host's loops.
    unused = {"describe", "host_loop", "memory", "pipeline", "report", "tactics"}
    unused = {f"minijit.runtime.{name}" for name in unused} | {"minijit.backends.frontend"}
    # Each takes milliseconds: see where the package has its import.
    slow = {"email", "importlib.metadata", "logging", "numpy.ma", "platformdirs", "sysconfig"}
    for target, unwanted in (("cpu", compilers | slow | unused), ("cuda-emulated", compilers)):
        runs = [_run(program, tmp_path, target) for _ in range(3)]
        assert [run[0] for run in runs] == [1, 0, 0]
        assert not unwanted.intersection(runs[1][1])
        assert not unwanted.intersection(runs[2][1])
        if target == "cpu":  # the emulated device shows the source beside its code
            lowering = ("minijit.lowering", "minijit.transforms")
            assert not [module for module in runs[1][1] if module.startswith(lowering)]
        assert len({run[2] for run in runs}) == 1


def test_the_launch_path_is_kept_as_kernels_are(tmp_path: Path) -> None:
    program = """
        import json
        import llvmlite.binding as llvm
        import numpy as np
        import minijit
        from minijit.runtime.disk import default_store

        texts = []
        parse = llvm.parse_assembly
        llvm.parse_assembly = lambda text: texts.append(text) or parse(text)
        minijit.jit(lambda x: np.exp(x))(np.ones(3))
        names = [record.meta["name"] for record in default_store()]
        print(json.dumps([sum(map(bool, texts)), sorted(names)]))
    """
    cold, warm = (_run(program, tmp_path, "cpu") for _ in range(2))
    assert cold[0] > 0
    assert warm[0] == 0
    assert cold[1] == warm[1] == ["<lambda>", "lambda_kernel", "launch_path"]


_HELPER = """
import numpy as np
SCALE = {n}
TABLE = np.array([{n}, 1.0], np.float32)
def helper(x): return x * {n}
def outer(x): return helper(x)
short = lambda x: x * {n}
class Model:
    rate = {n}
    def call(self, x): return x * self.rate
    @staticmethod
    def fixed(x): return x * {n}
def closed(number={n}):
    return lambda x: x * number
def defaulted(x, number={n}): return x * number
"""
_CALLERS = {
    "a helper": "helper.helper(x)",
    "a helper's helper": "helper.outer(x)",
    "a lambda": "helper.short(x)",
    "a global of another module": "x * helper.SCALE",
    "an imported number": "x * SCALE",
    "an array": "x * helper.TABLE[0]",
    "an attribute of a class": "x * helper.Model.rate",
    "a method": "helper.Model().call(x)",
    "a static method": "helper.Model.fixed(x)",
    "a closure": "helper.closed()(x)",
    "a default": "helper.defaulted(x)",
    "a branch": "minijit.lax.cond(x > 0, helper.helper, lambda x: x, x)",
}


def test_edits_give_their_new_results_after_a_restart(tmp_path: Path) -> None:
    functions = "\n".join(f"    {name!r}: lambda x: {body}," for name, body in _CALLERS.items())
    program = f"""
import json
import numpy as np
import minijit
import helper
from helper import SCALE

functions = {{
{functions}
}}
print(json.dumps({{name: float(minijit.jit(f)(np.float32(3))) for name, f in functions.items()}}))
"""
    module = tmp_path / "helper.py"
    for number in (2, 5, 2):
        module.write_text(_HELPER.format(n=number))
        assert _run(program, tmp_path, "cpu") == dict.fromkeys(_CALLERS, 3.0 * number)


def _run(program: str, folder: Path, target: str) -> Any:
    environment = {
        "PATH": "/usr/bin:/bin",
        "PYTHONPATH": f"{ROOT}:{folder}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "MINIJIT_CACHE_DIR": str(folder / "cache"),
        "MINIJIT_DEVICE": target,
    }
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        env=environment, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
