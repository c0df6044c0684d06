"""Numbers of numpy's Philox generator for many keys at once: making a generator for each takes longer than the numbers do.

Philox 4×64 of ten rounds (Salmon et al., SC 2011). numpy raises the counter to 1 before the first block, and a uniform number is the upper
53 bits of a word.
"""

from __future__ import annotations

from typing import Any


def uniforms(keys: Any) -> tuple[Any, Any]:
    """The first two numbers of `numpy.random.Generator(Philox(key)).random` for every row of keys, uint64 [N, 2]."""
    import numpy as np  # a verb that only reads a study needs none of it

    def times(factor: int, word: Any) -> tuple[Any, Any]:
        """The upper and the lower 64 bits of the product, by halves."""
        half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
        high, small = np.uint64(factor >> 32), np.uint64(factor & 0xFFFFFFFF)
        upper, lower = word >> half, word & low
        middle = small * upper + ((small * lower) >> half)  # below 2^64, as (2^32 - 1)^2 + 2^32 - 1 is
        other = high * lower + (middle & low)
        return high * upper + (middle >> half) + (other >> half), np.uint64(factor) * word

    zero = np.zeros(len(keys), np.uint64)
    words, first, second = (zero + np.uint64(1), zero, zero, zero), keys[:, 0].copy(), keys[:, 1].copy()
    for turn in range(10):
        if turn:
            first, second = first + np.uint64(0x9E3779B97F4A7C15), second + np.uint64(0xBB67AE8584CAA73B)
        (high0, low0), (high1, low1) = times(0xD2E7470EE14C6C93, words[0]), times(0xCA5A826395121157, words[2])
        words = (high1 ^ words[1] ^ first, low1, high0 ^ words[3] ^ second, low0)
    return tuple((word >> np.uint64(11)) * 2.0**-53 for word in words[:2])
