"""The law by its formula, its derivatives by differences, and the published example."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostinato.scaling.law import DELTA, Rows, applied, curvature, equivalent, huber, huber_slope, jacobian, log_loss, objective, terms

THETA = np.array([[0.3, 0.21, -1.2, 0.33, 0.42, 0.46], [-0.7, 0.5, -0.4, 0.15, 0.1, -1.1]])


@pytest.fixture(scope="module")
def rows():
    draw = np.random.default_rng(3)
    r = draw.choice([1.0, 2.0, 4.0, 8.0], 30)
    return Rows.of(draw.uniform(1e6, 1e8, 30), draw.uniform(1e6, 1e8, 30), r, draw.uniform(1e8, 1e10, 30), draw.uniform(2.2, 3.0, 30))


def test_the_law_is_its_formula(rows, truth):
    theta = np.array([np.log(27.0), 0.199, np.log(900.0), 0.369, np.log(1.57), 0.46])
    once, rec = rows.once * rows.unit_n, rows.rec * rows.unit_n
    d, r = np.exp(rows.log_d) * rows.unit_d, np.exp(rows.log_r)
    wanted = 1.57 + 27.0 * (once + r**0.46 * rec) ** -0.199 + 900.0 * d**-0.369
    assert np.allclose(np.exp(log_loss(rows.inside(theta), rows)), wanted, rtol=1e-12)
    assert np.allclose(rows.outside(rows.inside(theta)), theta, rtol=1e-14)


def test_first_derivatives_are_those_of_differences(rows):
    found = jacobian(terms(THETA, rows), rows)
    for place in range(6):
        step = np.zeros(6)
        step[place] = 1e-6
        by_difference = (log_loss(THETA + step, rows) - log_loss(THETA - step, rows)) / 2e-6
        assert np.allclose(found[..., place], by_difference, atol=1e-8)


@pytest.mark.parametrize("delta", [0.05, 10.0])
def test_second_derivatives_are_those_of_differences(rows, delta):
    """Of the objective; rows are well within delta or beyond it, where its second derivative is one thing."""

    def slope(theta):
        at = terms(theta, rows)
        return (jacobian(at, rows) * huber_slope(at.value - rows.log_loss, delta)[..., None]).sum(1)

    at = terms(THETA, rows)
    error = at.value - rows.log_loss
    bend = (np.abs(error) <= delta).astype(float)
    found = curvature(at, huber_slope(error, delta), bend, rows, jacobian(at, rows))
    assert np.allclose(found, found.transpose(0, 2, 1))
    for place in range(6):
        step = np.zeros(6)
        step[place] = 1e-6
        assert np.allclose(found[..., place], (slope(THETA + step) - slope(THETA - step)) / 2e-6, atol=2e-6, rtol=1e-5)


@given(st.floats(-0.02, 0.02))
def test_huber_is_square_within_delta_and_straight_beyond(error):
    wanted = error**2 / 2 if abs(error) <= DELTA else DELTA * (abs(error) - DELTA / 2)
    assert huber(np.array(error)) == pytest.approx(wanted, rel=1e-12, abs=1e-18)
    assert huber_slope(np.array(error)) == pytest.approx(np.sign(error) * min(abs(error), DELTA))


def test_a_row_of_weight_two_is_a_row_twice(rows):
    weights = np.ones(len(rows))
    weights[4] = 2.0
    once = huber(log_loss(THETA, rows) - rows.log_loss)
    assert np.allclose(objective(THETA, rows, weights), once.sum(1) + once[:, 4])


def test_the_published_example(golden):
    """410M at r = 4 stands where 580M unique parameters would, at the training cost of 982M."""
    example = golden["worked_example"]
    once, rec = example["consistent_split"]["N_once"], example["consistent_split"]["N_rec"]
    assert once + rec == example["looped_params"]
    assert equivalent(once, rec, example["r"], 0.46) == pytest.approx(example["on_par_with"], rel=1e-3)
    assert applied(once, rec, example["r"]) == pytest.approx(981.8e6, rel=1e-4)


@given(st.floats(0, 1), st.floats(1, 16), st.floats(1e6, 1e9), st.floats(0, 1e9))
def test_a_looped_model_is_worth_what_it_owns_at_least_and_what_it_costs_at_most(phi, r, once, rec):
    worth = equivalent(once, rec, r, phi)
    assert (once + rec) * (1 - 1e-12) <= worth <= applied(once, rec, r) * (1 + 1e-12)
