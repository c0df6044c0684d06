"""Expressions and conditions on given numbers: Kleene's logic by brute force, margins, Fieller's ratios, what is clear."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostinato.claims import parse_condition, parse_expression
from ostinato.judge.evaluate import Truth, all_of, any_of, decide, estimate, evaluate
from ostinato.judge.fieller import ratio_over_documents, ratio_over_seeds
from ostinato.judge.value import DOCUMENTS, SEEDS, Value, over_units


@pytest.fixture(scope="session")
def truth(numbers):
    return lambda text, **given: decide(parse_condition(text), numbers(**given), lambda _: Truth(None))


# --- Kleene


@st.composite
def trees(draw, depth=3):
    """("and" | "or", parts), ("not", part) or a place in a list of atoms; every atom stands once."""
    count = itertools.count()

    def build(left):
        kind = draw(st.sampled_from(["atom", "and", "or", "not"])) if left else "atom"
        if kind == "atom":
            return next(count)
        parts = [build(left - 1) for _ in range(1 if kind == "not" else draw(st.integers(1, 3)))]
        return kind, parts

    tree = build(depth)
    return tree, draw(st.lists(st.sampled_from([True, False, None]), min_size=27, max_size=27))


def by_kleene(tree, atoms):
    if isinstance(tree, int):
        return Truth(atoms[tree], reason="" if atoms[tree] is not None else "why")
    parts = [by_kleene(part, atoms) for part in tree[1]]
    return ~parts[0] if tree[0] == "not" else {"and": all_of, "or": any_of}[tree[0]](parts)


def by_python(tree, atoms):
    if isinstance(tree, int):
        return atoms[tree]
    parts = [by_python(part, atoms) for part in tree[1]]
    return not parts[0] if tree[0] == "not" else all(parts) if tree[0] == "and" else any(parts)


def atoms_of(tree):
    return [tree] if isinstance(tree, int) else [atom for part in tree[1] for atom in atoms_of(part)]


@given(trees())
def test_it_holds_where_whatever_is_unknown_changes_nothing(drawn):
    tree, atoms = drawn
    unknown = [place for place in atoms_of(tree) if atoms[place] is None][:8]
    found = by_kleene(tree, atoms)
    if len(unknown) < 8:
        completions = [dict(zip(unknown, values, strict=True)) for values in itertools.product([True, False], repeat=len(unknown))]
        said = {by_python(tree, [filled.get(place, value) for place, value in enumerate(atoms)]) for filled in completions}
        assert found.holds == (said.pop() if len(said) == 1 else None)
    assert (found.holds is None) <= (found.reason == "why")


@given(st.lists(st.tuples(st.sampled_from([True, False, None]), st.booleans(), st.floats(0, 1)), min_size=1, max_size=5))
def test_or_is_the_dual_of_and(parts):
    given_parts = [Truth(*part) for part in parts]
    one, other = ~any_of(given_parts), all_of(~part for part in given_parts)
    assert (one.holds, one.clear, one.p) == (other.holds, other.clear, other.p)


def test_what_decided_says_how_sure():
    sure_one, unsure = Truth(True, True, 0.01), Truth(True, False, 0.3, reason="noise")
    both = all_of([sure_one, unsure])
    assert (both.holds, both.clear, both.p, both.reason) == (True, False, 0.3, "noise")
    either = any_of([sure_one, unsure, Truth(False, True, 0.0)])  # that which is false supports nothing, however exact
    assert (either.holds, either.clear, either.p) == (True, True, pytest.approx(0.03))
    assert any_of([unsure, unsure, unsure, unsure]).p == 1.0
    assert all_of([sure_one, Truth(True, False, None)]).p is None and any_of([sure_one, Truth(True, False, None)]).p == 0.02
    assert any_of([sure_one, Truth(None, False, None, reason="not run")]).holds is True
    assert all_of([~sure_one, Truth(None, False, None, reason="not run")]).holds is False
    assert all_of([sure_one, Truth(None, False, None, reason="not run")]).reason == "not run"
    assert all_of([]).holds is True and any_of([]).holds is False


# --- comparisons


@pytest.mark.parametrize("text, holds, margin", [
    ("gain(a) >= 0.02", True, 0.01), ("gain(a) > 0.04", False, -0.01), ("gain(a) <= 0.04", True, 0.01), ("gain(a) < 0.02", False, -0.01),
    ("0.02 <= gain(a)", True, 0.01), ("0.02 > gain(a)", False, -0.01), ("gain(a) > gain(b)", True, 0.01),
    ("gain(a) < gain(b)", False, -0.01),
    ("2 * gain(a) - gain(b) > 0.05", False, -0.01), ("abs(gain(a) - gain(b)) <= 0.02", True, 0.01),
])  # fmt: skip
def test_a_comparison_and_by_how_much(truth, sure, text, holds, margin):
    found = truth(text, a=sure(0.03), b=sure(0.02))
    (clause,) = found.clauses
    assert found.holds is holds and clause.margin == pytest.approx(margin) and clause.text == str(parse_condition(text))
    ends = clause.interval_documents
    assert ends is None or ends[0] <= clause.margin <= ends[1]
    assert all(value == pytest.approx(margin, abs=3e-4) for value in clause.seeds.values())


def test_bands_and_orderings_are_several_comparisons(truth, sure):
    band = truth("0.01 <= gain(a) <= 0.02", a=0.03)
    assert band.holds is False and band.clear and [clause.holds for clause in band.clauses] == [True, False]
    order = truth("gain(a) > gain(b) > gain(c)", a=0.03, b=0.02, c=sure(0.0199, 0.01))
    assert order.holds is True and not order.clear and "holds 0" in order.reason


def test_not_worse_by_more_than(truth):
    assert truth("gain(a) not worse than gain(b) by more than 0.003", a=0.018, b=0.02).holds is True
    assert truth("gain(a) not worse than gain(b) by more than 0.003", a=0.016, b=0.02).holds is False
    assert truth("gain(a) within 0.003 of gain(b)", a=0.018, b=0.02).holds is True
    assert truth("gain(a) within 0.003 of gain(b)", a=0.016, b=0.02).holds is False


def test_one_clause_that_is_not_estimable_leaves_the_others(truth):
    found = truth("gain(a) / gain(b) >= 0.5 or gain(a) > 0", a=0.03, b=-0.02)
    assert found.holds is True and found.clauses[0].holds is None and "opposite sign" in found.clauses[0].reason
    found = truth("gain(a) > 0 and gain(b) > 0", a=0.03, b="b did not run")
    assert found.holds is None and found.reason == "b did not run" and found.clauses[1].left is None


# --- ratios


def two_gains(seed, level):
    random = np.random.default_rng(seed)
    sizes, keys = random.integers(20, 80, 30), np.arange(30, dtype=np.uint64)
    shared = random.normal(level, 0.4, 30)
    sums = [(share * shared + random.normal(0, 0.2, 30)) * sizes for share in (0.6, 1.0)]
    seeds = [{number: total.sum() / sizes.sum() + random.normal(0, 0.02) for number in (1, 2, 3, 4)} for total in sums]
    seeds = [{number: value - np.mean(list(each.values())) + total.sum() / sizes.sum() for number, value in each.items()}
             for each, total in zip(seeds, sums, strict=True)]  # fmt: skip
    values = [over_units(keys, total, sizes, each, "nats/token", "document") for total, each in zip(sums, seeds, strict=True)]
    return sums, sizes, seeds, values


@given(st.integers(0, 500), st.floats(0.1, 1.2), st.sampled_from([1.0, 0.4, -1.0]))
def test_a_ratio_is_fiellers(numbers, seed, border, level):
    sums, sizes, seeds, (top, bottom) = two_gains(seed, level)
    node = parse_condition(f"gain(a) / gain(b) >= {border!r}")
    found = decide(node, numbers(a=top, b=bottom), lambda _: Truth(None))
    (clause,) = found.clauses
    if clause.holds is None:
        return
    documents, over = ratio_over_documents(sums[0], sums[1], sizes), ratio_over_seeds(*seeds)
    assert clause.holds == (documents.point >= border) and clause.margin == pytest.approx(documents.point - border)
    assert clause.clear == all(one.bounded and not one.holds(border) for one in (documents, over))
    for exact, ends in ((documents, clause.interval_documents), (over, clause.interval_seeds)):
        wanted = (exact.low - border, exact.high - border) if exact.bounded else None
        assert ends == (wanted and pytest.approx(wanted, rel=1e-9, abs=1e-11))


def test_a_ratio_turned_around_has_its_interval_turned(numbers):
    sums, sizes, _, (top, bottom) = two_gains(1, 1.0)
    both = numbers(a=top, b=bottom)
    below = decide(parse_condition("gain(a) / gain(b) < 0.9"), both, lambda _: Truth(None)).clauses[0]
    above = decide(parse_condition("0.9 <= gain(a) / gain(b)"), both, lambda _: Truth(None)).clauses[0]
    exact = ratio_over_documents(sums[0], sums[1], sizes)
    assert below.interval_documents == pytest.approx((0.9 - exact.high, 0.9 - exact.low)) and below.margin == -above.margin
    assert above.interval_documents == pytest.approx((exact.low - 0.9, exact.high - 0.9))
    assert below.seeds == {seed: pytest.approx(-value) for seed, value in above.seeds.items()}


class Drawn:
    """Numbers by seed alone: {arm: {seed: its loss}}, compared with `plain`."""

    reference = "plain"

    def __init__(self, losses):
        self.losses, self.arms = losses, tuple(losses)

    def value(self, term, seeds=None):
        mine = self.losses[term.arm]
        found = {seed: self.losses["plain"][seed] - loss if term.name == "gain" else loss for seed, loss in mine.items()
                 if seeds is None or seed in seeds}  # fmt: skip
        mean = sum(found.values()) / len(found)
        return Value(mean, {seed: each - mean for seed, each in found.items()}, unit="nats/token")


def clear_of(text, losses_of, studies=600):
    """How often the condition holds and is clear, as a share."""
    node = parse_condition(text)
    found = [decide(node, Drawn(losses_of()), lambda _: Truth(None)) for _ in range(studies)]
    return sum(bool(truth.holds and truth.clear) for truth in found) / studies


@pytest.mark.parametrize("text", ["loss(b) < loss(a)", "gain(b) > gain(a)"])
def test_identical_arms_are_as_seldom_told_apart_where_one_lacks_a_seed(text):
    random = np.random.default_rng(1)

    def losses():
        seed, loop, own = random.normal(0, [[0.02], [0.01], [0.001]], (3, 4))
        a, b, plain = 3 + seed + loop + own, 3 + seed + loop + random.normal(0, 0.001, 4), 3 + seed + random.normal(0, 0.001, 4)
        return {"plain": dict(enumerate(plain)), "a": dict(enumerate(a)), "b": dict(enumerate(b[:3]))}

    assert clear_of(text, losses) <= 0.05  # 0.34 and 0.17, were each over its own seeds


def test_a_ratio_over_what_is_not_told_from_0_is_not_clear():
    random = np.random.default_rng(2)

    def losses():
        return {"plain": {1: 0.0, 2: 0.0}, "a": dict(enumerate(-random.normal(1, 0.001, 2), 1)),
                "b": dict(enumerate(-random.normal(0, 0.1, 2), 1))}  # fmt: skip

    assert clear_of("gain(a) / gain(b) >= 0.6", losses) <= 0.045  # 0.10, were it told by gain(a) - 0.6 gain(b) alone; 0.025 is the truth
    two = Drawn({"plain": {1: 0.0, 2: 0.0}, "a": {1: -1.0, 2: -1.001}, "b": {1: -0.3, 2: -0.4}})
    for text in ("gain(a) / gain(b) >= 0.6", "1 - gain(a) / gain(b) < 0.4", "gain(a) / gain(b) > 0.1 * gain(b)"):
        found = decide(parse_condition(text), two, lambda _: Truth(None))
        assert found.holds and not found.clear and found.p > 0.05, text
        assert "the 95% interval of its divisor over seeds (2 seeds) holds 0" in found.reason
    (clause,) = decide(parse_condition("gain(a) / gain(b) >= 0.6"), two, None).clauses
    assert clause.seeds == pytest.approx({1: 1 / 0.3 - 0.6, 2: 1.001 / 0.4 - 0.6})  # the ratios themselves, not to first order


def test_an_estimate_has_its_intervals(numbers):
    _, _, _, (top, bottom) = two_gains(2, 1.0)
    both = numbers(a=top, b=bottom)
    ratio, plain = estimate(parse_expression("gain(a) / gain(b)"), both), estimate(parse_expression("gain(a)"), both)
    assert ratio.ranges.keys() == plain.ranges.keys() == {DOCUMENTS, SEEDS} and ratio.interval == ratio.ranges[DOCUMENTS]
    interval = top.interval(DOCUMENTS)
    assert plain.interval == pytest.approx((interval.low, interval.high)) and plain.value.unit == "nats/token"
    turned = estimate(parse_expression("-(gain(a) / gain(b))"), both)
    assert turned.interval == pytest.approx((-ratio.interval[1], -ratio.interval[0]))


def test_every_form_of_expression(numbers, sure):
    both = numbers(a=sure(0.03), b=sure(0.02))
    for text, wanted in (("max(gain(a), gain(b)) - min(gain(a), gain(b))", 0.01), ("-gain(a) * 2 / 4", -0.015), ("abs(-gain(a))", 0.03),
                         ("43% + 0.5", 0.93)):  # fmt: skip
        assert evaluate(parse_expression(text), both).point == pytest.approx(wanted)
