"""Files with some of their bytes overwritten."""

from collections.abc import Iterator

import numpy as np

__all__ = ["damaged"]


def damaged(whole: bytes, times: int, places: int) -> Iterator[bytes]:
    """So many copies, each with so many bytes at random places replaced by others; the same ones every time."""
    random = np.random.default_rng(0)
    for _ in range(times):
        copy = bytearray(whole)
        for place in random.integers(0, len(whole), size=places):
            copy[place] = random.integers(256)
        yield bytes(copy)
