"""One comparison over documents, on losses averaged over seeds, and one over seeds, from the same tables."""

from __future__ import annotations

import numpy as np
import pytest

from ostinato.analysis import over_seeds, paired, paired_over_seeds
from ostinato.store import LossTable


def table(losses):
    return LossTable(np.asarray(losses, dtype=np.float32), "t" * 64, 100, "validation")


def test_documents_are_compared_on_mean_losses_and_seeds_on_their_own(targets):
    noise = np.random.default_rng(3).normal(0, 0.1, (4, 20))
    tables = {7: (table(3 + noise[0]), table(2.9 + noise[1])), 2: (table(3 + noise[2]), table(2.8 + noise[3]))}
    pairing, seeds = paired_over_seeds(tables, targets)
    means = [np.mean([pair[side].losses.astype(float) for pair in tables.values()], axis=0) for side in (0, 1)]
    assert pairing == paired(*means, targets.document, targets.bytes)
    each = {seed: paired(one.losses, other.losses, targets.document).gain for seed, (one, other) in tables.items()}
    assert seeds.gains == each and seeds == over_seeds(each, pairing.interval)
    assert seeds.mean == pytest.approx(pairing.gain)


def test_without_targets_nothing_is_estimable(targets):
    targets.document = targets.bytes = np.zeros(0, dtype=np.int64)
    pairing, seeds = paired_over_seeds({1: (table([]), table([]))}, targets)
    assert pairing.gain is None and seeds.mean is None and seeds.words == "not estimable"
