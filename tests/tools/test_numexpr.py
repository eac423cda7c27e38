"""Array code as numexpr's strings, which NumPy evaluates here."""

from __future__ import annotations

import numpy as np
import pytest

from minijit.tools.numexpr import _expressions
from minijit.tools.sweeps import CPU
from minijit.tools.system import NotHereError
from minijit.tools.workloads import WORKLOADS, Workload, largest_error

WITHOUT = ("differences", "add transpose", "rotary")
ELEMENTWISE = [
    workload
    for workload in (*WORKLOADS, *CPU)
    if workload.kind == "elementwise" and not workload.name.startswith(WITHOUT)
]
ROWS = [workload for workload in WORKLOADS if workload.kind == "row"]


@pytest.mark.parametrize("workload", ELEMENTWISE, ids=lambda workload: workload.name)
def test_expressions_compute_what_the_function_does(workload: Workload) -> None:
    inputs = tuple(x[:100] if x.ndim else x for x in workload.make_inputs())
    texts, constants, several = _expressions(workload.function, inputs)
    reference = workload.reference(inputs)
    assert several == (len(reference) > 1)
    assert {value.dtype for value in constants.values()} <= {x.dtype for x in inputs}
    names = constants | {f"x{place}": x for place, x in enumerate(inputs)}
    outputs = [eval(text, vars(np), names) for text in texts]
    assert {output.dtype for output in outputs} == {x.dtype for x in inputs}
    assert largest_error(outputs, reference) <= workload.tolerance


@pytest.mark.parametrize(
    "workload", [w for w in WORKLOADS if w.kind == "row"], ids=lambda w: w.name
)
def test_what_is_no_expression_raises(workload: Workload) -> None:
    with pytest.raises(NotHereError, match="no expression"):
        _expressions(workload.function, workload.make_inputs())
