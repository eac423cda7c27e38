"""Fits exponential smoothing to a century of the river Nile: a scan in one kernel.

A moving average with factor a goes from level to level + a * (flow - level), and its level is its
forecast of the next year (R. G. Brown, 1956). All factors are tried at once: a step is elementwise
in them, so that each keeps its level and its sum of squared errors in registers for all years.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from _report import compare, place

import minijit
from minijit import lax

# Annual flow at Aswan from 1871 to 1970 in 10^8 m^3 (G. W. Cobb, Biometrika 65, 1978).
FLOW = np.array(
    [
        *(1120, 1160, 963, 1210, 1160, 1160, 813, 1230, 1370, 1140, 995, 935, 1110, 994, 1020),
        *(960, 1180, 799, 958, 1140, 1100, 1210, 1150, 1250, 1260, 1220, 1030, 1100, 774, 840),
        *(874, 694, 940, 833, 701, 916, 692, 1020, 1050, 969, 831, 726, 456, 824, 702, 1120),
        *(1100, 832, 764, 821, 768, 845, 864, 862, 698, 845, 744, 796, 1040, 759, 781, 865, 845),
        *(944, 984, 897, 822, 1010, 771, 676, 649, 846, 812, 742, 801, 1040, 860, 874, 848, 890),
        *(744, 749, 838, 1050, 918, 986, 797, 923, 975, 815, 1020, 906, 901, 1170, 912, 746, 919),
        *(718, 714, 740),
    ],
    dtype=np.float64,
)


def step(carry: Any, flow: Any, factors: Any) -> Any:
    """Return level and summed squared error after one more year."""
    level, squares = carry
    error = flow - level
    return level + factors * error, squares + error * error


def errors(factors: Any, flows: Any) -> Any:
    """Return, for each factor, how far its forecasts are off (root of the mean square)."""
    start = (np.zeros_like(factors) + flows[0], np.zeros_like(factors))
    _, squares = lax.scan(lambda carry, flow: (step(carry, flow, factors), None), start, flows)[0]
    return np.sqrt(squares / flows.shape[0])


def errors_in_python(factors: Any, flows: Any) -> Any:
    carry = (np.zeros_like(factors) + flows[0], np.zeros_like(factors))
    for flow in flows:
        carry = step(carry, flow, factors)
    return np.sqrt(carry[1] / flows.shape[0])


def averages(flows: Any, factor: Any) -> Any:
    """Return the moving average of every year: what a scan collects."""

    def following(level: Any, flow: Any) -> tuple[Any, Any]:
        level = level + factor * (flow - level)
        return level, level

    return lax.scan(following, flows[0], flows)[1]


def main() -> None:
    where = place(__doc__)
    factors = np.linspace(0, 1, 1_001 if where.quick else 100_001)
    title = f"{len(FLOW)} years, {len(factors)} factors"
    compare(title, errors, where, factors, FLOW, eager=errors_in_python)
    found = where.get(minijit.jit(errors)(where.put(factors), where.put(FLOW)))
    best = int(np.argmin(found))
    print(f"best factor {factors[best]:.3f}, off by {found[best]:.1f} of {FLOW.mean():.1f}")
    smooth = where.get(minijit.jit(averages)(where.put(FLOW), factors[best]))
    for year in (1898, 1899, 1913, 1970):
        print(f"  {year}: flow {FLOW[year - 1871]:6.0f}, average {smooth[year - 1871]:7.1f}")


if __name__ == "__main__":
    main()
