"""Seed noise pooled over arms, with seeds missing too; implementation noise from runs made again."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ostinato.judge.estimable import NotEstimable
from ostinato.judge.noise import Repeat, implementation_noise, pooled, seed_noise


def made(arms=5, seeds=4, shared=0.3, rest=0.01, seed=0):
    random = np.random.default_rng(seed)
    luck = random.normal(0, shared, seeds)
    return {f"arm{arm}": {one: 3 + 0.1 * arm + luck[one] + random.normal(0, rest) for one in range(seeds)} for arm in range(arms)}


def test_what_seeds_share_is_no_noise_of_a_gain():
    losses = made()
    found = seed_noise(losses)
    table = np.array([[loss for loss in seeds.values()] for seeds in losses.values()])
    rest = table - table.mean(0) - table.mean(1)[:, None] + table.mean()
    assert found.freedom == 12 and found.rest == pytest.approx(math.sqrt((rest**2).sum() / 12))
    assert found.gain == pytest.approx(found.rest * math.sqrt(2)) and found.sd_freedom == 15
    assert found.sd == pytest.approx(math.sqrt(table.var(1, ddof=1).mean())) and found.sd > 5 * found.rest
    assert found.alone["arm2"] == pytest.approx(table[2].std(ddof=1)) and found.record()["gain"] == found.gain


def test_of_two_arms_it_is_the_spread_of_their_differences():
    losses = made(arms=2, seeds=3)
    differences = [losses["arm0"][seed] - losses["arm1"][seed] for seed in range(3)]
    found = seed_noise(losses)
    assert found.freedom == 2 and found.gain == pytest.approx(np.std(differences, ddof=1))


def test_missing_runs_lessen_the_freedom_and_the_estimate_stays_right():
    squares, freedom = 0.0, 0
    for seed in range(200):
        losses = made(seed=seed)
        del losses["arm1"][3], losses["arm4"][0]
        found = seed_noise(losses)
        assert found.freedom == 10
        squares, freedom = squares + found.freedom * found.rest**2, freedom + found.freedom
    assert math.sqrt(squares / freedom) == pytest.approx(0.01, rel=0.05)


@pytest.mark.parametrize(
    ("losses", "reason"),
    [({"a": {1: 3.0}, "b": {1: 3.1}}, "one seed"), ({"a": {1: 3.0, 2: 3.1}}, "no two arms"), ({}, "no two arms"),
     ({"a": {1: 3.0, 2: 3.1}, "b": {3: 3.0, 4: 3.1}}, "no two arms")],
)  # fmt: skip
def test_refused(losses, reason):
    with pytest.raises(NotEstimable, match=reason):
        seed_noise(losses)


def test_pooled_is_sums_then_one_division():
    assert pooled([[1.0, 3.0], [5.0, 5.0, 8.0], [9.0]]) == (pytest.approx(math.sqrt((2 + 6) / 3)), 3)
    with pytest.raises(NotEstimable):
        pooled([[1.0], []])


def test_implementation_noise_says_where_it_comes_from():
    repeats = [Repeat(1, {"base": 3.0, "again": 3.002}, ("threads: 1 in base, 2 in again",)),
               Repeat(2, {"base": 3.1, "again": 3.096}, ("threads: 1 in base, 2 in again",)), Repeat(3, {"base": 3.0})]  # fmt: skip
    found = implementation_noise(repeats)
    assert found.freedom == 2 and found.sd == pytest.approx(math.sqrt((2e-6 + 8e-6) / 2)) and found.largest == pytest.approx(0.004)
    assert found.sources == ["threads: 1 in base, 2 in again"] and len(found.repeats) == 2
    assert found.record()["repeats"][0]["runs"] == {"base": 3.0, "again": 3.002}
    with pytest.raises(NotEstimable, match="no run was made again") as refused:
        implementation_noise(repeats[2:])
    assert "again:" in refused.value.fix
