"""The language: what it accepts, how it prints, and the round trip, on generated schedules against a naive twin."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostinato.errors import ScheduleError
from ostinato.schedule import Application, effective_depth, parse, plain, unique_layers

LAYERS = 9


@pytest.mark.parametrize(
    ("text", "layers", "canonical", "steps"),
    [
        ("1..8", 8, "1..8", "1 2 3 4 5 6 7 8"),
        ("1..3 1..3", 3, "1..3 1..3", "1 2 3 1 2 3"),
        ("1..3 1..3:attn", 3, "1..3 1..3:attn", "1 2 3 1:attn 2:attn 3:attn"),
        ("1..8 4", 8, "1..8 4", "1 2 3 4 5 6 7 8 4"),
        ("(1..3)x2 (4..6)x2", 6, "(1..3)x2 (4..6)x2", "1 2 3 1 2 3 4 5 6 4 5 6"),
        ("1x4 2x2 3 4", 4, "1x4 2x2 3 4", "1 1 1 1 2 2 3 4"),
        ("[4,2,1,1]", 4, "1x4 2x2 3 4", "1 1 1 1 2 2 3 4"),
        (" [ 4, 2 ,1,1 ] ", 4, "1x4 2x2 3 4", "1 1 1 1 2 2 3 4"),
        ("(1 2:mlp)x2", 2, "(1 2:mlp)x2", "1 2:mlp 1 2:mlp"),
        ("(1..2)x2:attn", 2, "(1..2)x2:attn", "1:attn 2:attn 1:attn 2:attn"),
        ("(1:attn 2:attn)x2", 2, "(1 2)x2:attn", "1:attn 2:attn 1:attn 2:attn"),
        ("1:attnx3", 1, "1x3:attn", "1:attn 1:attn 1:attn"),
        ("((1 2):attn 3)x2:attn", 3, "(1 2 3)x2:attn", "1:attn 2:attn 3:attn 1:attn 2:attn 3:attn"),
        ("((1 2x2)x2 3)x2", 3, "((1 2x2)x2 3)x2", "1 2 2 1 2 2 3 1 2 2 1 2 2 3"),
        ("  ( 2..2  ((01)) )  ", 2, "2 1", "2 1"),
        ("(1x2)x3", 1, "(1x2)x3", "1 1 1 1 1 1"),
    ],
)
def test_examples(text, layers, canonical, steps):
    schedule = parse(text, layers)
    assert schedule.text == str(schedule) == canonical
    assert " ".join(map(str, schedule.applications())) == steps
    assert parse(canonical, layers) == schedule


def test_plain_is_every_layer_once():
    assert plain(8) == parse("1..8", 8) and plain(1).text == "1"
    assert [a.layer for a in plain(8).applications()] == list(range(1, 9))


def test_free_passes():
    schedule = parse("1 (2..3)x{r} 4", 4)
    assert schedule.free and not plain(4).free
    assert [a.layer for a in schedule.applications(2)] == [1, 2, 3, 2, 3, 4]
    assert schedule.applications(1) == plain(4).applications()
    for passes, rule in ((None, "fixed before"), (0, "at least 1"), (4096, "at most 4,096"), (10**5000, "at most 4,096")):
        with pytest.raises(ScheduleError, match=rule) as error:
            schedule.applications(passes)
        assert error.value.column == 10
    with pytest.raises(ScheduleError, match=r"'1 \(2\)x\{r\} 3', column 7: \{r\} has no value"):
        parse("1 (2)x{r} 3", 3).applications()  # as it was written
    assert parse("1 (2)x{r} 3", 3) == parse("1 2x{r} 3", 3)
    with pytest.raises(ScheduleError, match="value of"):
        plain(4).applications(2)
    assert len(parse("(((1x{r})x{r})x{r})x2", 1).applications(3)) == 54


def test_passes_and_where_they_begin():
    def describe(text, layers):
        return [(a.pass_, a.enters_pass) for a in parse(text, layers).applications()]

    assert describe("1..2 1..2", 2) == [(1, False), (1, False), (2, True), (2, False)]
    assert describe("1x3", 1) == [(1, False), (2, True), (3, True)]
    assert describe("1..3 2", 3) == [(1, False)] * 3 + [(2, True)]
    assert describe("1:attn 1:mlp 1:attn", 1) == [(1, False), (1, False), (2, True)]
    assert describe("1:attn 1", 1) == [(1, False), (2, True)]
    assert describe("1x2 2x2", 2) == [(1, False), (2, True), (1, False), (2, True)]
    assert describe("2 1 2 1", 2) == [(1, False), (1, False), (2, True), (2, True)]


def test_application_says_what_runs():
    whole, mixer = parse("1 1:attn", 1).applications()
    assert whole == Application(index=0, layer=1, part="both", pass_=1, enters_pass=False)
    assert whole.attn and whole.mlp and whole.sublayers == ("attn", "mlp")
    assert mixer.attn and not mixer.mlp and mixer.sublayers == ("attn",) and str(mixer) == "1:attn"


def test_depth_and_unique_layers():
    applications = parse("1..8 1..4:attn 4", 9).applications()
    assert effective_depth(applications) == 11.0 and unique_layers(applications) == 8
    assert effective_depth(parse("1:mlp", 1).applications()) == 0.5


# A naive twin: a generated tree is printed with random spacing and expanded by plain recursion, sharing no code with the parser.
part = st.sampled_from(["both", "attn", "mlp"])
leaf = st.tuples(st.integers(1, LAYERS), st.integers(0, 3), part, st.sampled_from([1, 1, 2, 3, "r"]))
tree = st.recursive(
    leaf, lambda inner: st.tuples(st.lists(inner, min_size=1, max_size=3), part, st.sampled_from([1, 1, 2, "r"])), max_leaves=8
)
trees = st.lists(tree, min_size=1, max_size=4)


def limited(node, outer="both"):
    """The tree with conflicting parts taken out: a part inside a limited group follows the group."""
    if len(node) == 4:
        first, span, own, times = node
        return first, min(first + span, LAYERS), own if outer == "both" else outer, times
    inner, own, times = node
    own = own if outer == "both" else outer
    return [limited(item, own) for item in inner], own, times


def text_of(node, draw):
    suffix = lambda own, times: "".join(  # noqa: E731
        draw(st.permutations(["" if own == "both" else f":{own}", "" if times == 1 and draw(st.booleans()) else f"x{{{times}}}"]))
    ).replace("{1}", "1").replace("{2}", "2").replace("{3}", "3")  # fmt: skip
    space = lambda least: " " * draw(st.integers(least, 2))  # noqa: E731
    if len(node) == 4:
        first, last, own, times = node
        body = str(first) if first == last and draw(st.booleans()) else f"{first}..{last}"
        if (".." in body and times != 1) or draw(st.booleans()):
            return f"({space(0)}{body}{space(0)}){suffix(own, times)}"
        return body + suffix(own, times).replace("x1", "")
    inner, own, times = node
    return "(" + space(0) + space(1).join(text_of(item, draw) for item in inner) + space(0) + ")" + suffix(own, times)


def expand(node, passes):
    if len(node) == 4:
        first, last, own, times = node
        once = [(layer, own) for layer in range(first, last + 1)]
    else:
        inner, own, times = node
        once = [step for item in inner for step in expand(item, passes)]
        once = [(layer, own if own != "both" else mine) for layer, mine in once]
    return once * (passes if times == "r" else times)


@given(trees, st.integers(1, 3), st.data())
def test_round_trip_and_expansion_equal_a_naive_twin(trees, passes, data):
    trees = [limited(node) for node in trees]
    schedule = parse("  ".join(text_of(node, data.draw) for node in trees), LAYERS)
    again = parse(schedule.text, LAYERS)
    assert again == schedule and again.text == schedule.text and schedule.free == ("{r}" in schedule.text)
    expected = [step for node in trees for step in expand(node, passes)]
    if len(expected) > 4096:
        with pytest.raises(ScheduleError, match="at most 4,096"):
            schedule.applications(passes)
        return
    applications = schedule.applications(passes if schedule.free else None)
    assert [(a.layer, a.part) for a in applications] == expected
    assert [a.index for a in applications] == list(range(len(expected)))
    assert applications == again.applications(passes if schedule.free else None)
    for place, a in enumerate(applications):
        before = [sum(sub in b.sublayers and b.layer == a.layer for b in applications[:place]) for sub in a.sublayers]
        assert a.pass_ == 1 + max(before)
    assert effective_depth(applications) == sum(len(a.sublayers) for a in applications) / 2


@given(st.text(alphabet="0123456789.x:()[]{},r attnmlp-", max_size=40))
def test_any_text_parses_or_names_a_column(text):
    try:
        schedule = parse(text, LAYERS)
    except ScheduleError as error:
        assert 1 <= error.column <= len(text) + 1 and error.rule and error.fix
    else:
        assert parse(schedule.text, LAYERS) == schedule
