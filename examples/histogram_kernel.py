"""A CUDA kernel of one's own between two fused ones: an image's histogram, equalised.

Without a GPU the program runs NumPy's code for that step, and once more with the CUDA kernel on the
emulated device.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from _report import compare, place

import minijit
from minijit.extend import custom_call

BINS = 64
SOURCE = r"""
extern "C" __global__ void histogram(const float* x, int* counts, long long n, int bins) {
    long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += step) {
        int bin = min(max((int)(x[i] * bins), 0), bins - 1);
        atomicAdd(&counts[bin], 1);
    }
}
"""


def count(x: Any, *, bins: int) -> Any:
    """Count how many numbers of [0, 1) fall into each bin, by NumPy."""
    places = np.clip((x * bins).astype(np.int32), 0, bins - 1)
    return np.bincount(places.ravel(), minlength=bins).astype(np.int32)


histogram = custom_call(
    "histogram",
    abstract_eval=lambda x, *, bins: minijit.ShapeDtypeStruct((bins,), np.int32),
    cuda=SOURCE,
    launch=lambda x, *, bins: (min(-(-x.size // 256), 1024), 256),
    arguments=lambda x, *, bins: (np.int64(x.size), np.int32(bins)),
    zeroed=True,
    cpu=count,
    doc="How many numbers of [0, 1) fall into each bin.",
)


def contrast(image: Any) -> Any:
    """Entropy in bits of an image's levels after a gamma curve."""
    share = histogram(np.sqrt(image), bins=BINS) / image.size
    return -(share * np.log2(share + 1e-12)).sum()


def with_numpy(image: Any) -> Any:
    """The same by NumPy's histogram."""
    share = np.histogram(np.sqrt(image), BINS, (0, 1))[0] / image.size
    return -(share * np.log2(share + 1e-12)).sum()


def main() -> None:
    where = place(__doc__)
    side = 64 if where.quick else 2048
    rng = np.random.default_rng(0)
    image = (rng.random((side, side), dtype=np.float32) ** 2).clip(0, 1)
    compare(f"entropy of an image of {side} x {side}", contrast, where, image, eager=with_numpy)
    small = image[:48, :48]
    with minijit.default_device("cuda-emulated"):
        emulated = float(minijit.jit(contrast)(small))
    print(f"the CUDA kernel, emulated: {emulated:.6f} bits, NumPy: {with_numpy(small):.6f}")


if __name__ == "__main__":
    main()
