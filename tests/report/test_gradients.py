"""The section on gradients, from logs whose numbers are known."""

from __future__ import annotations

import re

import pytest

from ostinato.analysis import results_table
from ostinato.report.gradients import growth, lead, read, section
from ostinato.report.panels import arm_looks
from ostinato.study import arm_applications


def looked(applications, step, tokens, first=3.0, second=1.0):
    """One shared weight whose uses give orthogonal gradients of norms `first` and `second`; growth doubles with every application."""
    labels = [[one.layer, one.part, one.pass_] for one in applications]
    uses = [one.index for one in applications if one.layer == 1]
    dots = {"layers.1.attn.q.weight": [uses, [first**2, 0.0, second**2] if len(uses) == 2 else [1.0]]}
    far = [2.0**after for after in range(len(applications), -1, -1)]
    return {"step": step, "tokens": tokens, "targets": 128, "seconds": 0.1, "applications": labels, "norms": {"embedding.weight": 1.0},
            "dots": dots, "loss": far, "growth": far}  # fmt: skip


@pytest.fixture
def logged(filled, study):
    """plain and twice have gradients at three steps of both seeds; the other arms have none."""
    for arm in study.arms:
        for seed in arm.seeds if arm.name in ("plain", "twice") else ():
            folder = filled.runs_of(study)[arm.name, seed]
            for step, first in ((1, 1.0), (50, 3.0), (58, 2.0)):
                folder.append_gradients(looked(arm_applications(arm.model), step, 1024 * step, first))
    return filled


def test_without_a_step_looked_at_there_is_no_section(filled, study):
    assert read(study, filled) == [] and section(study, filled, []) is None


def test_shares_are_of_the_second_half_and_add_up(logged, study):
    plain, twice = read(study, logged)
    assert (plain.arm.name, twice.arm.name) == ("plain", "twice") and plain.late.shares == ()
    assert twice.late.shares == pytest.approx((13 / 15, 2 / 15))  # (9 + 4) and (1 + 1) of both seeds
    assert twice.late.cosines == {(0, 1): 0.0} and twice.late.by_application == pytest.approx({0: 13 / 15, 4: 2 / 15})
    assert twice.late.growth == pytest.approx([2.0**after for after in range(8, -1, -1)])


def test_the_section_says_shows_and_lists_them(logged, study):
    found = section(study, logged, results_table(study, logged))
    assert found.lead == (
        "In the second half of training, in twice the first use of a shared weight gives 87% of its gradient, and the cosine of first and "
        "last is 0.00. On its way back to the first application a random vector grows by 8.00× in plain to 128.00× in twice."
    )
    assert len(found.figures) == 3 and all(one.svg.startswith("<svg") for one in found.figures)
    assert "twice" in found.figures[0].svg and "plain" not in found.figures[0].svg and "plain" in found.figures[2].svg
    by_arm, by_application = found.tables
    assert [[cell.text for cell in row.cells] for row in by_arm.rows] == [
        ["plain", "6", "–", "–", "8.00×", "16.00×", "16.0000", "1.0000"],
        ["twice", "6", "0.87 / 0.13", "0.000", "128.00×", "256.00×", "256.0000", "1.0000"],
    ]
    assert [[cell.text for cell in row.cells] for row in by_application.rows] == [
        ["twice", "1", "1", "1", "0.867", "128.0000", "128.00×"],
        ["twice", "5", "1", "2", "0.133", "8.0000", "8.00×"],
    ]


def test_arms_that_share_nothing_have_growth_alone(filled, study):
    folder = filled.runs_of(study)["plain", 1]
    folder.append_gradients(looked(arm_applications(study.arms[0].model), 1, 1024))
    found = section(study, filled, results_table(study, filled))
    assert [one.caption for one in found.figures] == ["Growth of gradients on their way back"] and len(found.tables) == 1
    assert found.lead == "On its way back to the first application a random vector grows by 8.00× in plain."


def test_a_run_whose_memory_held_the_norms_alone_is_shown(filled, study):
    folder = filled.runs_of(study)["twice", 1]
    folder.append_gradients(looked(arm_applications(study.arms[2].model), 1, 1024) | {"targets": 0, "dots": {}, "loss": [], "growth": []})
    found = section(study, filled, results_table(study, filled))
    assert found.figures == () and lead(read(study, filled)).endswith("in the store alone.")


def test_a_growth_of_0_is_not_drawn(logged, study):
    drawn = arm_looks(study, results_table(study, logged))
    assert len(re.findall(r"<title>(plain|twice): [^<]+ at the end</title>", growth(read(study, logged), drawn))) == 2
    plain = study.arms[0]
    for seed in plain.seeds:
        folder = logged.runs_of(study)["plain", seed]
        folder.keep_steps(0)
        folder.append_gradients(looked(arm_applications(plain.model), 1, 1024) | {"growth": [0.0] * 4 + [1.0]})
    assert re.findall(r"<title>(plain|twice): [^<]+ at the end</title>", growth(read(study, logged), drawn)) == ["twice"]
