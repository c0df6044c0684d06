"""What is said of a table: refusals with their reason, outliers, laws compared, treatments told apart, and what loops are worth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize_scalar

from ostinato.errors import FitError
from ostinato.scaling.cells import cells
from ostinato.scaling.findings import analyse
from ostinato.scaling.fit import fit_law
from ostinato.scaling.law import DELTA, huber, log_loss
from ostinato.scaling.nested import left_out, log_likelihood
from ostinato.scaling.table import NUMBERS, WORDS, RunTable
from ostinato.scaling.treatments import CAPACITY, NEITHER, OPEN, TRAINING, judge
from ostinato.scaling.worth import best_loss, loss, model, worth


def joined(*tables):
    """Tables end to end."""
    columns = {name: np.concatenate([getattr(one, name) for one in tables]) for name in NUMBERS}
    columns |= {name: sum((getattr(one, name) for one in tables), ()) for name in (*WORDS, "places")}
    return RunTable(**columns)


@pytest.fixture(scope="module")
def found(published):
    return analyse(published(seed=2))


def test_phi_comes_first_and_its_interval_holds_it(found):
    record = found.record()
    assert list(record)[:2] == ["phi", "phi_interval"]
    low, high = record["phi_interval"]
    assert low < record["phi"] < high and abs(record["phi"] - 0.46) < 0.05
    assert record["intervals_over_cells"]["alpha"][0] < 0.199 < record["intervals_over_cells"]["alpha"][1]


def test_one_r_is_refused(published):
    with pytest.raises(FitError, match="r is 1 in all 29 rows"):
        analyse(published(keep=lambda row: row[2] == 1))
    with pytest.raises(FitError, match="r is 4 in all 29 rows"):
        analyse(published(keep=lambda row: row[2] == 4))


def test_five_rows_are_refused_unless_the_rest_is_stated(published):
    five = published().some(np.arange(5))
    with pytest.raises(FitError, match="5 rows for 6 parameters"):
        analyse(five)
    told = analyse(five, {"E": 1.57, "alpha": 0.199, "beta": 0.369})
    assert told.phi_interval[0] < 0.46 < told.phi_interval[1]


def test_a_table_of_one_width_is_refused_with_what_is_narrow_and_told_conditionally(published):
    narrow = published(keep=lambda row: row[0] == 4 * 12 * 640**2)
    with pytest.raises(FitError, match=r"phi is not identified(.|\n)*too narrow: N spans 3\.24"):
        analyse(narrow)
    assert abs(analyse(narrow, {"E": 1.57, "alpha": 0.199, "beta": 0.369}).phi - 0.46) < 0.15


def test_e_is_in_nats_where_it_is_stated_and_where_it_is_said(published):
    found = analyse(replace(published(), unit="bits"), {"E": 1.57})
    assert found.fit.parameters["E"] == pytest.approx(1.57)
    assert found.record()["unit"] == "nats" and found.record()["losses_given_in"] == "bits"


def test_stated_values_that_the_runs_contradict_are_called_so(published):
    assert analyse(published(), {"alpha": 0.6}).contradicted and not analyse(published(), {"alpha": 0.199}).contradicted
    assert not analyse(published()).contradicted


def test_two_optima_make_no_interval(published):
    """Without r = 1, r^phi N_rec falls and grows along phi: the profile sees both optima, wherever the starts end."""
    few = published(keep=lambda row: row[2] in (2, 8) and row[4] in ("1e18", "4.64e18"), seed=3)
    with pytest.raises(FitError, match=r"no run has r = 1(.|\n)*add runs of r = 1"):
        analyse(few)


def test_a_treatment_that_loops_nowhere_or_lacks_plain_runs_has_no_verdict(published):
    base, new = published(treatment="base"), published(treatment="new", seed=8, E=1.49)
    plain, few = new.some(new.r == 1), new.some((new.r > 1) & (np.array(new.budget) == "1e18"))
    found = analyse(joined(base, plain))
    assert not found.treatments and "0 cells of looped runs" in found.untold["new"]
    found = analyse(joined(base, few))
    assert not found.treatments and "none of r = 1, do not identify phi" in found.untold["new"]


def test_a_lower_loss_and_an_open_phi_is_not_identified():
    assert judge((-0.3, 0.4), (-0.04, -0.02), None)[0] == OPEN and judge((-0.3, 0.05), (-0.04, -0.02), None)[0] == TRAINING
    assert judge((-0.3, 0.4), (-0.04, 0.02), None)[0] == NEITHER


def test_a_run_that_diverged_is_named(published):
    table = published(seed=2)
    table.loss[40] = 9.7
    assert analyse(table).outliers.tolist() == [40]


def test_no_ordinary_run_is_an_outlier(found):
    assert len(found.outliers) == 0


def test_residuals_are_counted_once_by_every_column(found):
    for name in ("r", "N", "D"):
        groups = found.residuals_by(name)
        assert sum(rows for _, rows, _, _ in groups) == 116
    assert [words for words, *_ in found.residuals_by("r")] == ["1", "2", "4", "8"]


def test_the_free_law_is_the_best_of_the_three(found):
    zero, one, free = found.laws
    assert free.aic < zero.aic < one.aic and free.bic < zero.bic
    assert free.left_out < zero.left_out < one.left_out < 0.05
    assert free.r2 > 0.99 and free.left_out_r2 < free.r2


def test_what_was_left_out_is_predicted_by_a_fit_of_the_rest(found):
    groups = cells(found.table)
    errors = left_out(found.fit, groups)
    mine = groups.of_row == 7
    rest = fit_law(found.table.some(~mine).rows)
    said = log_loss(found.fit.rows.inside(rest.rows.outside(rest.theta)), found.fit.rows)
    assert np.allclose(errors[mine], found.fit.rows.log_loss[mine] - said[mine], atol=2e-5)


def test_the_likelihood_is_that_of_its_density(found):
    """Its normalising constant by quadrature, its scale by search."""
    errors = found.fit.residuals

    def cost(log_s):
        s = np.exp(log_s)
        z = 2 * quad(lambda u: float(np.exp(-huber(np.array(u)) / s)), 0, 60 * s / DELTA + DELTA, points=[DELTA], limit=200)[0]
        return float(huber(errors).sum()) / s + len(errors) * np.log(z)

    best = minimize_scalar(cost, bounds=(-16, -8), method="bounded").fun
    assert log_likelihood(found.fit) == pytest.approx(-best, abs=1e-3)


@pytest.mark.parametrize("change, verdict", [({"phi": 0.65}, CAPACITY), ({"phi": 0.38, "tokens": 1.3}, TRAINING), ({}, NEITHER),
                                             ({"A": 26.0, "E": 1.54}, TRAINING), ({"phi": 0.3}, NEITHER)])  # fmt: skip
def test_treatments_are_told_apart(published, change, verdict):
    """More worth; cheaper tokens and less worth; nothing; a lower loss at every r; less worth and nothing for it."""
    own, base = published(treatment="new", seed=18, **change), published(treatment="base", seed=19)
    if "tokens" in change:  # nothing at r = 1
        plain = base.some(base.r == 1)
        own = joined(own.some(own.r > 1), replace(plain, treatment=("new",) * len(plain)))
    (one,) = analyse(joined(base, own)).treatments
    assert one.verdict == verdict
    assert one.more_interval[0] <= change.get("phi", 0.46) - 0.46 + 0.02 and one.more_interval[1] >= change.get("phi", 0.46) - 0.46 - 0.02
    if "tokens" in change:
        assert one.shared == 29 and one.paired == 0 and one.at_budget < 0 < one.change


def test_a_treatment_of_few_runs_takes_the_rest_from_the_base(published):
    few = published(treatment="new", seed=8, phi=0.65, keep=lambda row: row[0] == 48 * 768**2)
    (one,) = analyse(joined(published(treatment="base"), few)).treatments
    assert set(one.stated) == {"E", "alpha", "beta"} and not one.shared
    assert one.verdict == CAPACITY


def test_an_unknown_base_is_refused(published):
    with pytest.raises(FitError, match="treatments of the table are base"):
        analyse(published(treatment="base"), base="bare")


def test_the_published_model(golden):
    split = golden["worked_example"]["consistent_split"]
    one = model(split["N_once"], split["N_rec"], 4, 0.46)
    assert (one.owned, round(one.equal / 1e6), round(one.cost / 1e6)) == (410e6, 580, 982)
    assert one.train == 6 * one.cost and one.run_equal == 2 * one.equal


def test_the_best_loss_is_the_lowest_over_sizes(truth):
    flops, gain, cost = np.geomspace(1e17, 1e20, 4), 1.7, 2.9
    sizes = np.geomspace(1e6, 1e11, 20_001)
    for budget, found in zip(flops, best_loss(truth, flops, gain, cost), strict=True):
        assert found == pytest.approx(loss(truth, gain * sizes, budget / (6 * cost * sizes)).min(), rel=1e-7)


def test_looping_pays_at_equal_parameters_and_not_at_equal_flops(found):
    known = worth(found)
    values = [known.by_parameters[r] for r in (1, 2, 4, 8)], [known.by_flops[r] for r in (1, 2, 4, 8)]
    assert values[0] == sorted(values[0], reverse=True) and values[1] == sorted(values[1]) and values[0][0] == values[1][0] == 0
    for one in known.models:
        assert one.owned < one.equal < one.cost
