"""The wheel holds every module, `kernels/` as minijit.kernels, and no other top-level name."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CACHES = shutil.ignore_patterns("__pycache__", "*.egg-info")


def installed_name(path: Path) -> str:
    """Where a file or folder of the source tree is installed, relative to site-packages."""
    relative = path.relative_to(ROOT).as_posix()
    return f"minijit/{relative}" if relative.split("/")[0] == "kernels" else relative


def modules() -> set[str]:
    paths = [*ROOT.glob("minijit/**/*.py"), *ROOT.glob("kernels/**/*.py")]
    return {installed_name(path) for path in paths}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built offline from a copy: setuptools leaves its build folders where it works."""
    tree = tmp_path_factory.mktemp("tree")
    for folder in ("minijit", "kernels"):
        shutil.copytree(ROOT / folder, tree / folder, ignore=CACHES)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"]
    done = subprocess.run(
        [*command, "--no-index", "--wheel-dir", str(tree / "dist"), str(tree)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"needs setuptools >= 77 (the test extra)\n{done.stdout}"
    (built,) = (tree / "dist").glob("*.whl")
    return built


@pytest.fixture(scope="module")
def files(wheel: Path) -> set[str]:
    return set(zipfile.ZipFile(wheel).namelist())


def test_package_list_equals_folders() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    listed = project["tool"]["setuptools"]["packages"]
    folders = {name.rpartition("/")[0].replace("/", ".") for name in modules()}
    assert sorted(listed) == sorted(folders)


def test_every_package_has_an_init() -> None:
    folders = {name.rpartition("/")[0] for name in modules()}
    assert {f"{folder}/__init__.py" for folder in folders} <= modules()


def test_wheel_holds_every_module(files: set[str]) -> None:
    assert {name for name in files if name.endswith(".py")} == modules()


def test_wheel_is_typed(files: set[str]) -> None:
    assert "minijit/py.typed" in files


def test_wheel_has_one_top_level_name(files: set[str]) -> None:
    names = {name.split("/")[0] for name in files}
    assert {name for name in names if not name.endswith(".dist-info")} == {"minijit"}


def test_wheel_carries_the_licence(files: set[str]) -> None:
    assert any(name.endswith("/licenses/LICENSE") for name in files)


def test_wheel_imports_and_runs_alone(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path)
    script = (
        "import sys; sys.path.insert(0, '.')\n"
        "import minijit, minijit.kernels, numpy\n"
        "x = numpy.arange(4, dtype=numpy.float32)\n"
        "print(minijit.jit(lambda v: numpy.exp(v) + 1)(x).tolist())\n"
        "print(minijit.__file__, minijit.kernels.__file__, 'kernels' in sys.modules, sep='\\n')\n"
    )
    environment = {key: os.environ[key] for key in os.environ if key != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    values, package, kernels, bare = done.stdout.splitlines()
    assert values.startswith("[2.0, 3.718")
    assert package == str(tmp_path / "minijit" / "__init__.py")
    assert kernels == str(tmp_path / "minijit" / "kernels" / "__init__.py")
    assert bare == "False"
