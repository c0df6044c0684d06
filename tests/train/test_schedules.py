"""Exact values of the rate, the momentum and the decay along a run."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostinato.study.records import LrSchedule, Muon, Recipe
from ostinato.train import schedules


def rates(schedule: LrSchedule, steps: int) -> list[float]:
    return [schedules.rate(schedule, step / steps, (step + 1) / steps) for step in range(steps)]


def test_constant_then_linear_to_zero_over_the_last_half():
    assert rates(LrSchedule(shape="linear", warmup=0, decay=0.5, final=0), 8) == [1, 1, 1, 1, 1, 0.75, 0.5, 0.25]


def test_warm_up_reaches_the_full_rate_and_never_starts_at_zero():
    assert rates(LrSchedule(shape="linear", warmup=0.5, decay=0.25, final=0), 8) == [0.25, 0.5, 0.75, 1, 1, 1, 1, 0.5]


def test_a_fall_to_a_final_share():
    assert rates(LrSchedule(shape="linear", warmup=0, decay=1, final=0.5), 4) == [1, 0.875, 0.75, 0.625]


def test_cosine_after_a_warm_up_takes_what_the_warm_up_leaves():
    golden = [0.5, 1, 1, 0.9330127018922194, 0.75, 0.5, 0.25, 0.0669872981077807]
    assert rates(LrSchedule(shape="cosine", warmup=0.25, decay=1, final=0), 8) == pytest.approx(golden, abs=1e-15)


def test_cosine_with_a_final_share():
    schedule = LrSchedule(shape="cosine", warmup=0, decay=1, final=0.1)
    assert schedules.rate(schedule, 0.5, 0.6) == pytest.approx(0.55, abs=1e-15)
    assert schedules.rate(schedule, 1.0, 1.0) == pytest.approx(0.1, abs=1e-15)


def test_no_fall_at_all():
    assert rates(LrSchedule(decay=0), 3) == [1, 1, 1]


@given(warmup=st.floats(0, 0.99), decay=st.floats(0, 1), final=st.floats(0, 1), shape=st.sampled_from(["linear", "cosine"]),
       steps=st.integers(1, 50))  # fmt: skip
def test_the_rate_stays_between_zero_and_one_and_rises_only_before_it_falls(warmup, decay, final, shape, steps):
    values = rates(LrSchedule(shape=shape, warmup=warmup, decay=decay, final=final), steps)
    assert all(0 < value <= 1 for value in values)
    falls = [later < earlier for earlier, later in itertools.pairwise(values)]
    first = falls.index(True) if True in falls else len(falls)
    assert all(later <= earlier for earlier, later in itertools.pairwise(values[first:]))


def test_momentum_ramps_over_300_steps():
    muon = Muon(momentum_start=0.85, momentum=0.95, momentum_steps=300)
    golden = [(0, 0.85), (150, 0.9), (300, 0.95), (953, 0.95)]
    assert [schedules.momentum(muon, step) for step, _ in golden] == pytest.approx([value for _, value in golden], abs=1e-15)
    assert schedules.momentum(Muon(momentum=0.9), 0) == 0.9


def test_decay_follows_what_is_left_only_when_asked():
    assert [schedules.decay(Recipe(decay_to_zero=True), before) for before in (0, 0.25, 1)] == [1, 0.75, 0]
    assert schedules.decay(Recipe(), 0.75) == 1


def test_settings_of_the_published_loop2_recipe_in_the_middle_of_the_fall():
    recipe = Recipe(decay_to_zero=True, muon=Muon(momentum_start=0.85), lr_schedule=LrSchedule(decay=0.5))
    step_tokens, total = 524_288, 524_288 * 1000
    assert schedules.settings(recipe, 0, step_tokens, total) == schedules.Settings(rate=1.0, momentum=0.85, decay=1.0)
    assert schedules.settings(recipe, 750 * step_tokens, step_tokens, total) == schedules.Settings(rate=0.5, momentum=0.95, decay=0.25)


def test_the_curve_does_not_depend_on_how_the_tokens_are_cut_into_steps():
    schedule = LrSchedule(shape="cosine", warmup=0, decay=0.8)
    coarse, fine = rates(schedule, 10), rates(schedule, 40)
    assert coarse == pytest.approx(fine[::4], abs=1e-15)
