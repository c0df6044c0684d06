"""Whether two metrics order arms alike: against scipy, and by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostinato.analysis.ranks import ranks


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=12))
def test_tau_is_that_of_scipy(pairs):
    from scipy.stats import kendalltau

    first, second = ({f"arm {place}": float(pair[side]) for place, pair in enumerate(pairs)} for side in (0, 1))
    found = ranks(first, second)
    told = len({*first.values()}) > 1 and len({*second.values()}) > 1
    assert found.tau == (pytest.approx(kendalltau([*first.values()], [*second.values()]).statistic) if told else None)
    for a, b in found.swaps:
        assert first[a] > first[b] and second[a] < second[b]
    discordant = sum((first[a] - first[b]) * (second[a] - second[b]) < 0 for a in first for b in first) // 2
    assert len(found.swaps) == discordant == len(set(map(frozenset, found.swaps)))


def test_which_arms_change_places():
    loss = {"plain": -3.6, "twice": -3.56, "deep": -3.53, "only": -1.0}
    found = ranks(loss, {"deep": 0.6, "plain": 0.63, "twice": 0.61})
    assert found.first == ("deep", "twice", "plain") and found.second == ("plain", "twice", "deep") and found.tau == -1
    assert found.swaps[0] == ("deep", "plain") and set(found.swaps) == {("deep", "plain"), ("deep", "twice"), ("twice", "plain")}
    assert ranks({"a": 1, "b": 2}, {"a": 5, "b": 6}).tau == 1 and ranks({"a": 1, "b": 1}, {"a": 5, "b": 6}).tau is None
    assert ranks({}, {}).swaps == () and ranks({"a": 1}, {"a": 2}).tau is None
