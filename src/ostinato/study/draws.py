"""Passes drawn anew every training step, from (seed, step) alone: the same on every process, and after any restart.

    uniform: [a, b]   each of a, …, b as likely
    poisson: m        Poisson-lognormal (Geiping et al., arXiv 2502.05171, section 3.3):  t ~ N(ln m − σ²/2, σ), σ = 1/2,
                      r ~ 1 + Poisson(exp t), so that exp t is m on average and r m + 1; at most 16 (m + 1), which one in 10⁸ exceeds

A step's draw is made of two uniform numbers of numpy's Philox generator, keyed by sha256 of "passes|seed|step", by inversion: nothing else
of numpy, whose other streams may change between versions, is asked. A plan, which needs the draws of every step, reckons the generator's
block of a step for many steps at once (study/philox.py: the same bits).

What has to be one number is taken at one: a model is measured, exported and drawn at the middle of [a, b] (rounded up), or at m, as the
source measures it. Expected FLOPs follow from the probabilities, those of the planned steps from their very draws.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from statistics import NormalDist
from typing import Any

from ostinato.study.philox import uniforms
from ostinato.study.records import Model, Passes, Study

SIGMA = 0.5
NEGLIGIBLE = 1e-9
RARE = 1e-3
"""Passes that a smaller share of steps runs count as not trained where one has to say."""
AT_ONCE = 50_000
"""Steps whose draws are reckoned together."""


def fixed(passes: int | Passes | None) -> int | None:
    """The number of passes where one is needed: the given one, or the middle of a draw."""
    if not isinstance(passes, Passes):
        return passes
    return -(-sum(passes.uniform) // 2) if passes.uniform else max(1, math.floor(passes.poisson + 0.5))


def least(draw: Passes) -> int:
    """The fewest passes that can be drawn."""
    return draw.uniform[0] if draw.uniform else 1


def most(draw: Passes) -> int:
    """The most passes that can be drawn."""
    return draw.uniform[1] if draw.uniform else math.ceil(16 * (draw.poisson + 1))


def trained_to(draw: Passes) -> int:
    """The last pass that is trained to speak of: that one step in 1,000 runs at least."""
    running = 0.0
    for passes, chance in sorted(probabilities(draw).items(), reverse=True):
        running += chance
        if running >= RARE:
            return passes
    return most(draw)


def words(draw: Passes) -> str:
    """In a sentence of a trained model: drawn from 1 to 8; drawn, 5 on average."""
    if draw.uniform:
        return f"drawn from {draw.uniform[0]} to {draw.uniform[1]}"
    return f"drawn, {draw.poisson + 1:.3g} on average"


def drawn_passes(study: Study) -> dict[str, Passes]:
    """The draws of a study, by the arms that have one."""
    return {arm.name: arm.model.passes for arm in study.arms if isinstance(arm.model.passes, Passes)}


def drawn(draw: Passes, seed: int, step: int) -> int:
    """The passes of a step (from 0)."""
    import numpy as np  # a verb that only reads a study needs none of it

    one, other = np.random.Generator(np.random.Philox(key=int.from_bytes(_key(seed, step), "little"))).random(2).tolist()
    return _passes(draw, one, other)


def _key(seed: int, step: int) -> bytes:
    return hashlib.sha256(f"passes|{seed}|{step}".encode()).digest()[:16]


def _passes(draw: Passes, one: float, other: float) -> int:
    """By inversion, of two uniform numbers."""
    if draw.uniform:
        first, last = draw.uniform
        return min(last, first + int(one * (last - first + 1)))
    return min(most(draw), 1 + _poisson(_mean(draw, one), other))


def _mean(draw: Passes, share: float) -> float:
    """exp t, where t has a probability of `share` below it."""
    return draw.poisson * math.exp(SIGMA * NormalDist().inv_cdf(min(max(share, 2**-54), 1 - 2**-54)) - SIGMA**2 / 2)


def _poisson(mean: float, share: float) -> int:
    """The least n that Poisson(mean) is at most with a probability above `share`."""
    count, below = 0, 0.0
    while (below := below + math.exp(count * math.log(mean) - mean - math.lgamma(count + 1))) <= share and count < 20 * mean + 200:
        count += 1
    return count


@lru_cache(maxsize=64)
def probabilities(draw: Passes) -> dict[int, float]:
    """Of every number of passes that is not negligible; they add up to 1."""
    import numpy as np  # a verb that only reads a study needs none of it

    if draw.uniform:
        first, last = draw.uniform
        return dict.fromkeys(range(first, last + 1), 1 / (last - first + 1))
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    logs = math.log(draw.poisson) + SIGMA * nodes - SIGMA**2 / 2
    counts = np.arange(most(draw))
    gammas = np.array([math.lgamma(count + 1) for count in counts])
    chances = (weights / weights.sum()) @ np.exp(np.outer(logs, counts) - np.exp(logs)[:, None] - gammas)
    kept = chances > NEGLIGIBLE
    return dict(zip((counts[kept] + 1).tolist(), (chances[kept] / chances[kept].sum()).tolist(), strict=True))


@lru_cache(maxsize=64)
def planned(draw: Passes, seed: int, steps: int) -> Counter[int]:
    """How many of a run's steps have each number of passes: of `drawn` at every one of them, many at once."""
    found: Counter[int] = Counter()
    for start in range(0, steps, AT_ONCE):
        found.update(_many(draw, seed, start, min(steps, start + AT_ONCE)).tolist())
    return found


def _many(draw: Passes, seed: int, start: int, stop: int) -> Any:
    """`drawn` of the steps start … stop − 1, an array of int64.

    numpy's exp and log may differ from math's in the last bit, and a sum of terms then in a few; so a step whose sum comes within 1e-9 of
    its uniform number is drawn as `drawn` does it.
    """
    import numpy as np

    keys = np.frombuffer(b"".join(_key(seed, step) for step in range(start, stop)), "<u8").reshape(-1, 2)
    one, other = uniforms(keys)
    if draw.uniform:
        first, last = draw.uniform
        return np.minimum(last, first + (one * (last - first + 1)).astype(np.int64))
    mean = np.array([_mean(draw, share) for share in one.tolist()])
    count, below, near = np.zeros(len(mean), np.int64), np.zeros(len(mean)), np.zeros(len(mean), bool)
    going, logs, n = np.arange(len(mean)), np.log(mean), 0
    while len(going):
        below[going] += np.exp(n * logs[going] - mean[going] - math.lgamma(n + 1))
        near[going] |= np.abs(below[going] - other[going]) < 1e-9
        going = going[(below[going] <= other[going]) & (n < 20 * mean[going] + 200)]
        n += 1
        count[going] = n
    for place in np.flatnonzero(near).tolist():
        count[place] = _poisson(float(mean[place]), float(other[place]))
    return np.minimum(most(draw), 1 + count)


def shares(draw: Passes, seeds: Iterable[int], steps: int) -> dict[int, float]:
    """The share of steps with each number of passes, over the runs of these seeds."""
    counts = sum((planned(draw, seed, steps) for seed in seeds), Counter())
    return {passes: count / counts.total() for passes, count in sorted(counts.items())}


def always(model: Model, passes: int) -> Model:
    """`model` as it runs in a step of so many passes. One pass of a draw is a pass of its group; `passes: 1` would be no group at all."""
    return model.model_copy(update={"passes": Passes(uniform=(passes, passes))})


def deepest(model: Model) -> Model:
    """`model` as it runs in a step of the most passes that can be drawn; itself where none are drawn."""
    return always(model, most(model.passes)) if isinstance(model.passes, Passes) else model
