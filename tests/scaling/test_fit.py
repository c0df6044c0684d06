"""Fits: of losses without noise exactly the law, in a batch what they are alone, and never worse than plain restarts."""

from __future__ import annotations

import numpy as np
import pytest

from ostinato.errors import FitError
from ostinato.scaling.fit import fit_law, held_mask, starting_points
from ostinato.scaling.law import objective
from ostinato.scaling.solve import Problems, bounds, solve


def test_losses_without_noise_give_the_law_back(published, truth):
    fit = fit_law(published(noise=0.0).rows)
    assert fit.parameters == pytest.approx(truth, rel=1e-3)
    assert fit.value < 1e-10 and fit.agreeing > fit.starts / 2


def test_noise_of_a_third_of_a_percent_leaves_phi_near(published):
    errors = [abs(fit_law(published(seed=seed).rows, starts=16).phi - 0.46) for seed in range(5)]
    assert np.median(errors) < 0.02


def test_the_objective_is_the_sum_at_the_fit(published):
    table = published()
    fit = fit_law(table.rows)
    assert fit.value == pytest.approx(float(objective(fit.theta[None], table.rows)[0]), rel=1e-9)


def test_never_worse_than_plain_restarts(published):
    """scipy's L-BFGS-B from the same starts, on the same objective, within the same bounds; forty of them."""
    from scipy.optimize import minimize

    for seed in (1, 2):
        rows = published(seed=seed).rows
        low, high = bounds(rows)
        limits = list(zip(low, high, strict=True))
        plain = [minimize(lambda theta, rows=rows: 1e4 * objective(theta[None], rows)[0], start, method="L-BFGS-B", bounds=limits).fun / 1e4
                 for start in starting_points(rows, 8, seed)]  # fmt: skip
        assert fit_law(rows).value <= min(plain) * (1 + 1e-9)


def test_a_batch_is_what_its_problems_are_alone(published):
    rows = published().rows
    draw = np.random.default_rng(0)
    starts, weights = starting_points(rows, 4), draw.integers(0, 3, (4, len(rows))).astype(float)
    losses = rows.log_loss + 0.003 * draw.standard_normal((4, len(rows)))
    held = np.zeros((4, 6), dtype=bool)
    held[1, 5] = held[2, 1] = True
    together = solve(rows, Problems.of(rows, starts, weights, held, losses))
    for at in range(4):
        one = slice(at, at + 1)
        alone = solve(rows, Problems.of(rows, starts[one], weights[one], held[one], losses[one]))
        assert alone.value[0] == pytest.approx(together.value[at], rel=1e-9)
        assert np.allclose(alone.theta[0], together.theta[at], atol=1e-5)
    assert together.theta[1, 5] == starts[1, 5] and together.theta[2, 1] == starts[2, 1]


def test_a_large_table_is_taken_in_parts_with_the_same_result(published, monkeypatch):
    rows = published().rows
    problems = Problems.of(rows, starting_points(rows, 5))
    whole = solve(rows, problems)
    monkeypatch.setattr("ostinato.scaling.solve.LARGEST", 2 * len(rows))
    parts = solve(rows, problems)
    assert np.allclose(parts.value, whole.value, rtol=1e-9) and parts.done.tolist() == whole.done.tolist()


def test_a_minimum_is_one(published):
    """No step of any free parameter lowers the objective."""
    rows = published().rows
    fit = fit_law(rows)
    for place in range(6):
        for way in (-1e-4, 1e-4):
            step = np.zeros(6)
            step[place] = way
            assert objective((fit.theta + step)[None], rows)[0] >= fit.value * (1 - 1e-9)


def test_stated_values_stay(published):
    fit = fit_law(published().rows, {"E": 1.57, "alpha": 0.199, "beta": 0.369})
    assert [fit.parameters[name] for name in ("E", "alpha", "beta")] == pytest.approx([1.57, 0.199, 0.369])
    assert fit.free == 3 and held_mask(fit.held).sum() == 3 and abs(fit.phi - 0.46) < 0.05


@pytest.mark.parametrize("held, words", [({"E": 9.0}, "below every loss"), ({"alpha": -1.0}, "above 0"), ({"beta": 7.0}, "at most 3"),
                                         ({"E": float("nan")}, "E = nan")])  # fmt: skip
def test_a_value_that_cannot_be_is_refused(published, held, words):
    with pytest.raises(FitError, match=words):
        fit_law(published().rows, held)


def test_a_run_that_diverged_hardly_moves_the_fit(published):
    table = published()
    before = fit_law(table.rows).phi
    table.loss[40] = 9.7
    assert abs(fit_law(table.rows).phi - before) < 0.005
