"""Drawn passes: what they follow from, how they are distributed, and what a study says of them."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostinato.errors import StudyError
from ostinato.study.derive import arm_applications, pass_groups
from ostinato.study.draws import always, drawn, fixed, most, planned, probabilities, shares, trained_to, words
from ostinato.study.load import load_study
from ostinato.study.philox import uniforms
from ostinato.study.records import Passes

UNIFORM, POISSON = Passes(uniform=(1, 8)), Passes(poisson=4)
PINNED_UNIFORM, PINNED_POISSON = [1, 7, 7, 8, 4, 8, 2, 7, 4, 5, 1, 2], [2, 10, 6, 10, 2, 13, 4, 6, 6, 3, 2, 1]
STUDY = """
model: {layers: 4, d_model: 32, heads: 2, schedule: "1 (2..3)x{r} 4", inject: linear}
recipe: {tokens: 4096, batch: 256, context: 32}
seeds: [1, 2]
arms: {one: {passes: %s}}
"""


def test_a_draw_follows_from_seed_and_step_alone():
    """Pinned: other numbers would make old and new runs of one name differ."""
    assert [drawn(UNIFORM, 1, step) for step in range(12)] == PINNED_UNIFORM
    assert [drawn(POISSON, 1, step) for step in range(12)] == PINNED_POISSON
    assert [drawn(UNIFORM, 2, step) for step in range(12)] != PINNED_UNIFORM


@pytest.mark.parametrize("draw", [UNIFORM, POISSON, Passes(poisson=0.5), Passes(poisson=16), Passes(uniform=(3, 3))])
def test_draws_have_their_probabilities(draw):
    """Against chi-square of 4,000 draws, and the mean of the source: m + 1."""
    found, chances, count = planned(draw, 7, 4000), probabilities(draw), 4000
    assert found == Counter(drawn(draw, 7, step) for step in range(count))
    assert sum(chances.values()) == pytest.approx(1, abs=1e-9) and set(found) <= set(range(1, most(draw) + 1))
    common = {passes: chance for passes, chance in chances.items() if chance * count >= 8}
    square = sum((found[passes] - chance * count) ** 2 / (chance * count) for passes, chance in common.items())
    assert square < len(common) + 4 * math.sqrt(2 * len(common))
    if draw.poisson:
        mean = sum(passes * chance for passes, chance in chances.items())
        square = sum(passes**2 * chance for passes, chance in chances.items()) - mean**2
        assert mean == pytest.approx(draw.poisson + 1, rel=1e-6)
        assert square == pytest.approx(draw.poisson + draw.poisson**2 * (math.exp(0.25) - 1), rel=1e-4)


@pytest.mark.parametrize(("draw", "middle"), [(UNIFORM, 5), (POISSON, 4), (Passes(poisson=0.5), 1), (Passes(uniform=(2, 4)), 3)])
def test_where_one_number_is_needed_it_is_the_middle(small_model, draw, middle):
    model = small_model(layers=4, schedule="1 (2..3)x{r} 4", passes=draw, inject="linear")
    assert fixed(draw) == middle and len(arm_applications(model)) == 2 + 2 * middle
    assert [group.passes for group in pass_groups(always(model, 1))] == [1]


def test_a_plan_counts_the_draws_of_its_steps(monkeypatch):
    """Many at once, in pieces."""
    monkeypatch.setattr("ostinato.study.draws.AT_ONCE", 150)
    for draw in (UNIFORM, POISSON, Passes(poisson=200)):
        assert planned(draw, 11, 400) == Counter(drawn(draw, 11, step) for step in range(400))


@given(st.lists(st.tuples(*[st.integers(0, 2**64 - 1)] * 2), min_size=1, max_size=20))
def test_the_numbers_of_many_keys_are_those_of_numpys_generator(keys):
    found = np.stack(uniforms(np.array(keys, np.uint64)), 1)
    expected = [np.random.Generator(np.random.Philox(key=low | high << 64)).random(2) for low, high in keys]
    assert np.array_equal(found, expected)


def test_how_far_a_draw_trains_and_how_it_is_said():
    assert (trained_to(UNIFORM), words(UNIFORM)) == (8, "drawn from 1 to 8")
    last, chances = trained_to(POISSON), probabilities(POISSON)
    tail = {start: sum(chance for passes, chance in chances.items() if passes >= start) for start in (last, last + 1)}
    assert tail[last] >= 1e-3 > tail[last + 1] and words(POISSON) == "drawn, 5 on average"


def test_shares_are_of_all_seeds():
    counts = planned(UNIFORM, 1, 10) + planned(UNIFORM, 2, 10)
    assert shares(UNIFORM, (1, 2), 10) == {passes: counts[passes] / 20 for passes in sorted(counts)}


@pytest.mark.parametrize(("written", "draw"), [("{uniform: [1, 8]}", UNIFORM), ("{poisson: 4}", POISSON), ("3", 3)])
def test_a_study_file_says_it(tmp_path, written, draw):
    (tmp_path / "s.yaml").write_text(STUDY % written)
    assert load_study(tmp_path / "s.yaml").arms[0].model.passes == draw


@pytest.mark.parametrize(("written", "said", "rule", "fix"), [
    ("{uniform: [8, 1]}", "[8, 1] is not from the smaller to the larger", "from a to b", "uniform: [1, 8]"),
    ("{uniform: [1, 8], poisson: 4}", "both uniform and poisson", "either uniform or poisson", "{poisson: 4}"),
    ("{}", "neither uniform nor poisson", "either uniform or poisson", "{uniform: [1, 8]}"),
    ("{uniform: none}", "neither uniform nor poisson", "either uniform or poisson", "{uniform: [1, 8]}"),
    ("{uniform: [0, 8]}", "'0' is out of range", "uniform is at least 1", ""),
    ("{poison: 4}", "no key 'poison'", "", "poisson"),
    ("{gauss: 4}", "no key 'gauss'", "keys here are uniform, poisson", "choose one of these"),
    ("{poisson: 256}", "'256' is out of range", "at most 255", ""),
    ("{poisson: 200}", "up to 3,216 passes", "4,096 applications, which here are 2,047 passes", "poisson: 126"),
    ("{uniform: [1, 4000]}", "up to 4,000 passes", "4,096 applications, which here are 2,047 passes", "uniform: [1, 2047]"),
    ("{uniform: [1, 8]}, application_scalars: yes", "drawn passes with application_scalars", "scalars of its own", "passes: 4"),
    ("{uniform: [1, 8]}, schedule: '((1..2)x{r} 3)x{r} 4'", "{r} stands within {r}", "not r times r", "one {r} a group"),
    ("{uniform: [1, 8]}, schedule: 1..4", "the schedule 1..4 has no {r}", "a draw is the value of {r}", "(…)x{r}"),
])  # fmt: skip
def test_what_cannot_be_drawn_is_refused(tmp_path, written, said, rule, fix):
    (tmp_path / "s.yaml").write_text(STUDY % written)
    with pytest.raises(StudyError) as caught:
        load_study(tmp_path / "s.yaml")
    error = caught.value
    assert said in error.what and "line 5, arms.one.passes" in error.what and rule in error.rule and fix in error.fix


def test_groups_that_meet_with_some_number_of_passes_are_refused_before_training_draws_it(tmp_path):
    """With five passes or more nothing is unclear; with four, 1x4 2 runs twice."""
    (tmp_path / "s.yaml").write_text(STUDY % "{uniform: [5, 7]}, schedule: '1x4 2 1x{r} 3'")
    load_study(tmp_path / "s.yaml")
    (tmp_path / "s.yaml").write_text(STUDY % "{uniform: [4, 9]}, schedule: '1x4 2 1x{r} 2'")
    with pytest.raises(StudyError, match=r"line 2, model\.inject"):
        load_study(tmp_path / "s.yaml")


@pytest.mark.parametrize(("key", "what", "fix"), [
    ("backprop: 1.5", "'1.5' is not a whole number", "backprop: half, or a whole number"),
    ("backprop: quarter", "'quarter' is not half, or a whole number", "backprop: half, or a whole number"),
    ("backprop: Half", "'Half' is not half, or a whole number", "half"),
    ("residual_scaling: x", "or a number", "or a number"),
])  # fmt: skip
def test_a_word_or_a_number_says_both(tmp_path, key, what, fix):
    (tmp_path / "s.yaml").write_text(STUDY % f"2, {key}")
    with pytest.raises(StudyError) as caught:
        load_study(tmp_path / "s.yaml")
    assert what in caught.value.what and fix in caught.value.fix
