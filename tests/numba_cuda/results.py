"""What is known about each module of numba-cuda's suite, and how to run some of them again.

``python -m tests.numba_cuda.results [module ...]`` runs modules and brings ``known.toml`` up to
date; reasons for tests that fail must then be filled in by hand where it says ``unknown``.
"""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata, util
from pathlib import Path

from tests.sampling import DEEP

__all__ = ["KNOWN", "Known", "installed", "run"]

_HERE = Path(__file__).parent
_ROOT = _HERE.parents[1]
KNOWN = _HERE / "known.toml"
_FOLDERS = ("core", "cudadrv", "cudapy", "cudasim", "doc_examples", "nocuda", "nrt")
# Modules are put together into processes that take about so many seconds.
_SECONDS = 20
_QUICK = 0.22
"""Seconds for each test of a module that is always run."""


@dataclasses.dataclass(frozen=True, slots=True)
class Known:
    """The list that is checked in.

    Attributes:
        versions: Of the packages for which the list is.
        reasons: By a short name.
        passes: By module, how many tests pass.
        seconds: By module, how long it took.
        failing: By test, the short name of the reason.
        slow: By module, why it takes so long that only this script runs it.
        chance: By test, why it passes or fails by chance; it is not run.
    """

    versions: Mapping[str, str]
    reasons: Mapping[str, str]
    passes: Mapping[str, int]
    seconds: Mapping[str, float]
    failing: Mapping[str, str]
    slow: Mapping[str, str]
    chance: Mapping[str, str]

    @property
    def batches(self) -> list[tuple[str, ...]]:
        """The modules to run, those that share a process together, the longest first.

        ``MINIJIT_TEST_DEEP=1`` adds those that take long for each of their tests.
        """
        return _packed(
            {
                name: seconds
                for name, seconds in self.seconds.items()
                if name not in self.slow and (DEEP or seconds <= _QUICK * self.passes[name])
            }
        )

    @staticmethod
    def load() -> Known:
        """Read the list."""
        data = tomllib.loads(KNOWN.read_text())
        modules = data["modules"]
        return Known(
            data["versions"], data["reasons"], {name: row[0] for name, row in modules.items()},
            {name: row[1] for name, row in modules.items()}, data["failing"],
            data["slow"], data["chance"],
        )  # fmt: skip


def installed() -> dict[str, str]:
    """Return the versions that decide what the suite holds and does."""
    return {name: metadata.version(name) for name in ("numba-cuda", "numba")}


def _packed(seconds: Mapping[str, float]) -> list[tuple[str, ...]]:
    found: list[list[str]] = []
    sums: list[float] = []
    for name in sorted(seconds, key=lambda n: (-seconds[n], n)):
        place = next((n for n, s in enumerate(sums) if s + seconds[name] <= _SECONDS), len(sums))
        if place == len(sums):
            found.append([])
            sums.append(0.0)
        found[place].append(name)
        sums[place] += seconds[name]
    return [tuple(names) for names in found]


def suite() -> Path:
    """Return the folder of numba-cuda's tests; nothing of it is imported here."""
    spec = util.find_spec("numba_cuda")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return Path(next(iter(spec.submodule_search_locations)), "numba", "cuda", "tests")


def run(
    modules: Iterable[str], capability: str = "9.0", without: Iterable[str] = ()
) -> tuple[dict[str, str], str]:
    """Run modules in a process of their own, without some tests.

    Returns:
        The outcome of each test, and what was printed.
    """
    folder = suite()
    with tempfile.TemporaryDirectory() as place:
        outcomes = Path(place, "outcomes")
        command = [
            sys.executable, "-m", "pytest", "-c", os.devnull, f"--rootdir={folder}", "-q",
            "-p", "tests.numba_cuda.collect", "-p", "no:cacheprovider", "--tb=short",
            "--import-mode=importlib", f"--outcomes={outcomes}",
            *(f"--deselect={name}" for name in without),
            *(str(folder / f"{name}.py") for name in modules),
        ]  # fmt: skip
        paths = os.pathsep.join(map(str, (_HERE / "preload", _ROOT)))
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "NUMBA"))}
        environment |= {"PYTHONPATH": paths, "EMULATED_CAPABILITY": capability}
        done = subprocess.run(command, env=environment, cwd=place, capture_output=True, text=True)
        text = done.stdout + done.stderr
        if not outcomes.exists():
            return {}, text
        rows = (line.split(" ", 1) for line in outcomes.read_text().splitlines())
        return {name: outcome for outcome, name in rows}, text


def _all_modules() -> list[str]:
    folders = (suite() / folder for folder in _FOLDERS)
    paths = [path for folder in folders for path in sorted(folder.glob("test_*.py"))]
    return [f"{path.parent.name}/{path.stem}" for path in paths]


def main(names: Sequence[str]) -> None:
    """Run modules, all of them unless named, and bring the list up to date; reasons stay."""
    before = Known.load() if KNOWN.exists() else Known({}, {}, {}, {}, {}, {}, {})
    rows = {name: (before.passes[name], before.seconds[name]) for name in before.passes}
    failing = dict(before.failing)
    for name in names or _all_modules():
        start = time.perf_counter()
        outcomes, text = run([name], without=before.chance)
        seconds = round(time.perf_counter() - start, 1)
        passed = sum(outcome == "passed" for outcome in outcomes.values())
        rows[name] = passed, seconds
        bad = sorted(test for test, outcome in outcomes.items() if outcome == "failed")
        failing = {test: why for test, why in failing.items() if not _is_of(test, name)}
        failing |= {test: before.failing.get(test, "unknown") for test in bad}
        sys.stdout.write(f"{name}: {passed} passed, {len(bad)} failed, {seconds} s\n")
        sys.stdout.write(text if bad or not outcomes else "")
        sys.stdout.flush()
    lines = [
        "[versions]", *(f'{name} = "{version}"' for name, version in installed().items()), "",
        "[reasons]",
        *(f'{name} = "{reason}"' for name, reason in before.reasons.items()), "", "[failing]",
        *(f'"{test}" = "{failing[test]}"' for test in sorted(failing)), "",
        "[slow]", *(f'"{name}" = "{why}"' for name, why in before.slow.items()), "",
        "[chance]", *(f'"{name}" = "{why}"' for name, why in before.chance.items()), "",
        "# Tests that pass, and seconds.", "[modules]",
        *(f'"{name}" = {list(rows[name])}' for name in sorted(rows)),
    ]  # fmt: skip
    KNOWN.write_text("\n".join(lines) + "\n")


def _is_of(test: str, module: str) -> bool:
    return test.startswith(f"{module}.py::")


if __name__ == "__main__":
    main(sys.argv[1:])
