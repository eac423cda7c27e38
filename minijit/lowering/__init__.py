"""From graph to kernels: partition into fused kernels, kernel IR, schedules, Numba source."""
