"""The device that bench measures: what it is, what it is compared with, and what it runs."""

from __future__ import annotations

from dataclasses import dataclass

from minijit.tools.machine import available_threads, find_driver
from minijit.tools.sweeps import CPU, GPU, TINY, spread, sweeps
from minijit.tools.system import Compared
from minijit.tools.systems import Device, systems
from minijit.tools.timing import device_cache, device_copy_bandwidth, host_copy_bandwidth
from minijit.tools.workloads import WORKLOADS, Workload

EMULATED = (
    "An emulated device: results are checked, but the times are those of an interpreter and say "
    "nothing about a GPU."
)


@dataclass(frozen=True, slots=True)
class Target:
    """A device, ready to be measured.

    Attributes:
        device: Its name.
        machine: The card, or the number of threads.
        note: What a reader of its figures has to know.
        bandwidth: Bytes a second that a bare copy reads and writes; None where it means nothing.
        cache: Bytes of the cache that must not hold the inputs from one call to the next.
        compared: The systems that run here, and those that cannot.
        workloads: What to run, in the order of the report.
    """

    device: Device
    machine: str
    note: str
    bandwidth: float | None
    cache: int
    compared: Compared
    workloads: tuple[Workload, ...]

    def in_turn(self) -> tuple[Workload, ...]:
        """Return the workloads in the order in which they are run."""
        return self.workloads if self.device == "cpu" else spread(self.workloads)


def target(device: Device) -> Target:
    """Look at the device and measure its copy.

    Raises:
        ImportError: `device` is `cuda` and CuPy is not installed.
    """
    if device == "cpu":
        machine, note = f"{available_threads()} CPU threads", ""
        copy, all_of_them = host_copy_bandwidth(), (*WORKLOADS, *CPU)
        return Target(device, machine, note, copy, 0, systems(device), all_of_them)
    if device == "cuda-emulated":
        machine = "Emulated CUDA device of compute capability 9.0"
        return Target(device, machine, EMULATED, None, 0, systems(device), sweeps(TINY))
    # Peers first: some of them read the environment when they are imported.
    compared = systems(device)
    workloads = (*WORKLOADS, *sweeps(GPU))
    return Target(device, _card(), "", device_copy_bandwidth(), device_cache(), compared, workloads)


def _card() -> str:
    driver = find_driver()
    if isinstance(driver, str) or not driver.gpus:
        return "no GPU"
    gpu = driver.gpus[0]
    return f"{gpu.name}, compute capability {'{}.{}'.format(*gpu.compute_capability)}"
