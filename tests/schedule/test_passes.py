"""Other numbers of passes: the applications and groups of a schedule that is written with that number."""

from __future__ import annotations

import pytest

from ostinato.errors import ScheduleError
from ostinato.schedule import parse, repeated_groups
from ostinato.schedule.passes import free_passes, with_passes


@pytest.mark.parametrize(
    ("text", "passes", "free"),
    [
        ("1 (2..3)x{r} 4", 3, 3),
        ("1..4 1..4", None, 2),
        ("1 (2..3)x3 4", None, 3),
        ("1..4 1..4:attn", None, 2),
        ("1..4", None, None),
        ("[4,2,1,1]", None, None),
        ("1..4 2", None, None),
        ("1 (1 2)x2 3..4", None, None),  # a pass could begin at two places
        ("1x{r} 2x{r} 3..4", 2, 2),
    ],
)
def test_which_numbers_are_free(text, passes, free):
    assert free_passes(parse(text, 4), passes) == free


@pytest.mark.parametrize("passes", [2, 3, 5])
def test_the_only_group_as_if_written_with_that_number(passes):
    for text, other in (("1 (2..3)x2 4", "1 (2..3)x{r} 4"), ("1..4 1..4", "(1..4)x{r}"), ("1 (2 3:mlp)x3 4", "1 (2 3:mlp)x{r} 4")):
        wanted = parse(other, 4).applications(passes)
        assert with_passes(parse(text, 4), 2, passes) == (wanted, repeated_groups(wanted))


def test_passes_beyond_those_trained_do_what_the_last_does():
    applications, groups = with_passes(parse("1..2 1..2:attn", 2), 2, 4)
    assert [str(application) for application in applications] == ["1", "2"] + ["1:attn", "2:attn"] * 3
    assert [application.pass_ for application in applications] == [1, 1, 2, 2, 3, 3, 4, 4] and groups[0].passes == 4
    applications, groups = with_passes(parse("1..2 1..2:attn", 2), 2, 1)
    assert [str(application) for application in applications] == ["1", "2"] and groups[0].ends == (1,)


def test_one_pass_keeps_its_groups():
    """Two groups, with something before, between and after; and one that repeats twice in every pass of r."""
    applications, groups = with_passes(parse("1 (2..3)x{r} 4 (1 2)x{r} 3", 4), 2, 1)
    assert [str(application) for application in applications] == list("1234123")
    assert [(group.first, group.length, group.passes, group.layer) for group in groups] == [(1, 2, 1, 2), (4, 2, 1, 1)]
    applications, groups = with_passes(parse("3 ((1 2)x2)x{r} 4", 4), 2, 1)
    assert [(group.first, group.length, group.passes) for group in groups] == [(1, 2, 2)] and groups == repeated_groups(applications)


def test_one_pass_of_r_times_r_is_not_told():
    """Passes are r squared there: 4 and 9 of two and three would give -1."""
    with pytest.raises(ScheduleError, match=r"within \{r\}, with one pass"):
        with_passes(parse("1 ((2..3)x{r})x{r} 4", 4), 2, 1)
    assert len(with_passes(parse("1 ((2..3)x{r})x{r} 4", 4), 2, 3)[0]) == 20


def test_groups_only_where_they_are_wanted():
    schedule = parse("1 (1 2)x{r}", 2)
    assert len(with_passes(schedule, 2, 3, grouped=False)[0]) == 7
    with pytest.raises(ScheduleError, match=r"share an application|within another|part of a pass"):
        with_passes(schedule, 2, 3)


@pytest.mark.parametrize(("passes", "what"), [(0, "0 passes"), (2000, "8,000 applications")])
def test_numbers_that_cannot_run_are_refused(passes, what):
    with pytest.raises(ScheduleError, match=what):
        with_passes(parse("1..4 1..4", 4), 2, passes)
