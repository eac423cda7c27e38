"""Filters for a photograph: blur, edges and tone mapping, written with slices of a padded image.

The picture is scikit-image's astronaut (NASA, public domain), which its wheel contains.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from _report import compare, optional, place

TAPS = (1 / 16, 4 / 16, 6 / 16, 4 / 16, 1 / 16)


def blur(image: Any) -> Any:
    """Binomial blur of five by five, one direction after the other; borders repeat."""
    height, width = image.shape[:2]
    wide = np.pad(image, ((2, 2), (2, 2), (0, 0)), mode="edge")
    rows = sum(tap * wide[shift : shift + height] for shift, tap in enumerate(TAPS))
    return sum(tap * rows[:, shift : shift + width] for shift, tap in enumerate(TAPS))


def edges(gray: Any) -> Any:
    """Length of the gradient, by Sobel's operator."""
    height, width = gray.shape
    wide = np.pad(gray, 1, mode="edge")

    def at(row: int, column: int) -> Any:
        return wide[row : row + height, column : column + width]

    across = at(0, 2) + 2 * at(1, 2) + at(2, 2) - at(0, 0) - 2 * at(1, 0) - at(2, 0)
    down = at(2, 0) + 2 * at(2, 1) + at(2, 2) - at(0, 0) - 2 * at(0, 1) - at(0, 2)
    return np.sqrt(across * across + down * down)


def tone_map(image: Any) -> Any:
    """Compress bright values (Reinhard and others, 2002, equation 4) and encode for a screen."""
    white = image.max()
    mapped = image * (1 + image / (white * white)) / (1 + image)
    return np.clip(mapped, 0, 1) ** (1 / 2.2)


def develop(picture: Any, exposure: Any) -> Any:
    """Turn an 8-bit picture into a smooth one with its edges drawn in."""
    light = (picture / np.float32(255)) ** np.float32(2.2) * exposure
    smooth = blur(light)
    gray = 0.2126 * smooth[..., 0] + 0.7152 * smooth[..., 1] + 0.0722 * smooth[..., 2]
    ink = np.clip(1 - 2 * edges(gray), 0, 1)
    return np.rint(tone_map(smooth) * ink[..., None] * 255).astype(np.uint8)


def main() -> None:
    data = optional("skimage.data")
    where = place(__doc__)
    picture = data.astronaut()
    if where.quick:
        picture = picture[::4, ::4]
    height, width, _ = picture.shape
    exposure = np.float32(2)
    title = f"astronaut, {height} x {width}"
    compare(f"{title}: blur", lambda x: blur(x / np.float32(255)), where, picture)
    gray = picture.mean(axis=-1, dtype=np.float32) / np.float32(255)
    compare(f"{title}: edges", edges, where, gray)
    # compare() subtracts the results: bytes would wrap around.
    levels = "everything, in levels of 255"
    compare(f"{title}: {levels}", lambda *a: develop(*a).astype(np.int16), where, picture, exposure)


if __name__ == "__main__":
    main()
