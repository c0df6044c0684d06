"""Shares and cosines of gradients, from gradients that are known number by number."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostinato.analysis.gradients import course, norms, pooled
from ostinato.store.gradients import gradients_table


def record(step, gradients, loss=(), growth=(), norms=None):
    """gradients: {parameter: {application: array}}."""
    dots = {}
    for name, by_index in gradients.items():
        applications = list(by_index)
        values = [float(by_index[a] @ by_index[b]) for place, a in enumerate(applications) for b in applications[: place + 1]]
        dots[name] = [applications, values]
    labels = [[1, "both", 1], [2, "both", 1], [1, "both", 2], [2, "attn", 2], [1, "both", 3]]
    return {"step": step, "tokens": 10 * step, "targets": 5, "seconds": 0.1, "applications": labels, "norms": norms or {}, "dots": dots,
            "loss": list(loss), "growth": list(growth)}  # fmt: skip


def test_two_passes():
    """G = (3, 1) + (1, 1): shares (12 + 2, 4 + 2) / 20, cosine 4 / √20."""
    gradients = {"w": {0: np.array([3.0, 1.0]), 2: np.array([1.0, 1.0])}, "alone": {1: np.array([100.0])}}
    (found,) = course(gradients_table([record(1, gradients, [4, 3, 2, 2, 2, 1], [8, 4, 2, 2, 1, 1])]))
    assert (found.step, found.tokens) == (1, 10)
    assert found.shares == pytest.approx((0.7, 0.3))
    assert found.cosines == {(0, 1): pytest.approx(4 / math.sqrt(20))}
    assert found.by_application == pytest.approx({0: 0.7, 2: 0.3})
    assert found.loss == (4, 3, 2, 2, 2, 1) and found.growth == (8, 4, 2, 2, 1, 1)


def test_a_pass_against_the_sum_has_a_share_below_0():
    (found,) = course(gradients_table([record(1, {"w": {0: np.array([3.0]), 2: np.array([-1.0])}})]))
    assert found.shares == pytest.approx((1.5, -0.5)) and found.cosines[0, 1] == pytest.approx(-1.0)


def test_without_shared_weights_there_are_no_shares():
    (found,) = course(gradients_table([record(1, {"w": {0: np.array([3.0])}}, [1.0], [1.0])]))
    assert (found.shares, found.cosines, found.by_application, found.growth) == ((), {}, {}, (1.0,))


def test_a_gradient_of_0_has_no_shares():
    (found,) = course(gradients_table([record(1, {"w": {0: np.zeros(2), 2: np.zeros(2)}})]))
    assert (found.shares, found.cosines, found.by_application) == ((), {}, {})


@given(st.integers(0, 10_000), st.integers(1, 4))
def test_against_brute_force_over_all_numbers(seed, weights):
    """Weights with one, two and three uses, in any number: every share and cosine from the concatenated gradients."""
    draw = np.random.default_rng(seed)
    gradients = {}
    for index in range(weights):
        applications = sorted(draw.choice(5, size=int(draw.integers(1, 4)), replace=False).tolist())
        size = int(draw.integers(1, 5))
        gradients[f"w{index}"] = {place: draw.normal(size=size) for place in applications}
    (found,) = course(gradients_table([record(3, gradients)]))
    shared = {name: list(parts.items()) for name, parts in gradients.items() if len(parts) > 1}
    whole = {name: sum(part for _, part in parts) for name, parts in shared.items()}
    square = sum(float(one @ one) for one in whole.values())
    most = max(map(len, shared.values()), default=0)
    wanted = [sum(float(parts[use][1] @ whole[name]) for name, parts in shared.items() if len(parts) > use) / square for use in range(most)]
    assert found.shares == pytest.approx(tuple(wanted), rel=1e-9, abs=1e-9)
    assert not found.shares or math.fsum(found.shares) == pytest.approx(1.0, rel=1e-9)
    for use in range(most):
        for after in range(use + 1, most):
            both = [parts for parts in shared.values() if len(parts) > after]
            one, two = (np.concatenate([parts[place][1] for parts in both]) for place in (use, after))
            assert found.cosines[use, after] == pytest.approx(float(one @ two / np.linalg.norm(one) / np.linalg.norm(two)), rel=1e-9)
    for application, share in found.by_application.items():
        mine = [name for name, parts in gradients.items() if len(parts) > 1 and application in parts]
        given_ = sum(float(gradients[name][application] @ whole[name]) for name in mine)
        assert share == pytest.approx(given_ / sum(float(whole[name] @ whole[name]) for name in mine), rel=1e-9)


def test_steps_and_seeds_pooled_are_sums_and_then_one_division():
    """Two steps of one seed and one of another: Σ<G_a, G> / Σ‖G‖² over the three, and the mean square of the growth."""
    draw = np.random.default_rng(5)
    gradients = [{"w": {0: draw.normal(size=3), 2: draw.normal(size=3)}} for _ in range(3)]
    growth = [[3.0, 1.0], [4.0, 1.0], [5.0, 1.0]]
    first = gradients_table([record(1, {"w": {0: np.ones(3), 2: np.ones(3)}}), *(record(50, gradients[0], growth=growth[0]),
                                                                                record(100, gradients[1], growth=growth[1]))])  # fmt: skip
    second = gradients_table([record(50, gradients[2], growth=growth[2])])
    found = pooled([first, second], since=500)
    parts = [np.concatenate([one["w"][place] for one in gradients]) for place in (0, 2)]
    whole = sum(parts)
    assert found.shares == pytest.approx(tuple(float(part @ whole) / float(whole @ whole) for part in parts))
    assert found.cosines[0, 1] == pytest.approx(float(parts[0] @ parts[1]) / float(np.linalg.norm(parts[0]) * np.linalg.norm(parts[1])))
    assert found.growth == pytest.approx((math.sqrt(50 / 3), 1.0)) and (found.step, found.tokens) == (100, 1000)
    assert pooled([first, second], since=1001) is None and pooled([gradients_table([])]) is None


def test_steps_in_order_and_norms_of_each_parameter():
    table = gradients_table([record(1, {}, norms={"a": 2.0, "b": 1.0}), record(50, {}, norms={"a": 1.5, "b": 0.5})])
    assert [looked.step for looked in course(table)] == [1, 50]
    assert norms(table) == {"a": ((10, 2.0), (500, 1.5)), "b": ((10, 1.0), (500, 0.5))}


def test_of_nothing_there_is_nothing():
    assert course(gradients_table([])) == () and norms(gradients_table([])) == {}
