"""The kernels of numba-cuda's own tests run on the emulated device, as the checked-in list says."""

from __future__ import annotations

import pytest

from tests.numba_cuda.results import Known, installed, run

pytest.importorskip("numba_cuda")
# Modules of the suite import these.
pytest.importorskip("filecheck")
pytest.importorskip("cffi")
pytest.importorskip("ml_dtypes")

known = Known.load()
wanted = " and ".join(f"{name} {version}" for name, version in known.versions.items())
pytestmark = pytest.mark.skipif(known.versions != installed(), reason=f"the list is for {wanted}")


def test_the_list_is_long() -> None:
    assert sum(known.passes[name] for names in known.batches for name in names) >= 1000
    assert set(known.failing.values()) == set(known.reasons)


# What differs between architectures: exchanges, barriers, the memories of a block.
ELSEWHERE = (
    "cudapy/test_warp_ops",
    "cudapy/test_sync",
    "cudapy/test_sm",
    "cudapy/test_localmem",
)


@pytest.mark.parametrize("modules", known.batches, ids=lambda names: names[0])
def test_modules(modules: tuple[str, ...]) -> None:
    check(modules, "9.0")


@pytest.mark.parametrize("capability", ["8.0", "10.0"])
def test_some_modules_on_other_architectures(capability: str) -> None:
    check(ELSEWHERE, capability)


def check(modules: tuple[str, ...], capability: str) -> None:
    outcomes, text = run(modules, capability, known.chance)
    failed = {name for name, outcome in outcomes.items() if outcome == "failed"}
    listed = {name for name in known.failing if name.split(".py::")[0] in modules}
    assert failed == listed, text
    passed = sum(outcome == "passed" for outcome in outcomes.values())
    assert passed >= sum(known.passes[name] for name in modules), text
