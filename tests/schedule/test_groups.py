"""Repeated groups: found the same however a schedule is written, and refused where a pass could begin at two places."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ostinato.errors import ScheduleError
from ostinato.schedule import parse, repeated_groups
from ostinato.schedule.groups import _repetitions, injected


def found(text, layers=9):
    """(first, length, passes, layer) of every group."""
    return [(g.first, g.length, g.passes, g.layer) for g in repeated_groups(parse(text, layers).applications())]


@pytest.mark.parametrize(
    ("texts", "groups"),
    [
        (("1..4", "1..8 4", "1..8 1..4", "3 1 2 3", "1..8:attn 1..8:mlp", "1:attn 1:mlp"), []),
        (("1..4 1..4", "(1..4)x2", "(1 2 3..4)x2"), [(0, 4, 2, 1)]),
        (("1..2 (3..6)x3 7", "1..2 3..6 (3..6)x2 7", "1..6 (3..6)x2 7"), [(2, 4, 3, 3)]),
        (("1..8 5..8", "1..4 (5..8)x2"), [(4, 4, 2, 5)]),
        (("[4,2,1,1,1,1,1,1,1]", "1x4 2x2 3", "(1x2)x2 2 2 3"), [(0, 1, 4, 1), (4, 1, 2, 2)]),
        (("((1..2)x2)x2", "(1..2)x4"), [(0, 2, 4, 1)]),
        (("1..3 1..3:attn", "1..3 1..3:mlp", "1..3 1:attn 2 3:mlp", "1..3:attn 1..3"), [(0, 3, 2, 1)]),
        (("1..2 1..2:attn 1..2:mlp", "(1 2)x2 3", "1..2 1..2:mlp 3"), [(0, 2, 2, 1)]),
        (("(1:attn 1:mlp)x2", "1:attn 1:mlp 1:attn 1:mlp"), [(0, 2, 2, 1)]),
        (("(1 2)x2 3 (1 2)x2",), [(0, 2, 2, 1), (5, 2, 2, 1)]),
        (("(1..3)x3 (4..6)x2", "1..3 1..3 1..3 4..6 4..6"), [(0, 3, 3, 1), (9, 3, 2, 4)]),
        (("(2 1 3)x2",), [(0, 3, 2, 2)]),
    ],
)
def test_examples(texts, groups):
    assert [found(text) for text in texts] == [groups] * len(texts)


def test_where_passes_begin_and_end():
    (group,) = repeated_groups(parse("1 (2..4)x3 5", 5).applications())
    assert group.begins == (1, 4, 7) and group.ends == (3, 6, 9)


@pytest.mark.parametrize(
    ("text", "column", "what"),
    [
        ("1..2 1..2 1", 9, "1 more run again and are a part"),
        ("(1..4)x2 1..3", 17, "3 more run again"),
        ("(1 2)x2 1:attn", 9, "1 more run again"),
        ("1 (1 2)x2", 3, "share an application"),
        ("(1..2)x2 (2..3)x2", 7, "share an application"),
        ("(1 2x2)x2", 3, "group within another"),
        ("(1x2 2)x2", 1, "group within another"),
        ("((1 2x2)x2 3)x2", 1, "group within another"),
    ],
)
def test_what_could_be_read_two_ways_is_refused_with_its_column(text, column, what):
    with pytest.raises(ScheduleError, match=what) as error:
        found(text)
    assert error.value.column == column and error.value.rule and error.value.fix


part = st.sampled_from(["both", "attn", "mlp"])
body = st.lists(st.integers(1, 9), min_size=1, max_size=5, unique=True)


@given(st.lists(st.tuples(body, st.integers(1, 4)), min_size=1, max_size=4))
def test_groups_of_different_layers_are_those_that_the_text_repeats(written):
    """`(…)x3` texts whose groups share no layer, so that nothing but the parentheses repeats."""
    layers = [layer for inner, _ in written for layer in inner]
    assume(len(set(layers)) == len(layers))
    text = " ".join(f"({' '.join(map(str, inner))})x{times}" for inner, times in written)
    expected, place = [], 0
    for inner, times in written:
        if times > 1:
            expected.append((place, len(inner), times, inner[0]))
        place += len(inner) * times
    assert found(text) == expected
    flat = " ".join(" ".join(map(str, inner * times)) for inner, times in written)
    assert found(flat) == expected


@given(st.lists(st.tuples(st.integers(1, 4), part), min_size=1, max_size=12))
def test_every_answer_is_whole_and_nothing_that_repeats_is_missed(steps):
    """On any schedule: groups are disjoint, each pass repeats the one before, and a stretch that runs again right after is inside one."""
    applications = parse(" ".join(f"{layer}:{p}".removesuffix(":both") for layer, p in steps), 4).applications()
    again = lambda i, j: steps[i][0] == steps[j][0] and {steps[i][1], steps[j][1]} != {"attn", "mlp"}  # noqa: E731
    twice = [(i, i + 2 * k) for k in range(1, 7) for i in range(len(steps) - 2 * k + 1) if all(again(t, t + k) for t in range(i, i + k))]
    try:
        groups = repeated_groups(applications)
    except ScheduleError as error:
        assert len(twice) > 1 and 1 <= error.column <= len(error.text)
        return
    covered = [index for group in groups for index in range(group.first, group.ends[-1] + 1)]
    assert len(set(covered)) == len(covered)
    for group in groups:
        assert group.passes >= 2 and group.layer == steps[group.first][0]
        assert all(again(i, i + group.length) for i in range(group.first, group.begins[-1]))
    for start, end in twice:
        assert any(group.first <= start and end <= group.ends[-1] + 1 for group in groups)


@given(st.lists(st.integers(1, 3), min_size=1, max_size=40))
def test_whole_layers_repeat_as_applications_do(layers):
    """The quick search against the one that looks at every place, kept for layers that run their mixer alone and their MLP alone."""
    applications = parse(" ".join(map(str, layers)), 3).applications()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ostinato.schedule.groups._part_ways", lambda applications: True)
        slow = _repetitions(applications)
    assert _repetitions(applications) == slow


def test_where_the_input_comes_in():
    applications = parse("1 (2..3)x2 1", 3).applications()
    assert [sorted(injected(applications, inject)) for inject in ("none", "add", "linear")] == [[], [3, 5], [1, 3]]


def test_the_longest_schedules_take_a_moment():
    assert found("1x4096") == [(0, 1, 4096, 1)]
    assert found("(1..9)x455") == [(0, 9, 455, 1)]
