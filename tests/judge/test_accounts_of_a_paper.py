"""The accounts of the loop2 paper from its published losses: which arms they are of comes from our study, the numbers from the paper."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ostinato.judge.accounts import all_divisions
from ostinato.judge.contrast import gain, of_values
from ostinato.judge.frontier import frontier
from ostinato.judge.interactions import interaction, quadruples
from ostinato.judge.parts import Division, parts_of_gain
from ostinato.judge.rates import rate, steps
from ostinato.judge.shares import is_control, largest_control, share
from ostinato.judge.value import Value
from ostinato.ledger import account
from ostinato.study import load_study, vocab

GOLDEN = Path(__file__).parents[3] / "shared" / "golden" / "loop2.json"
pytestmark = pytest.mark.skipif(not GOLDEN.exists(), reason="the published numbers are not here")


@pytest.fixture(scope="module")
def paper():
    """Published numbers, and a contrast of the losses in bits a byte; base8 stands for the paper's reference checkpoint."""
    published = json.loads(GOLDEN.read_text())
    losses = {one["arm"]: one["val_bpb"] for one in published["arms"]} | {"base8": published["reference"]["val_bpb"]}
    return published["derived"], of_values({arm: Value(bpb, unit="bits/byte") for arm, bpb in losses.items()}), losses


@pytest.fixture(scope="module")
def study():
    return load_study("loop2")


@pytest.fixture(scope="module")
def ledgers(study):
    return [account(arm, vocab(arm.data.tokenizer)) for arm in study.arms]


def test_shares_are_of_the_largest_control(paper, ledgers):
    derived, contrast, _ = paper
    whole = largest_control(ledgers, "base8")
    assert whole == "l16", "of l9, l12, w10 and l16; a bigram table is no size, and twice the tokens is another budget"
    found = {arm: share(gain(contrast, arm, "base8"), gain(contrast, whole, "base8")).point for arm in ("loop2", "tieattn16", "rr1")}
    assert found["loop2"] == pytest.approx(derived["loop2_share_of_l16_gain"], abs=0.01)
    assert found["tieattn16"] == pytest.approx(derived["tieattn16_share_of_l16"], abs=0.01)
    assert found["rr1"] < 0, "an arm that loses has a share below 0"


def test_parts_are_found_from_schedules(study):
    found = {(one.whole, one.base, one.parts) for one in all_divisions(study.arms)}
    halves = {("loop2", "base8", pair) for pair in (("loop2_attn", "loop2_mlp"), ("rr_prefix", "rr_suffix"))}
    assert halves <= found
    assert all(one in halves or {"rr_inplace", "rr1"} & set(one[2]) or "rr_identity" in one[2] for one in found)


def test_sums_of_parts(paper):
    derived, contrast, _ = paper
    for parts, total, part in ((("loop2_attn", "loop2_mlp"), "sum_of_sublayer_passes", "sublayer_sum_share"),
                               (("rr_prefix", "rr_suffix"), "sum_of_halves", "halves_sum_share")):  # fmt: skip
        found = parts_of_gain(contrast, Division("loop2", "base8", parts))
        assert found.total.point == pytest.approx(-derived[total], abs=1e-5)
        assert found.share.point == pytest.approx(derived[part], abs=0.01)
        assert found.left.point == pytest.approx(found.whole.point - found.total.point)


def test_rates_both_ways(paper, ledgers):
    derived, contrast, _ = paper
    (base,) = (one for one in ledgers if one.name == "base8")
    controls = [base.name, *(one.name for one in ledgers if is_control(one, base))]
    found = {(one.way, one.small, one.large): rate(contrast, one) for one in steps(ledgers, "base8", controls)
             if {one.small, one.large} <= set(paper[2])}  # fmt: skip
    published = derived["rate_e3_bpb_per_M"]

    def per_million(*key):
        return 1e3 * found[key].per_million.point

    for arm in ("l9", "l12", "l16", "w10", "ng2_in", "tieattn16"):
        assert per_million("added", "base8", arm) == pytest.approx(published[arm], abs=0.01), arm
    assert per_million("deleted", "tieattn16", "l16") == pytest.approx(published["tieattn16_from_l16_per_tied_M"], abs=0.01)
    assert per_million("marginal", "l12", "l16") == pytest.approx(published["l12_to_l16_marginal"], abs=0.01)
    assert found["added", "base8", "loop2"].per_million is None, "sixteen scalars are no parameters to speak of"
    each = [found["added", "base8", arm].per_flop.point for arm in ("loop2", "l16")]
    assert each[0] / each[1] == pytest.approx(0.43, abs=0.01)
    deleted = {(small, large) for way, small, large in found if way == "deleted"}
    assert {("loop2", "l16"), ("loop2", "tieattn16"), ("loop2", "loop2_ng"), ("rr1", "l9"), ("rr_prefix", "l12")} <= deleted
    assert not {("loop2", "l16_ng"), ("tieattn16", "l16_ng"), ("base8", "ng2_in")} & deleted, "one thing is deleted, not from the reference"


def test_what_a_table_gains_on_other_arms(paper, study):
    derived, contrast, _ = paper
    found = {one.both: one for one in quadruples(study.arms, ["base8"])}
    assert [found[arm].changed[1] for arm in ("loop2_ng", "l16_ng")] == [("bigram table",)] * 2
    assert (found["loop2_ng"].first, found["loop2_ng"].second) == ("loop2", "ng2_in")
    for both, said in (("loop2_ng", "table_share_on_loop2"), ("l16_ng", "table_share_on_l16")):
        assert interaction(contrast, found[both]).on_first.point == pytest.approx(derived[said], abs=0.01)
    one = interaction(contrast, found["l16_ng"])
    assert one.value.point == pytest.approx(0.04236 - 0.03328 - 0.01319)


def test_who_is_dominated(paper, ledgers):
    _, contrast, losses = paper
    here = [one for one in ledgers if one.name in losses]
    found = {place.arm: place for place in frontier("FLOPs", {one.name: one.flops_total for one in here}, contrast).places}
    assert found["loop2"].by == "l16_ng" and found["l12"].by is None and found["rr_prefix"].by == "l12"
    by_params = frontier("parameters", {one.name: one.params_total for one in here}, contrast)
    assert [place.arm for place in by_params.line] == ["loop2", "l12", "tieattn16", "l16", "l16_ng"]
