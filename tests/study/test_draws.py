"""Drawn passes: what they follow from, how they are distributed, and what a study says of them."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from ostinato.errors import StudyError
from ostinato.study.derive import arm_applications, pass_groups
from ostinato.study.draws import always, drawn, fixed, most, planned, probabilities, shares
from ostinato.study.load import load_study
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


def test_shares_are_of_all_seeds():
    counts = planned(UNIFORM, 1, 10) + planned(UNIFORM, 2, 10)
    assert shares(UNIFORM, (1, 2), 10) == {passes: counts[passes] / 20 for passes in sorted(counts)}


@pytest.mark.parametrize(("written", "draw"), [("{uniform: [1, 8]}", UNIFORM), ("{poisson: 4}", POISSON), ("3", 3)])
def test_a_study_file_says_it(tmp_path, written, draw):
    (tmp_path / "s.yaml").write_text(STUDY % written)
    assert load_study(tmp_path / "s.yaml").arms[0].model.passes == draw


@pytest.mark.parametrize(("written", "said"), [
    ("{uniform: [8, 1]}", "not from the smaller"),
    ("{uniform: [1, 8], poisson: 4}", "either uniform or poisson"),
    ("{uniform: [0, 8]}", "uniform"),
    ("{poison: 4}", "poisson"),
    ("{uniform: [1, 4000]}", "4,096"),
    ("{uniform: [1, 8]}, application_scalars: yes", "scalars of its own"),
    ("{uniform: [1, 8]}, schedule: 1..4", "passes"),
])  # fmt: skip
def test_what_cannot_be_drawn_is_refused(tmp_path, written, said):
    (tmp_path / "s.yaml").write_text(STUDY % written)
    with pytest.raises(StudyError, match=said):
        load_study(tmp_path / "s.yaml")
