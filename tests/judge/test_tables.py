"""The measures of a published table: where a gain comes from, what stated noise makes clear, where a table contradicts itself."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostinato.claims import parse_condition, parse_expression
from ostinato.errors import StudyError
from ostinato.judge.conclude import Conclusions
from ostinato.judge.consistency import agreed, disagreements
from ostinato.judge.estimable import NotEstimable
from ostinato.judge.evaluate import decide, evaluate
from ostinato.judge.published import as_table
from ostinato.judge.tables import TableMeasurements, stated_noise
from ostinato.judge.value import STATED

T_OF_ONE = 12.706204736174694  # tan(0.95 pi / 2): Student's t with one degree of freedom is Cauchy's distribution


def measured(text, reference="base", **noise):
    """A table written as lines of cells with spaces between, headers first."""
    headers, *rows = [line.split() for line in text.strip().splitlines()]
    table = as_table("t", [(f"line {number}", dict(zip(headers, ("" if cell == "." else cell for cell in row), strict=True)))
                           for number, row in enumerate(rows, 2)])  # fmt: skip
    stated = {"seed": {}, "implementation": {}, "deviation": {}, "seeds": 2, **noise}
    return TableMeasurements(table, reference, stated_noise(**stated))


def value(measurements, text):
    return evaluate(parse_expression(text), measurements)


LOSSES = """
arm  loss loss(unit=bits) gain(unit=bits) gain(class=new) params
base 2.80 1.000           .               .               10M
a    2.70 0.960           0.0404          0.20            10M
b    2.75 0.980           .               0.15            12M
"""


def test_rows_of_a_seed_that_another_arm_lacks_are_left_out_of_their_comparison():
    found = measured("""
        arm  seed loss
        base 1    3.00
        base 2    3.02
        base 3    3.30
        a    1    2.90
        a    2    2.93
        a    3    3.21
        b    1    2.88
        b    2    2.92
        """)
    for text in ("loss(a) - loss(b) > 0", "gain(b) - gain(a) > 0"):
        (clause,) = decide(parse_condition(text), found, None).clauses
        assert clause.margin == pytest.approx(0.015) and clause.seeds == pytest.approx({1: 0.02, 2: 0.01}), text
        assert clause.reason.endswith("over seeds 1, 2, which all its terms have (left out: 3)"), text
    assert value(found, "gain(b)").by_seed() == pytest.approx({1: 0.12, 2: 0.10})


def test_a_gain_as_printed_else_from_losses_else_over_the_same_arm():
    found = measured(LOSSES)
    assert value(found, "gain(a, unit=bits)").point == 0.0404  # printed: from unrounded numbers
    assert value(found, "gain(base, over=a, unit=bits)").point == -0.0404
    assert value(found, "gain(b, unit=bits)").point == pytest.approx(0.02)  # the losses
    assert value(found, "gain(a, over=b, unit=bits)").point == pytest.approx(0.02)  # the losses, not the gains
    assert value(found, "gain(a, over=b, class=new)").point == pytest.approx(0.05)  # the gains over base
    assert value(found, "gain(a)").point == pytest.approx(0.1) and value(found, "gain(a)").unit == "nats/token"
    assert value(found, "params(b) - params(a)").point == 2e6


@pytest.mark.parametrize(("text", "told"), [
    ("gain(c)", "no arm 'c'"), ("gain(base)", "base is the reference"), ("loss(a, class=new)", "loss(class=new)"),
    ("won(a)", "no won"), ("gain(a, over=z)", "no arm 'z'"), ("gain(b, class=k>=2)", "gives no gain(class=k >= 2) of b over base"),
    ("gain(a, seed=4)", "gain of a over base"), ("flops(a)", "no flops of a"),
    ("loss(a, seed=4)", "no seed 4"), ("gain(a) / gain(a, unit=bits) / 0", "division by 0"),
])  # fmt: skip
def test_what_the_table_does_not_say_is_not_estimable(text, told):
    with pytest.raises(NotEstimable) as error:
        value(measured(LOSSES), text)
    assert told in error.value.reason, error.value.reason


def test_each_row_may_say_what_it_is_compared_with():
    found = measured("arm against ppl\nbase . 20\nother . 10\na other 5\nb . 5", reference="")
    assert value(found, "gain(a)").point == pytest.approx(math.log(2)) and value(found, "loss(a)").point == pytest.approx(math.log(5))
    with pytest.raises(NotEstimable, match="names no reference"):
        value(found, "gain(b)")
    assert value(measured("arm loss\nbase 2\na 1"), "ppl(a)").point == pytest.approx(math.e)


def test_a_reference_needs_no_row_where_gains_are_printed_over_it():
    found = measured("arm gain\na 0.2\nb 0.1")
    assert value(found, "gain(a)").point == 0.2 and value(found, "gain(a, over=b)").point == pytest.approx(0.1)


def test_a_pair_of_seeds_gives_the_error_of_a_difference_with_one_degree_of_freedom():
    found = measured(LOSSES, seed={"loss(unit=bits)": 0.003}, implementation={"loss(unit=bits)": 0.001, "loss(class=new)": 0.01})
    gain = value(found, "gain(a, unit=bits)")
    assert gain.errors == {STATED: (pytest.approx(0.003), 1)}
    interval = gain.interval(STATED)
    assert (interval.low, interval.high) == (pytest.approx(0.0404 - T_OF_ONE * 0.003), pytest.approx(0.0404 + T_OF_ONE * 0.003))
    assert gain.doubt == "" and gain.p == pytest.approx(2 * (0.5 - math.atan(0.0404 / 0.003) / math.pi))
    assert "holds 0" in value(found, "gain(b, unit=bits)").doubt
    assert value(found, "gain(a)").doubt == "one seed, and no noise of seeds is stated for loss"
    assert value(found, "gain(a, class=new)").doubt.endswith("loss(class=new), only that of the implementation")
    louder = measured(LOSSES, seed={"gain(unit=bits)": 0.001}, implementation={"loss(unit=bits)": -0.003})
    assert value(louder, "gain(a, unit=bits)").errors == {STATED: (pytest.approx(0.003), 1)}  # the larger of the two


@given(st.floats(0.001, 1), st.integers(2, 9))
def test_what_two_gains_share_cancels_and_what_they_do_not_adds(deviation, seeds):
    found = measured(LOSSES, deviation={"loss": deviation}, seeds=seeds)
    for text, runs in (("gain(a)", 2), ("gain(a) - gain(b)", 2), ("gain(a) + gain(b)", 6), ("gain(a, over=b)", 2), ("loss(a)", 1),
                       ("gain(a) - gain(a)", 0)):  # fmt: skip
        error, freedom = value(found, text).errors[STATED]
        assert error == pytest.approx(deviation * math.sqrt(runs), abs=1e-12) and freedom == seeds - 1


def test_arms_with_several_seeds_are_paired_by_seed():
    found = measured("arm seed loss gain(unit=bits)\nbase 1 2.0 .\nbase 2 2.2 .\na 1 1.9 0.10\na 2 2.0 0.14\nb 1 1.8 .")
    gain = value(found, "gain(a)")
    assert gain.point == pytest.approx(0.15) and gain.by_seed() == {1: pytest.approx(0.1), 2: pytest.approx(0.2)} and gain.unknown == ""
    assert value(found, "gain(a, unit=bits)").by_seed() == {1: pytest.approx(0.10), 2: pytest.approx(0.14)}
    assert value(found, "gain(a, seed=2)").point == pytest.approx(0.2)
    assert "one seed" in value(found, "gain(b)").doubt


def test_a_gain_printed_of_some_seeds_gives_way_to_losses_of_all():
    found = measured("arm seed loss gain\nbase 1 2.0 .\nbase 2 2.2 .\na 1 1.9 0.10\na 2 2.0 .\nb 1 . 0.3\nb 2 . .")
    assert value(found, "gain(a)").point == pytest.approx(0.15) and value(found, "gain(a, seed=1)").point == 0.1
    assert value(found, "gain(b)").point == 0.3 and value(found, "gain(b)").doubt


def test_a_reference_of_another_seed_is_still_one_run():
    found = measured("arm seed loss gain\nbase 1 2.0 .\na 1 1.9 0.1\nb 2 1.8 0.2", deviation={"loss": 0.1}, seeds=5)
    for text in ("gain(b) - gain(a)", "gain(b, over=a)", "loss(a) - loss(b)"):
        assert value(found, text).errors[STATED] == (pytest.approx(0.1 * math.sqrt(2)), 4)


def test_stated_noise_says_how_strong_a_ratio_is_and_refuses_none():
    found = measured(LOSSES, seed={"loss(unit=bits)": 0.02})
    truth = Conclusions((), found).holds("gain(b, unit=bits) / gain(a, unit=bits) < 0.6")
    assert truth.holds and not truth.clear and "stated noise" in truth.reason
    quiet = Conclusions((), measured(LOSSES, seed={"loss(unit=bits)": 0.0001})).holds("gain(b, unit=bits) / gain(a, unit=bits) < 0.6")
    assert quiet.holds and quiet.clear
    assert str(parse_condition("gain(b) > 0")) == "gain(b) > 0"


def test_a_stated_noise_is_of_a_measure():
    with pytest.raises(StudyError, match="noise 'los'"):
        measured(LOSSES, seed={"los": 0.1})


# --- does a table agree with itself?


def test_rounding_alone_is_no_disagreement():
    rows = [f"a{place} {loss:.4f} {loss / 2.802:.5f} {2.8 - loss:+.4f}" for place, loss in enumerate((2.71828, 2.61803, 2.50001, 2.41421))]
    assert disagreements(measured("arm loss loss(unit=bits) gain\nbase 2.8000 0.99929 .\n" + "\n".join(rows))) == []


def test_the_row_whose_nats_and_bits_do_not_fit_is_named_with_what_it_needs():
    rows = "base 2.802 1.000\na 2.522 0.900\nb 2.242 0.800\nc 1.971 0.700\nd 1.401 0.500"
    (note,) = disagreements(measured("arm loss loss(unit=bits)\n" + rows))
    assert note.startswith("c: 1.971 nats and 0.700 bits") and "4 of 5 rows" in note and note.endswith("0.700 bits need 1.961 nats")


def test_rows_that_agree_on_nothing_are_told_as_such():
    (note,) = disagreements(measured("arm loss loss(unit=bits)\nbase 1.00 1.00\na 2.00 1.00\nb 3.00 1.00"))
    assert "no more than 1 of 3 rows agree" in note


def test_one_wrong_loss_of_the_reference_is_told_once():
    (note,) = disagreements(measured("arm loss gain\nbase 2.810 .\na 2.700 0.100\nb 2.600 0.200\nc 2.500 0.300"))
    assert note == "loss of base is printed as 2.810, and the gains printed over it need 2.800, from the losses of a, b, c"


def test_one_wrong_gain_is_told_with_its_arm():
    (note,) = disagreements(measured("arm loss gain\nbase 2.800 .\na 2.700 0.100\nb 2.600 0.210\nc 2.500 0.300"))
    assert note == "gain of b over base is printed as 0.210, and the losses 2.800 and 2.600 differ by 0.200"


def test_gains_over_two_arms_and_a_perplexity_that_do_not_fit():
    notes = disagreements(measured("arm gain gain(over=a) ppl loss\na 0.10 . . .\nb 0.30 0.20 . .\nc 0.40 0.20 . .\nd . . 7.39 1.00"))
    assert notes == ["gain of c: 0.40 over base and 0.20 over a do not fit the 0.10 of a over base",
                     "d: a perplexity of 7.39 is not exp of 1.00 nats, 2.72"]  # fmt: skip


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 5)), min_size=1, max_size=8))
def test_the_point_in_the_most_intervals_is_that_of_brute_force(given_intervals):
    intervals = [(float(low), float(low + width)) for low, width in given_intervals]
    (low, high), count = agreed(intervals)
    most = max(sum(left <= point <= right for left, right in intervals) for point in [end for pair in intervals for end in pair])
    inside = [(left, right) for left, right in intervals if left <= (low + high) / 2 <= right]
    assert count == most == len(inside) and low == max(left for left, _ in inside) and high == min(right for _, right in inside)
