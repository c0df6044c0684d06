"""Names of token classes: what each has in it, which share out all targets, and what is said of a name that is none."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostinato.claims.classes import FAMILIES, MATCHES, named_class, named_classes, typed
from ostinato.data.classes import TokenClasses
from ostinato.errors import StudyError


def made(match, in_view=None, count=None, position=None, shown=None):
    ones = np.ones(len(match), np.int32)
    given = (match, match if in_view is None else in_view)
    return TokenClasses(*(np.array(one, np.int8) for one in given),
                        *(ones if one is None else np.array(one) for one in (count, position, shown)))  # fmt: skip


levels = st.sampled_from((-1, *MATCHES))
rows = st.lists(st.tuples(levels, levels, st.integers(0, 10**7), st.integers(1, 10**5), st.integers(1, 10**5)), min_size=1, max_size=30)


@given(rows)
def test_every_family_shares_out_the_targets(drawn):
    match, other, count, position, shown = zip(*drawn, strict=True)
    known = made(match, np.minimum(match, other), count, position, shown)
    for family in FAMILIES.values():
        members = np.stack([one.of(known) for one in family.classes])
        assert (members.sum(0) == 1).all()


def names(known, family):
    return [next(one.name for one in FAMILIES[family].classes if one.of(known)[place]) for place in range(len(known))]


def test_the_classes_of_one_target_each():
    known = made([-1, 0, 1, 8, 32], [-1, -1, 1, 2, 0], [0, 9, 10, 999, 2 * 10**6], [1, 3, 4, 1023, 1024], [1, 3, 4, 16383, 16384])
    assert names(known, "R") == ["new", "tok-repeat", *["bigram-repeat"] * 3]
    assert names(known, "k") == ["k = 0", "k = 0", "k = 1", "k = 8", "k = 32"]
    assert names(known, "k in view") == ["k in view = 0", "k in view = 0", "k in view = 1", "k in view = 2", "k in view = 0"]
    assert names(known, "view") == ["no match", "no match", "match in view", "longer match out of view", "match out of view"]
    assert names(known, "count") == ["count 0", "count 1–9", "count 10–99", "count 100–999", "count 1,000,000 or more"]
    assert names(known, "position") == ["position 1–3", "position 1–3", "position 4–15", "position 256–1,023", "position 1,024–4,095"]
    assert names(known, "shown")[3:] == ["shown 4,096–16,383", "shown 16,384 or more"]


def test_bigram_repeat_equals_k_of_one_or_more():
    known = made([-1, 0, *MATCHES])
    repeat, longer = named_classes("bigram-repeat, k >= 1")
    assert (repeat.of(known) == longer.of(known)).all() and repeat.of(known).sum() == len(MATCHES) - 1


@pytest.mark.parametrize(("text", "name", "members"), [
    ("k >= 8", "k ≥ 8", [8, 32]), ("k≥8", "k ≥ 8", [8, 32]), ("k > 8", "k > 8", [32]), ("k<8", "k < 8", [-1, 0, 1]),
    ("k <= 8", "k ≤ 8", [-1, 0, 1, 8]), ("k == 1", "k = 1", [1]), ("R = new", "new", [-1]),
    ("view=match in view", "match in view", [1, 8, 32]),
    ("count < 1k", "count < 1,000", [-1, 0, 1, 8, 32]), ("  k  in  view >=  32 ", "k in view ≥ 32", [32]),
])  # fmt: skip
def test_conditions(text, name, members):
    (found,) = named_classes(text)
    known = made([-1, 0, 1, 8, 32])
    assert found.name == name and known.match[found.of(known)].tolist() == members


def test_lists_and_texts_name_each_class_once():
    assert [one.name for one in named_classes("R, k >= 2,new, count < 1_000")] == ["new", "tok-repeat", "bigram-repeat", "k ≥ 2",
                                                                                   "count < 1,000"]  # fmt: skip
    assert named_classes(["count 1,000–9,999", "k"]) == (FAMILIES["count"].classes[4], *FAMILIES["k"].classes)


@pytest.mark.parametrize(("text", "what", "fix"), [
    ("tok-repaet", "no token class 'tok-repaet'", "did you mean tok-repeat?"), ("counts < 3", "no token class", "did you mean count?"),
    ("", "no token class ''", "write R"), ("k >= 3", "no match has the length 3", "lengths are 0, 1, 2"),
    ("k >= many", "'many' is not a number", "k >= 8"), ("R = old", "no token class 'R = old'", "new, tok-repeat, bigram-repeat"),
    ("R > new", "no token class 'R > new'", "the classes of R"), ("zzz", "no token class 'zzz'", "write R"),
])  # fmt: skip
def test_a_name_that_is_none(text, what, fix):
    with pytest.raises(StudyError) as caught:
        named_classes(text)
    assert what in caught.value.what and fix in caught.value.fix and "k >= 8" in caught.value.rule


@pytest.mark.parametrize("name", ["tok_repeat", "bigram-repeat", "k>=2", "k in view = 32", "count<1,000", "position 1-3",
                                  "shown 16,384 or more", "view = match in view", "R=tok_repeat"])  # fmt: skip
def test_the_typed_name_of_a_class_names_it(name):
    found = named_class(name)
    assert named_class(typed(found)) == found and typed(found).isascii()


def test_every_class_has_a_typed_name():
    for family in FAMILIES.values():
        for one in family.classes:
            assert named_class(typed(one)) == one == named_class(one.name)


def test_a_family_is_no_class_and_all_is_no_restriction():
    assert named_class("all") is None
    with pytest.raises(StudyError, match="R is a family of 3 classes") as caught:
        named_class("R")
    assert "new, tok-repeat" in caught.value.fix
