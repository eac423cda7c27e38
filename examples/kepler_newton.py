"""Newton's iteration with while_loop: where a planet stands at a given time.

Kepler's equation E - e sin E = M gives the eccentric anomaly E for a mean anomaly M, which grows
evenly with time, on an orbit of eccentricity e. It has no closed solution. The loop ends when all
of the times are solved, which nobody knows beforehand.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from _report import compare, place

import minijit
from minijit import lax

TOLERANCE = 1e-12


def residual(angle: Any, mean: Any, eccentricity: Any) -> Any:
    return angle - eccentricity * np.sin(angle) - mean


def better(angle: Any, mean: Any, eccentricity: Any) -> Any:
    slope = 1 - eccentricity * np.cos(angle)
    return angle - residual(angle, mean, eccentricity) / slope


def eccentric(mean: Any, eccentricity: Any) -> tuple[Any, Any]:
    """Return the eccentric anomalies, and the number of iterations that they took."""

    def unsolved(state: Any) -> Any:
        return (np.abs(residual(state[0], mean, eccentricity)) > TOLERANCE).any()

    def improved(state: Any) -> Any:
        return better(state[0], mean, eccentricity), state[1] + 1

    # From pi the iteration converges for every mean anomaly between 0 and 2 pi.
    return lax.while_loop(unsolved, improved, (mean * 0 + np.pi, np.int32(0)))


def eccentric_in_python(mean: Any, eccentricity: Any) -> tuple[Any, Any]:
    angle, count = mean * 0 + np.pi, np.int32(0)
    while (np.abs(residual(angle, mean, eccentricity)) > TOLERANCE).any():
        angle, count = better(angle, mean, eccentricity), count + np.int32(1)
    return angle, count


def main() -> None:
    where = place(__doc__)
    mean = np.linspace(0, 2 * np.pi, 500 if where.quick else 8_000)
    for name, eccentricity in (("Earth", 0.0167), ("Mercury", 0.2056), ("Halley", 0.9671)):
        arguments = (mean, np.float64(eccentricity))
        title = f"{name}, {len(mean)} times"
        compare(title, eccentric, where, *arguments, eager=eccentric_in_python)
        angle, count = minijit.jit(eccentric)(where.put(mean), arguments[1])
        quarter = float(where.get(angle)[len(mean) // 4])
        print(f"  {int(count)} iterations; a quarter of a year: {np.degrees(quarter):.2f} degrees")


if __name__ == "__main__":
    main()
