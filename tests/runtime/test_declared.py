"""What users declare is part of the keys of plans; what minijit declares its version says."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minijit
from minijit import extend, lax
from minijit.graph.primitive import Kind, Primitive
from minijit.runtime.declared import users_primitives
from minijit.runtime.describe import describe_primitive
from minijit.runtime.disk.key import canonical
from tests.conftest import Device

ROOT = Path(__file__).parents[2]
X = np.linspace(-1, 1, 4 * 33, dtype=np.float32).reshape(4, 33)
pytestmark = pytest.mark.usefixtures("folder")


def times(factor: float, name: str = "times") -> Primitive:
    return Primitive(
        name=name,
        kind=Kind.ELEMENTWISE,
        doc="Multiply.",
        abstract_eval=lambda x: x,
        eager=lambda xp, x: x * factor,
        scalar=extend.typed(lambda dtype: lambda x: x * dtype.type(factor)),
    )


OWN = """
from minijit.extend import all_primitives
from minijit.runtime.declared import users_primitives
own = {primitive.name: primitive for primitive in all_primitives()}
print(len(own) > 100, users_primitives(own))
"""


def test_every_operation_of_minijit_is_its_own() -> None:
    """Also those whose rules speak of the operation itself; tests declare further ones."""
    ran = subprocess.run(
        [sys.executable, "-c", OWN], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert ran.stdout.split() == ["True", "[]"]


def test_operations_of_users_are_told_apart(counts: Counter[str], device: Device) -> None:
    x = device.put(X)
    for factor, hits in ((2.0, 0), (3.0, 0), (2.0, 1)):
        minijit.clear_caches()
        op = times(factor)
        f = minijit.jit(lambda x, op=op: extend.bind(op, x))
        np.testing.assert_array_equal(device.get(f(x)), X * factor)
        assert counts["plan_hit"] == hits


def test_functions_of_scalars_are_told_apart(counts: Counter[str], device: Device) -> None:
    """Also where nobody says how they are computed outside of programs."""
    x = device.put(X)
    for number, hits in ((2.0, 0), (3.0, 0), (2.0, 1)):
        minijit.clear_caches()
        with extend.scope():

            @extend.elementwise
            def shifted(x: Any) -> Any:
                return x * 1.5 + number  # noqa: B023  # declared anew for each

            f = minijit.jit(lambda x, shifted=shifted: np.exp(shifted(x)))
            np.testing.assert_allclose(device.get(f(x)), np.exp(X * 1.5 + number), rtol=1e-6)
        assert counts["plan_hit"] == hits


def test_reductions_are_told_apart(counts: Counter[str], device: Device) -> None:
    """By what they make of an element and of a total."""
    x = device.put(np.abs(X))
    declared = ((2.0, 1.0), (2.0, 3.0), (5.0, 1.0), (2.0, 1.0))
    for (first, last), hits in zip(declared, (0, 0, 0, 1), strict=True):
        minijit.clear_caches()
        with extend.scope():

            @extend.reduction(
                identity=(0.0, 0.0),
                element=lambda x: (x, x * first),
                finish=lambda total, weighted: total + last * weighted,
            )
            def weighed(total: Any, weighted: Any, other: Any, more: Any) -> Any:
                return total + other, weighted + more

            f = minijit.jit(lambda x, weighed=weighed: weighed(np.sqrt(x)))
            want = np.sqrt(np.abs(X)).sum() * (1 + first * last)
            np.testing.assert_allclose(device.get(f(x)), want, rtol=1e-5)
        assert counts["plan_hit"] == hits


def test_two_operations_of_one_name_are_not_kept(counts: Counter[str]) -> None:
    two, three = times(2.0), times(3.0)
    for first, second in ((two, three), (three, two)):
        minijit.clear_caches()
        f = minijit.jit(lambda x, a=first, b=second: (extend.bind(a, x), extend.bind(b, x[0])))
        for got, want in zip(f(X), (first.eager(np, X), second.eager(np, X[0])), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-6)
    assert (counts["plan_hit"], counts["plan_not_kept"]) == (0, 2)


def test_the_librarys_part_is_what_this_process_has_declared(counts: Counter[str]) -> None:
    for add in (1, 2, 1):
        minijit.clear_caches()
        op = Primitive(
            name="moved",
            kind=Kind.LIBRARY,
            doc="Add in the array library.",
            abstract_eval=lambda x, **_: x,
            eager=lambda xp, x, by, add=add: x + add * by,
        )
        f = minijit.jit(lambda x, op=op: extend.bind(op, x * 2, by=3) * 2)
        np.testing.assert_array_equal(f(X), (X * 2 + add * 3) * 2)
    assert counts["plan_hit"] == 2


DOUBLE = r"""
extern "C" __global__ void twice(const float* x, float* y, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) y[i] = FACTOR * x[i];
}
"""


KERNEL = """
import sys
import numpy as np
from numba import cuda
import minijit
from minijit import extend
from minijit.backends.cuda import custom

compiled, compile_python = [], custom.compile_python
custom.compile_python = lambda *args: compiled.append(args) or compile_python(*args)
FACTOR = np.float32(sys.argv[1])
helper = cuda.jit(device=True)(lambda x: x * FACTOR)

def scaled(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = FACTOR * x[i]

def helped(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = helper(x[i])

op = extend.custom_call("scaled", abstract_eval=lambda x: x, cuda=globals()[sys.argv[2]],
                        launch=lambda x: (1, x.size))
x = np.arange(8, dtype=np.float32)
with minijit.default_device("cuda-emulated"), minijit.debug.count() as counts:
    got = minijit.jit(lambda x: op(x + 1))(x)
assert (got == FACTOR * (x + 1)).all(), got
print(len(compiled), counts["not_kept"])
"""


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("scaled", ["1 0", "0 0", "1 0", "0 0"]),
        ("helped", ["1 1"] * 4),  # nothing tells what a device function is
    ],
)
def test_a_users_kernel_in_python_is_kept(name: str, said: list[str], folder: Path) -> None:
    for factor, want in zip((2, 2, 3, 3), said, strict=True):
        ran = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", KERNEL, str(factor), name],
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
            env={**os.environ, "MINIJIT_CACHE": "1", "MINIJIT_CACHE_DIR": str(folder)},
        )
        assert ran.stdout.strip() == want


def test_a_users_own_kernel_is_the_one_of_this_process(
    counts: Counter[str], device: Device
) -> None:
    x = device.put(X)
    for factor in (2, 3, 2):
        minijit.clear_caches()
        with extend.scope():
            twice = extend.custom_call(
                "twice",
                abstract_eval=lambda x: x,
                cuda=DOUBLE.replace("FACTOR", str(factor)),
                launch=lambda x: (-(-x.size // 128), 128),
                arguments=lambda x: (np.int64(x.size),),
                cpu=lambda x, factor=factor: x * np.float32(factor),
            )
            f = minijit.jit(lambda x, twice=twice: np.exp(twice(x * 2)) + 1)
            want = np.exp(X * 2 * factor) + 1
            np.testing.assert_allclose(device.get(f(x)), want, rtol=1e-6)
    assert counts["plan_hit"] == 2


def test_what_users_rewrite_has_plans_of_its_own(counts: Counter[str]) -> None:
    def f(x: Any) -> Any:
        return np.log(np.exp(x)) * 2

    def run(replacement: Callable[[Any], Any] | None) -> Any:
        minijit.clear_caches()
        with extend.scope():
            if replacement is not None:
                extend.pattern(lambda x: np.log(np.exp(x)), name="log_exp")(replacement)
            return np.array(minijit.jit(f)(X))

    for hits in (0, 3):
        np.testing.assert_allclose(run(None), X * 2, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(run(lambda x: x + 0.5), (X + 0.5) * 2)
        np.testing.assert_array_equal(run(lambda x: x - 0.5), (X - 0.5) * 2)
        assert counts["plan_hit"] == hits


def test_what_was_rewritten_is_exported(tmp_path: Path) -> None:
    file = tmp_path / "program"
    with extend.scope():
        extend.pattern(lambda x: np.log(np.exp(x)), name="log_exp")(lambda x: x + 0.5)
        minijit.jit(lambda x: np.log(np.exp(x)) * 2).lower(X).compile().export(file)
    program = minijit.load(file)
    np.testing.assert_array_equal(program(X), (X + 0.5) * 2)
    assert "log" not in str(program._artifact.jaxpr)


def test_rewritten_programs_are_lowered_again_as_they_were(device: Device) -> None:
    """To show their sources, whatever is declared by then."""
    x = device.put(X)
    sources = []
    for _ in range(2):
        minijit.clear_caches()
        with extend.scope():
            extend.pattern(lambda x: np.log(np.exp(x)), name="log_exp")(lambda x: x + 0.5)
            compiled = minijit.jit(lambda x: np.log(np.exp(x)) * 2).lower(x).compile()
            np.testing.assert_array_equal(device.get(compiled(x)), (X + 0.5) * 2)
        sources.append([kernel.source for kernel in compiled.kernels()])
    assert sources[0] == sources[1]
    assert "log" not in "".join(sources[1])


def test_exported_programs_are_rewritten_no_further(tmp_path: Path, device: Device) -> None:
    memory = device.put(np.arange(33, dtype=np.float32))
    file = tmp_path / "program"
    compiled = minijit.jit(lambda x: np.log1p(np.exp(x)) * 2).lower(memory[:32]).compile()
    compiled.export(file)
    want = device.get(compiled(memory[1:]))
    with extend.scope():
        extend.pattern(lambda x: np.log1p(np.exp(x)), name="softplus")(lambda x: x + 0.5)
        program = minijit.load(file)
        np.testing.assert_array_equal(device.get(program(memory[1:])), want)


def test_a_parameter_without_a_form_as_data_is_not_kept(counts: Counter[str]) -> None:
    op = Primitive(
        name="called",
        kind=Kind.LIBRARY,
        doc="Call what it is given.",
        abstract_eval=lambda x, **_: x,
        eager=lambda xp, x, function: function(x),
    )
    for _ in range(2):
        minijit.clear_caches()
        f = minijit.jit(lambda x: extend.bind(op, x, function=np.negative) * 2)
        np.testing.assert_array_equal(f(X), -X * 2)
    assert (counts["plan_hit"], counts["plan_not_kept"]) == (0, 2)


def test_minijits_own_operations_are_known_by_its_version_alone() -> None:
    """In a process of their own: what other tests declare may stay in the registry."""
    program = """
        from minijit.api import load_operations
        from minijit.graph.primitive import all_primitives
        from minijit.runtime.declared import users_primitives
        load_operations()
        own = {primitive.name: primitive for primitive in all_primitives()}
        print(len(own) > 80, users_primitives(own))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.strip() == "True []", done.stderr


def test_a_function_that_wraps_one_of_minijits_is_the_users(counts: Counter[str]) -> None:
    """``functools.wraps`` gives it the module of the other one."""
    for factor in (2.0, 3.0):
        minijit.clear_caches()

        @functools.wraps(lax.exp)
        def abstract_eval(x: Any) -> Any:
            return x

        code = f"lambda dtype: lambda x: x * dtype.type({factor})"
        op = Primitive(
            name="wrapped",
            kind=Kind.ELEMENTWISE,
            doc="Multiply.",
            abstract_eval=abstract_eval,
            eager=functools.wraps(lax.exp)(lambda xp, x: xp.exp(x)),
            scalar=extend.typed(functools.wraps(lax.exp)(eval(code))),
        )
        assert users_primitives({op.name: op}) == [op]
        f = minijit.jit(lambda x, op=op: extend.bind(op, x))
        np.testing.assert_array_equal(f(X), X * np.float32(factor))
    assert counts["plan_hit"] == 0


@pytest.mark.parametrize("make", [lambda: times(2.0), lambda: times(3.0), lambda: times(2.0, "t")])
def test_what_a_user_declares_is_described(make: Callable[[], Primitive]) -> None:
    one, same = make(), make()
    assert users_primitives({one.name: one}) == [one]
    assert canonical(describe_primitive(one)) == canonical(describe_primitive(same))
    others = [times(4.0), times(2.0, "u")]
    assert canonical(describe_primitive(one)) not in [
        canonical(describe_primitive(other)) for other in others
    ]
