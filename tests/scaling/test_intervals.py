"""Intervals: the profile's ends are where its statistic is critical; resamples are fits; cells are what they say."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import f as fisher

from ostinato.scaling.cells import cells
from ostinato.scaling.fit import fit_law
from ostinato.scaling.intervals import bootstrap, error_scale, percentiles, profile, resampled, standard_errors
from ostinato.scaling.law import PHI


@pytest.fixture(scope="module")
def table(published):
    return published(seed=4)


@pytest.fixture(scope="module")
def fit(table):
    return fit_law(table.rows)


def test_the_ends_of_the_profile_are_critical(fit):
    """A fit with phi held at either end, from starts of its own, has the objective that the critical value asks for."""
    found = profile(fit)
    h, s = error_scale(fit)
    for end in (found.low, found.high):
        held = fit_law(fit.rows, {"phi": end}, starts=16)
        assert 2 * (held.value - fit.value) * h / s == pytest.approx(fisher.ppf(0.95, 1, len(fit.rows) - 6), rel=0.05)
    assert found.bounded and found.low < fit.phi < found.high and 0.03 < found.width < 0.1


def test_standard_errors_and_the_profile_agree_where_there_is_much_to_tell(fit):
    assert profile(fit).width == pytest.approx(2 * 1.98 * standard_errors(fit)[PHI], rel=0.2)


def test_what_is_held_has_no_error_and_narrows_phi(fit):
    held = fit_law(fit.rows, {"E": 1.57, "alpha": 0.199, "beta": 0.369})
    errors = standard_errors(held)
    assert (errors[[1, 3, 4]] == 0).all() and errors[PHI] < standard_errors(fit)[PHI]
    width = profile(held).width  # of another noise: h and s are those of the residuals that are left
    assert 0.5 * profile(fit).width < width < 1.2 * profile(fit).width


def test_a_table_without_a_second_d_tells_phi_of_it(published):
    """B D^-beta is then a part of E: beta is not told (infinite), phi is."""
    table = published(noise=0.001)
    table.D[:] = 1e9
    table.loss[:] = 1.6 + 27.0 * (table.N_once + table.r**0.46 * table.N_rec) ** -0.199
    table.loss[:] *= np.exp(0.001 * np.random.default_rng(1).standard_normal(len(table)))
    fit = fit_law(table.rows)
    errors = standard_errors(fit)
    assert np.isfinite(errors[PHI]) and np.isinf(errors[3]) and profile(fit).width < 0.5


def test_a_resample_is_a_fit_of_its_rows(table, fit):
    groups = cells(table)
    weights = groups.draws(3, 5)[:, groups.of_row]
    found = resampled(fit, weights)
    again = table.some(np.repeat(np.arange(len(table)), weights[1].astype(int)))
    assert found[1, PHI] == pytest.approx(fit_law(again.rows).phi, abs=1e-4)


def test_the_bootstrap_draws_whole_cells(table, fit):
    groups = cells(table)
    assert len(groups) == 24 and groups.by == "budget"
    assert (groups.draws(50, 1).sum(1) == 24).all()
    spread = bootstrap(fit, groups, resamples=100)[:, PHI]
    low, high = percentiles(spread)
    assert low < 0.46 < high and 0.02 < high - low < 0.12


def test_without_budgets_cells_are_by_tokens_or_by_flops(published):
    from dataclasses import replace

    table = replace(published(), budget=("",) * 116)
    assert cells(table).by == "6 groups of training FLOPs" and len(cells(table)) <= 24
    table.D[:] = np.where(np.arange(116) // 4 % 2, 1e9, 2e9)
    assert cells(table).by == "D" and len(cells(table)) == 8
