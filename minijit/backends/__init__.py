"""From Numba source to binaries, and from binaries to running kernels, one folder a target."""
