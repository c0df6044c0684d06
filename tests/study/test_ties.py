"""Which layer owns the parameters of a tied sublayer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostinato.errors import StudyError
from ostinato.study.ties import resolve

GQA = ("gqa",) * 16


def test_a_range_is_tied_layer_by_layer():
    assert resolve({"9..16:attn": "1..8:attn"}, GQA) == {(layer, "attn"): layer - 8 for layer in range(9, 17)}


def test_one_layer_may_serve_a_range_and_both_sublayers_at_once():
    assert resolve({"2..3": "1"}, GQA) == {(2, "attn"): 1, (3, "attn"): 1, (2, "mlp"): 1, (3, "mlp"): 1}


def test_chains_end_at_the_owner():
    assert resolve({"2:mlp": "1:mlp", "3:mlp": "2:mlp", "4:mlp": "3:mlp"}, GQA) == {(layer, "mlp"): 1 for layer in (2, 3, 4)}
    assert resolve({"2..16:attn": "1..15:attn"}, GQA) == {(layer, "attn"): 1 for layer in range(2, 17)}


def test_mlps_are_tied_across_kinds_and_mixers_are_not():
    assert resolve({"2:mlp": "1:mlp"}, ("gdn", "gqa")) == {(2, "mlp"): 1}
    with pytest.raises(StudyError, match="gqa and layer 1 is gdn"):
        resolve({"2:attn": "1:attn"}, ("gdn", "gqa"))


@pytest.mark.parametrize(
    ("tie", "part"),
    [
        ({"3:attn": "3:attn"}, "itself"),
        ({"3:attn": "2:attn", "2:attn": "3:attn"}, "circle"),
        ({"2:mlp": "4:mlp", "3:mlp": "2:mlp", "4:mlp": "3:mlp"}, "circle"),
        ({"17:attn": "1:attn"}, "outside"),
        ({"1:attn": "0:attn"}, "outside"),
        ({"5..4:attn": "1:attn"}, "outside"),
        ({"3:attn": "1:mlp"}, "another sublayer"),
        ({"3": "1:mlp"}, "another sublayer"),
        ({"3..5:attn": "1..2:attn"}, "names 3 layers"),
        ({"3:attn": "1:attn", "2..4:attn": "1:attn"}, "already tied"),
        ({"3:moe": "1:moe"}, "not a layer"),
        ({"x": "1"}, "not a layer"),
        ({"9" * 30: "1"}, "not a layer"),
    ],
)
def test_ties_that_make_no_sense_are_refused(tie, part):
    with pytest.raises(StudyError, match=part) as caught:
        resolve(tie, GQA)
    assert caught.value.rule
    assert caught.value.fix


@given(st.dictionaries(st.integers(1, 8), st.integers(1, 8), max_size=8))
def test_an_owner_is_never_tied_itself(direct):
    try:
        owners = resolve({f"{layer}:attn": f"{owner}:attn" for layer, owner in direct.items()}, GQA)
    except StudyError:
        reached = {layer: set() for layer in direct}
        for layer in direct:
            at = layer
            while at in direct and at not in reached[layer]:
                reached[layer].add(at)
                at = direct[at]
        assert any(
            direct[layer] == layer or layer in reached[direct[layer]]
            for layer in direct
            if direct[layer] in direct or direct[layer] == layer
        )
    else:
        assert set(owners) == {(layer, "attn") for layer in direct}
        assert not set(owners.values()) & set(direct)
