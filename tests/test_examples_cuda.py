"""Every kernel of every example compiles for CUDA as it should; nothing here needs a GPU."""

from __future__ import annotations

import contextlib
import io
import json
import os
import runpy
import subprocess
import sys
from unittest import mock

import pytest

from minijit.extend import scope
from tests.cuda_checks import ARCHITECTURES, check, compiled, digest, recorded
from tests.documents import ROOT
from tests.sampling import DEEP, paired

EXAMPLES = sorted(path.stem for path in (ROOT / "examples").glob("[!_]*.py"))


def run_example(example: str, *options: str) -> str:
    """Run an example in this process, without its timings, and return what it prints."""
    folder = ROOT / "examples"
    path = str(folder / f"{example}.py")
    with (
        mock.patch.object(sys, "argv", [path, *options]),
        mock.patch.object(sys, "path", [str(folder), *sys.path]),
        mock.patch("minijit.tools.timing.interleaved_medians", _no_timing),
        contextlib.redirect_stdout(io.StringIO()) as printed,
        scope(),  # an example may run twice
    ):
        try:
            runpy.run_path(path, run_name="__main__")
        finally:
            sys.modules.pop("_report", None)  # it has imported the function without timings
    return printed.getvalue()


def _no_timing(calls: dict[str, object], seconds: float) -> dict[str, float]:
    return dict.fromkeys(calls, 0.0)


def digests(examples: tuple[str, ...]) -> list[str]:
    """Digests of the cubins of examples."""
    with recorded() as kernels:
        for example in examples:
            run_example(example, "--quick")
    return [
        digest(compiled(kernel, cc).binary)
        for kernel, cc in paired(kernels.values(), ARCHITECTURES)
    ]


@pytest.mark.parametrize("example", EXAMPLES)
def test_kernels_of_example(example: str) -> None:
    with recorded() as kernels:
        run_example(example)
        if DEEP:  # the same kernels for smaller arrays
            run_example(example, "--quick")
    assert kernels
    for kernel, cc in paired(kernels.values(), ARCHITECTURES):
        check(kernel, cc)


def test_cubins_are_the_same_bytes_in_two_processes() -> None:
    examples = ("gelu", "layernorm", "pitfalls_static_arguments", "softmax")
    program = (
        "import json\nfrom tests.test_examples_cuda import digests\n"
        f"print(json.dumps(digests({examples!r})))"
    )
    outputs = [
        subprocess.run(
            [sys.executable, "-c", program],
            check=True,
            capture_output=True,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    ]
    first, second = map(json.loads, outputs)
    assert len(first) > len(examples)
    assert first == second
