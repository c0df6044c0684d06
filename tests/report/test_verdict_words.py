"""Verdicts as they are printed: told apart without colour, whole at 80 columns, the numbers that decided and no others."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from rich.console import Console

from ostinato.judge.verdicts import (
    BETWEEN,
    KILLED,
    NOT_ESTIMABLE,
    SUPPORTED,
    Clause,
    Contingent,
    Guess,
    HeldOut,
    Judged,
    Judgement,
    Quantity,
    Verdict,
)
from ostinato.report import verdict_words as words
from ostinato.report.judgement import JudgementSheet, held_out_table, verdict_tables

HOLDS = Clause("gain(loop2_attn) / gain(loop2) >= 0.6", True, True, 0.8871, 0.6, 0.2871, (0.2, 0.37), (0.21, 0.36), "", 0.001)
FAILS = Clause("gain(loop2_attn) / gain(loop2) < 0.5", False, True, 0.8871, 0.5, -0.3871, (-0.47, -0.3), (-0.46, -0.31), "", 0.001)
NOISY = Clause("gain(rr1, unit=bits) >= 0.003", True, False, 0.0041, 0.003, 0.0011, (-0.002, 0.0042), None, "bits/byte", 0.4,
               reason="one seed: the noise of seeds is not known")  # fmt: skip
UNKNOWN = Clause("gain(ab3) >= 0.01", None, False, reason="ab3, seed 1 failed: the loss is not finite at step 7")

E3 = Verdict("E3", "the attention-only pass carries the in-context gain", SUPPORTED, "PASS", "clear", "",
             (Judged("PASS", SUPPORTED, HOLDS.text, True, True, 0.001, (HOLDS,)),
              Judged("KILL", KILLED, FAILS.text, False, True, 0.001, (FAILS,))),
             (Guess("gain(loop2_attn, unit=bits)", 0.007, 0.0065, (0.006, 0.007), "bits/byte"),),
             0.001, 0.003, 1, "2026-11-01T10:00:00+00:00", False)  # fmt: skip
E4 = Verdict("E4", "recurrence of one layer is enough", KILLED, "KILLED", "within noise", NOISY.reason,
             (Judged("SUPPORTED", SUPPORTED, "gain(rr1, unit=bits) < 0.003", False, False, 0.4, ()),
              Judged("KILLED", KILLED, NOISY.text, True, False, 0.4, (NOISY,))), registered=2, at="2026-11-02T10:00:00+00:00",
             exploratory=False, after_results=("rr1, seed 1",), changed=("killed: 0.002 → 0.003",))  # fmt: skip
E5 = Verdict("E5", "", NOT_ESTIMABLE, NOT_ESTIMABLE, "", "ab3 failed",
             (Judged("SUPPORTED", SUPPORTED, UNKNOWN.text, None, False, None, (UNKNOWN,)),))  # fmt: skip
E6 = Verdict("E6", "neither", BETWEEN, "PARTIAL", "clear", "",
             (Judged("SUPPORTED", SUPPORTED, FAILS.text, False, True, None, (FAILS,)),
              Judged("KILLED", KILLED, FAILS.text, False, True, None, (FAILS,)),
              Judged("PARTIAL", BETWEEN, "otherwise", True, True, None, ())),
             registered=1, at="2026-11-01T10:00:00+00:00", exploratory=False, withdrawn=True)  # fmt: skip
JUDGEMENT = Judgement(
    "loop2", 2, (E3, E4, E5, E6),
    (Quantity("sublayer passes", "(gain(a) + gain(b)) / gain(c)", 1.0512, (1.01, 1.09), "", "", (1.0, 1.1)),
     Quantity("share", "gain(ab3) / gain(c)", None, None, "ab3 failed")),
    {"loop2": {"done": 2}, "ab3": {"failed": 1, "missing": 1}, "in_place": {"not asked": 2}},
    (Contingent("in_place", "gain(rr1) >= 0.003", "not run", "gain(rr1) is 0.0011"),), ("the held-out part was shown before judging",),
    {"loop2": HeldOut("nats/token", 0.05, 0.048, (0.04, 0.06), (0.03, 0.066)), "ab3": HeldOut("nats/token", None, None, reason="failed")},
)  # fmt: skip


def printed(sheet, width, color=None):
    console = Console(width=width, color_system=color, force_terminal=color is not None, highlight=False)
    with console.capture() as capture:
        console.print(sheet)
    return capture.get()


def test_a_kind_is_told_by_shape_and_word():
    assert [words.headline(one) for one in JUDGEMENT.verdicts] == ["● SUPPORTED", "✕ KILLED", "○ NOT ESTIMABLE", "◐ BETWEEN"]
    assert len(set(words.SHAPES.values())) == 4 and set(words.SHAPES) == set(words.TONES) and len(set(words.TONES.values())) == 4
    assert words.one_line(E3) == "● SUPPORTED E3 (PASS), clear: the attention-only pass carries the in-context gain"
    assert words.one_line(E4).startswith("✕ KILLED E4, within noise, sealed after results: ") and words.one_line(E5) == "○ NOT ESTIMABLE E5"


@pytest.mark.parametrize(("verdict", "clause"), [(E3, HOLDS), (E4, NOISY), (E5, UNKNOWN), (E6, FAILS)])
def test_the_numbers_are_those_that_decided(verdict, clause):
    assert words.deciding_clause(verdict) is clause


def test_of_several_clauses_the_weakest_stands_beside_the_verdict():
    near = Clause("gain(b) >= 0.1", True, True, 0.11, 0.1, 0.01)
    far = Clause("gain(a) >= 0.1", True, True, 0.5, 0.1, 0.4)
    noisy = Clause("gain(c) >= 0.1", True, False, 0.9, 0.1, 0.8)
    judged = Judged("SUPPORTED", SUPPORTED, "…", True, True, None, (far, near))
    assert words.deciding_clause(Verdict("p", "", SUPPORTED, "SUPPORTED", conditions=(judged,))) is near
    judged = Judged("SUPPORTED", SUPPORTED, "…", True, False, None, (far, near, noisy))
    assert words.deciding_clause(Verdict("p", "", SUPPORTED, "SUPPORTED", conditions=(judged,))) is noisy
    assert words.deciding_clause(Verdict("p", "", SUPPORTED, "SUPPORTED")) is None


def test_otherwise_is_decided_by_the_others():
    otherwise = Judged("KILLED", KILLED, "otherwise", True, True, None, ())
    missed = Judged("SUPPORTED", SUPPORTED, FAILS.text, False, True, None, (FAILS,))
    assert words.deciding_clause(Verdict("p", "", KILLED, "KILLED", conditions=(missed, otherwise))) is FAILS


def test_a_clause_says_by_how_much_and_why_it_is_not_clear():
    assert words.clause_words(HOLDS) == (
        "gain(loop2_attn) / gain(loop2) >= 0.6: 0.8871 and 0.6000, holds by 0.2871 "
        "(95% of the margin: +0.2000 to +0.3700 over documents, +0.2100 to +0.3600 over seeds), clear"
    )
    assert "does not hold by 0.3871" in words.clause_words(FAILS)
    assert "0.00410 and 0.00300 bits/byte" in words.clause_words(NOISY) and words.clause_words(NOISY).endswith(NOISY.reason)
    assert words.clause_words(UNKNOWN) == "gain(ab3) >= 0.01: not estimable, ab3, seed 1 failed: the loss is not finite at step 7"
    assert words.clause_words(Clause("outcome(E3) is PASS", True, True)) == "outcome(E3) is PASS: holds"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.5, "0.5000"), (0.0, "0.0000"), (-0.25, "−0.2500"), (0.0004, "0.000400"), (1234.5, "1234.5000"), (1.18e6, "1.18M"), (None, "–")],
)
def test_numbers_keep_three_digits(value, text):
    assert words.number(value) == text


@pytest.mark.parametrize("width", [80, 100, 140])
def test_everything_is_there_at_any_width_and_without_colour(width):
    shown = printed(JudgementSheet(JUDGEMENT, "loop2.yaml"), width)
    assert max(map(len, shown.splitlines())) <= width
    flat = " ".join(shown.split())
    for part in ("● SUPPORTED", "✕ KILLED", "◐ BETWEEN", "○ NOT ESTIMABLE", "within noise", "0.8871", "0.2871", "PARTIAL", "0.0065",
                 "1.0512", "2 done, 1 failed, 1 missing, 2 not asked", "ab3 1 failed, 1 missing", "in_place (gain(rr1) >= 0.003): not run",
                 "sealed 2026-11-02 10:00:00 UTC, after results that it rests on: rr1, seed 1", "changed since: killed: 0.002 → 0.003",
                 "no longer in the study file", "exploratory: not registered", "+0.0480", "the loss is not finite at step 7",
                 "1 SUPPORTED (clear), 1 KILLED (within noise), 1 BETWEEN (clear) and 1 NOT ESTIMABLE", "p 0.001, by Holm over all",
                 "! the held-out part was shown before judging", "Judged as sealed: 2 registrations, the newest of "):  # fmt: skip
        assert part in flat, part
    assert "\x1b" not in shown and "\x1b[32m● SUPPORTED" in printed(JudgementSheet(JUDGEMENT, "x"), width, "standard")


def test_one_line_a_prediction_at_80_columns():
    shown = printed(JudgementSheet(JUDGEMENT, "x"), 80)
    lines = shown[: shown.index("1 SUPPORTED")].splitlines()
    for verdict in JUDGEMENT.verdicts:
        assert sum(words.headline(verdict) in line and verdict.name in line and verdict.strength in line for line in lines) == 1


def test_exploratory_ones_stand_apart():
    sealed, loose = verdict_tables(JUDGEMENT)
    assert [row.cells[1].text for row in sealed.rows] == ["E3", "E4", "E6"] and [row.cells[1].text for row in loose.rows] == ["E5"]
    assert "Exploratory" in loose.caption


def test_without_a_registration_it_says_how_to_register():
    shown = printed(JudgementSheet(Judgement("tiny", 0, (E5,)), "tiny.yaml"), 80)
    assert "Nothing is registered" in shown and "next: ostinato register tiny.yaml" in shown
    nothing = printed(JudgementSheet(Judgement("tiny", 0, ()), "tiny.yaml"), 80)
    assert "makes no prediction" in nothing and "Runs: none" in nothing


def test_an_edited_seal_is_said_first_and_plainly():
    sheet = JudgementSheet(replace(JUDGEMENT, faults=("study.json, line 3 was edited",)), "x")
    shown, html = " ".join(printed(sheet, 80).split()), sheet._repr_html_()
    assert shown.startswith("The registrations were edited or are torn: nothing counts as sealed. ✕ study.json, line 3 was edited")
    assert "Judged as sealed" not in shown + html and html.index("nothing counts as sealed") < html.index("SUPPORTED")
    assert words.sealed_words(replace(E5, withdrawn=True)).startswith("exploratory: as it stands in a registration that is not as it was")
    assert Judgement("x", 1, (E3,)).exit_status == 0 and Judgement("x", 1, (E3,), faults=("edited",)).exit_status == 20


def test_held_out_is_beside_validation():
    (row,) = held_out_table(JUDGEMENT).rows
    assert [cell.text for cell in row.cells][:4] == ["loop2", "+0.0500", "+0.0400 to +0.0600", "+0.0480"]


def test_scripts_and_notebooks():
    sheet = JudgementSheet(JUDGEMENT, "x")
    assert sheet.exit_status == 30 and json.loads(json.dumps(sheet.record()))["exit_status"] == 30
    assert "● SUPPORTED" in sheet._repr_html_() and "● SUPPORTED" in repr(sheet)
