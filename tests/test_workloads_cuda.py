"""Every kernel of every benchmark compiles for CUDA as it should; nothing here needs a GPU."""

from __future__ import annotations

import numpy as np
import pytest

import minijit
from minijit.lowering.kernel_ir import Kernel
from minijit.tools.workloads import ROW_SWEEP, WORKLOADS, Workload
from tests.cuda_checks import ARCHITECTURES, check, recorded
from tests.sampling import paired


def kernels_of(workload: Workload) -> list[Kernel]:
    inputs = workload.make_inputs()
    with recorded() as kernels:
        minijit.jit(lambda *arrays: workload.function(np, *arrays)).lower(*inputs).compile()
    return list(kernels.values())


ALL = (*WORKLOADS, *ROW_SWEEP)


@pytest.mark.parametrize("workload", ALL, ids=lambda workload: workload.name)
def test_kernels_of_workload(workload: Workload) -> None:
    kernels = kernels_of(workload)
    assert kernels
    first = ALL.index(workload)
    for kernel, cc in paired(kernels, ARCHITECTURES, first):
        check(kernel, cc)
