"""Every example runs as a script, agrees with eager NumPy and has the kernels that it promises."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from tests.documents import ROOT

EXAMPLES = ROOT / "examples"

# What each comparison of an example may differ from eager NumPy by, and its launches: kernels and
# calls of the array library.
COMPARISONS = {
    "softmax": [(1e-6, 1, 0)],
    "layernorm": [(1e-5, 1, 0)],
    "gelu": [(2e-6, 1, 0), (1e-14, 1, 0)],
    "black_scholes": [(1e-11, 1, 0)],
    "image_filter": [(1e-6, 4, 0), (1e-6, 3, 0), (1.0, 12, 0)],
    "logistic_regression_digits": [(1e-5, 4, 3)],
    "mlp_digits": [(1e-6, 4, 8)],
    "exponential_smoothing": [(1e-12, 1, 0)],
    "mandelbrot": [(0, 1, 0)],
    "kepler_newton": [(1e-14, 1, 0), (1e-14, 1, 0), (1e-14, 1, 0)],
    "fit_decays": [(1e-13, 1, 0)],
    # Driven by the host: so many launches a step.
    "stencils": [(0, 2 * 20, 0), (0, 20, 0)],
    "sign_by_cond": [(0, 1, 0), (1e-6, 2, 0), (1e-6, 2, 0)],
    "power_iteration": [(1e-12, 2, 0)],
    "rnn_digits": [(1e-5, 1, 0)],
    "activations": [(1e-6, 1, 0)],
    "welford_variance": [(1e-9, 1, 0)],
    "logsumexp_monoid": [(1e-12, 1, 0)],
    "histogram_kernel": [(1e-12, 2, 1)],
    "philox": [(1e-12, 1, 0)],
    "complex_step": [(1e-14, 1, 0)],
    "next_letter": [(1e-6, 4, 3)],
}
PITFALLS = ("pitfalls_pure_functions", "pitfalls_static_arguments")
OTHERS = ("variable_lengths",)
_COMPARISON = re.compile(
    r"largest difference  (\S+)\n.* ms, (\d+) operations( a step)?\n.* ms, (\d+) kernels?"
    r"(?:, (\d+) library calls?)?"
)


def output(name: str, *options: str, blocked: str = "", status: int = 0) -> str:
    """Run an example in a process of its own, where the package ``blocked`` cannot be imported."""
    script = EXAMPLES / f"{name}.py"
    code = (
        f"import runpy, sys; sys.modules.update(dict.fromkeys({blocked.split()!r})); "
        f"sys.path.insert(0, {str(EXAMPLES)!r}); sys.argv = {[str(script), *options]!r}; "
        f"runpy.run_path({str(script)!r}, run_name='__main__')"
    )
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path, "MINIJIT_CHECKS": "1"},
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout if status == 0 else done.stderr


def test_every_example_is_tested() -> None:
    names = {path.stem for path in EXAMPLES.glob("[!_]*.py")}
    assert names == {*COMPARISONS, *PITFALLS, *OTHERS}


def digits_are_learnt(text: str) -> None:
    assert "programs: 1\n" in text
    accuracies = [float(value) for value in re.findall(r"digits  (\S+)", text)]
    assert len(accuracies) == 2
    assert min(accuracies) > 0.95


def the_derived_gradient_trains_like_the_written_one(text: str) -> None:
    digits_are_learnt(text)
    (difference,) = re.findall(r"of the weights  (\S+)", text)
    assert float(difference) < 1e-4


def the_nile_is_smoothed(text: str) -> None:
    # R finds the same factor: HoltWinters(Nile, beta = FALSE, gamma = FALSE).
    assert "best factor 0.247, off by 142.8 of 919.4" in text
    assert "1913: flow    456, average   759.9" in text


def newton_solves_keplers_equation(text: str) -> None:
    assert re.findall(r"(\d+) iterations", text) == ["3", "5", "8"]


def each_curve_takes_its_own_steps(text: str) -> None:
    assert "3 to 10 steps for a curve; rates are off by 0.010" in text


def the_glider_has_moved(text: str) -> None:
    board = text.partition("generations:\n")[2].split()
    assert board[4:7] == [".....#..", "......#.", "....###."]
    assert set("".join(board[:4] + board[7:])) == {"."}


def the_component_is_that_of_eigh(text: str) -> None:
    assert "it has the product 1.0000000000" in text


def the_untrained_network_tells_digits_apart(text: str) -> None:
    accuracies = re.findall(r"digits  (\S+)", text)
    assert len(accuracies) == 2
    assert min(map(float, accuracies)) > 0.93


def the_variance_has_digits_left(text: str) -> None:
    ours, naive = map(float, re.findall(r"(?:variance|squares) (\S+e[+-]\d+)", text))
    assert ours < 2e-3 < 1 < naive


def the_kernel_counts_as_numpy_does(text: str) -> None:
    (emulated, numpys) = re.findall(r"(\d+\.\d{6})", text)
    assert emulated == numpys


def the_known_words_are_drawn(text: str) -> None:
    # From the known-answer tests of Random123.
    assert "key 0: 6627e8d5 e169c58d bc57ac4c 9b00dbd8\n" in text


# What else an example has to print.
PRINTED = {
    "logistic_regression_digits": digits_are_learnt,
    "mlp_digits": the_derived_gradient_trains_like_the_written_one,
    "exponential_smoothing": the_nile_is_smoothed,
    "kepler_newton": newton_solves_keplers_equation,
    "fit_decays": each_curve_takes_its_own_steps,
    "stencils": the_glider_has_moved,
    "power_iteration": the_component_is_that_of_eigh,
    "welford_variance": the_variance_has_digits_left,
    "histogram_kernel": the_kernel_counts_as_numpy_does,
    "philox": the_known_words_are_drawn,
    "rnn_digits": the_untrained_network_tells_digits_apart,
}


@pytest.mark.parametrize("name", COMPARISONS)
def test_comparison_with_eager_numpy(name: str) -> None:
    text = output(name, "--quick")
    found = _COMPARISON.findall(text)
    expected = COMPARISONS[name]
    assert len(found) == len(expected)
    for (difference, operations, a_step, kernels, calls), (most, limit, library) in zip(
        found, expected, strict=True
    ):
        assert float(difference) <= most
        assert int(kernels) <= limit
        assert a_step or limit < int(operations)
        assert int(calls or 0) == library
    if name in PRINTED:
        PRINTED[name](text)


def test_sequences_of_many_lengths_need_few_programs() -> None:
    text = output("variable_lengths", "--quick")
    lengths = re.search(r"\) of (\d+) lengths", text)
    assert lengths
    assert int(lengths[1]) > 40
    assert "programs: 4\n" in text
    (difference,) = re.findall(r"without padding  (\S+)", text)
    assert float(difference) <= 1e-5


def test_pure_functions() -> None:
    text = output("pitfalls_pure_functions")
    assert text.count("inside: x is Traced<i64[4]>") == 1
    assert "3 calls, the body ran 1 time; the results are right: [0 2 4 6]" in text
    assert "from 0: 3 steps, [ 0  8 16 24], programs: 2" in text
    assert "from array(0): 3 steps, [ 0  8 16 24], programs: 1" in text
    assert "a kept value: UnexpectedTracerError" in text
    assert "[0 2 4 6] [0 3 6 9], programs: 1" in text


def test_static_arguments() -> None:
    text = output("pitfalls_static_arguments")
    assert "a traced count: TracerIntegerConversionError" in text
    assert "a static count: [0 0 0 1 1 1] [0 0 1 1]\ntwo values, programs: 2" in text
    assert "a traced branch: TracerBoolConversionError" in text
    assert "where: 1.0 -1.0, programs: 1" in text
    assert "a static branch: [1 2 3 4] [-1  0  1  2], programs: 2" in text
    assert "a list: TypeError" in text
    assert "programs [1, 1, 2, 2, 3, 3]" in text
    assert "with the length as a number, programs: 1" in text


@pytest.mark.parametrize(
    ("name", "package"),
    [
        ("image_filter", "skimage.data"),
        ("logistic_regression_digits", "sklearn.datasets"),
        ("mlp_digits", "sklearn.datasets"),
        ("power_iteration", "sklearn.datasets"),
        ("rnn_digits", "sklearn.datasets"),
    ],
)
def test_missing_package_is_named_with_its_remedy(name: str, package: str) -> None:
    error = output(name, blocked=package, status=1)
    assert "this example needs scikit-" in error
    assert 'pip install "minijit[examples]"' in error
    assert "Traceback" not in error
