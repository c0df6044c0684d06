"""A ranking: neighbours that are told apart and those that are not, and how often the order comes out again."""

from __future__ import annotations

import numpy as np
import pytest

from ostinato.judge.estimable import NotEstimable
from ostinato.judge.rank_stability import rank_stability

MEANS = {"[4,2,1,1]": 3.001, "[3,2,2,1]": 3.0, "plain": 3.3}


def made(seeds=4, documents=60, noise=0.01, seed=0):
    random = np.random.default_rng(seed)
    losses = {arm: {one: mean + random.normal(0, noise) for one in range(seeds)} for arm, mean in MEANS.items()}
    sizes = np.exp(random.normal(4, 0.5, documents))
    shared = random.normal(0, 0.5, documents)
    sums = {arm: sizes * (np.mean(list(losses[arm].values())) + shared + random.normal(0, 0.02, documents)) for arm in MEANS}
    return losses, sums, sizes


def test_neighbours():
    found = rank_stability(*made())
    assert set(found.order) == set(MEANS) and list(found.order)[2] == "plain" and list(found.order.values()) == sorted(found.order.values())
    near, far = found.neighbours
    assert {near.better, near.worse} == {"[3,2,2,1]", "[4,2,1,1]"} and not near.distinguishable and far.distinguishable
    assert near.words.startswith(f"{near.better} against {near.worse}: not distinguishable (0.0") and "adjusted p" in near.words
    assert far.p < 0.001 and near.p > 0.05 and found.record()["neighbours"][1]["distinguishable"] is True
    assert 0.3 < found.same_by_seeds < 0.98 and 0.3 < found.same_by_documents <= 1
    assert found.words == [near.words, far.words]


def test_the_order_of_equal_arms_is_a_toss():
    random = np.random.default_rng(3)
    shares = []
    for _ in range(40):
        losses = {arm: dict(enumerate(random.normal(3, 0.01, 5))) for arm in "ab"}
        shares.append(rank_stability(losses, draws=500).same_by_seeds)
    assert 0.6 < np.mean(shares) < 0.85  # the observed order is the likelier one: 3/4 of equal arms, on average


def test_p_is_the_larger_of_both_noises_adjusted_for_all_neighbours():
    found = rank_stability(*made())
    both = sorted(max(pair.p_seeds, pair.p_documents) for pair in found.neighbours)
    assert sorted(pair.p for pair in found.neighbours) == pytest.approx([2 * both[0], both[1]])


def test_one_seed_and_one_document_tell_nothing_apart():
    losses, sums, sizes = made()
    alone = rank_stability({arm: {0: seeds[0]} for arm, seeds in losses.items()}, sums, sizes)
    assert alone.same_by_seeds is None and not any(pair.distinguishable for pair in alone.neighbours)
    assert "one seed: the noise of seeds is not known" in alone.neighbours[0].words and alone.same_by_documents is not None
    short = rank_stability(losses, {arm: values[:1] for arm, values in sums.items()}, sizes[:1])
    assert "one document" in short.neighbours[1].words and short.same_by_documents is None and short.neighbours[1].p is None


def test_seeds_that_all_arms_have_are_ranked():
    losses, _, _ = made()
    losses["plain"][9] = -50.0
    assert list(rank_stability(losses).order)[2] == "plain"
    with pytest.raises(NotEstimable, match="no seed"):
        rank_stability({"a": {1: 3.0}, "b": {2: 3.0}})
    with pytest.raises(NotEstimable, match="1 arm"):
        rank_stability({"a": {1: 3.0}})


def test_equal_losses_are_not_told_apart():
    found = rank_stability({arm: {1: 3.0, 2: 3.1} for arm in "ab"}, {arm: np.ones(50) for arm in "ab"}, np.ones(50))
    assert found.neighbours[0].p == 1.0 and not found.neighbours[0].distinguishable and found.same_by_documents == 1.0
