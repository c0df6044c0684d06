"""Truncated backpropagation: which applications run without gradient, what that costs, and which models are refused it."""

from __future__ import annotations

import pytest

from ostinato.errors import StudyError
from ostinato.ledger import account
from ostinato.ledger.work import step_work
from ostinato.study.fingerprint import run_fingerprint
from ostinato.study.truncation import check, without_gradient

CORE = {"layers": 4, "schedule": "1 (2..3)x4 4", "inject": "linear"}


@pytest.mark.parametrize(("backprop", "cut"), [(None, 0), (1, 6), (2, 4), ("half", 4), (4, 0), (9, 0)])
def test_the_first_passes_are_without_gradient(small_model, backprop, cut):
    assert without_gradient(small_model(**CORE, backprop=backprop)) == frozenset(range(1, 1 + cut))


def test_half_of_an_odd_number_is_rounded_up_and_every_group_is_cut(small_model):
    model = small_model(layers=2, schedule="1x5 2x2", inject="linear", backprop="half")
    assert without_gradient(model) == {0, 1, 5}


def test_a_pass_without_gradient_costs_its_forward_pass(make_arm):
    """2 instead of 6 a parameter, 4 instead of 12 of attention's scores, and nothing is kept of it."""
    whole, cut = (account(make_arm(**CORE, backprop=backprop), 96) for backprop in (None, "half"))
    saved = sum(row.flops_forward for row in whole.applications if 1 <= row.index <= 4)
    assert whole.flops_per_token - cut.flops_per_token == 2 * saved
    assert cut.flops_forward_per_token == whole.flops_forward_per_token == whole.flops_per_token / 3
    assert cut.flops_total == cut.flops_per_token * cut.tokens
    assert cut.memory["activations"] < whole.memory["activations"] and cut.memory["weights"] == whole.memory["weights"]
    assert cut.memory["activations_checkpointed"] < whole.memory["activations_checkpointed"]
    work = [step_work(make_arm(**CORE, backprop=backprop), 96) for backprop in (None, "half")]
    matrices = sum(row.params for row in whole.applications if 1 <= row.index <= 4) - 4 * 2 * 64  # without norms
    assert work[0]["products"] - work[1]["products"] == 2 * whole.tokens_per_step * 2 * matrices
    assert work[1]["weights"] == work[0]["weights"]


def test_a_run_is_known_by_what_is_cut(make_arm):
    name = {key: run_fingerprint(make_arm(**CORE, backprop=key), 1, "data") for key in (None, 1, 2, "half", 4)}
    assert name["half"] == name[2] and name[None] == name[4] and len(set(name.values())) == 3


@pytest.mark.parametrize(("keys", "said"), [
    ({"inject": "none"}, "the layers before the group would not learn"),
    ({"inject": "add"}, "the layers before the group would not learn"),
    ({"inject": "none", "schedule": "(1..4)x2"}, "the embedding would not learn"),
    ({"schedule": "1 (2..3)x2 2..3:attn 4"}, "the mlp of layer 2 runs only in passes without gradient"),
])  # fmt: skip
def test_what_would_not_learn_is_refused(small_model, keys, said):
    with pytest.raises(StudyError, match=said):
        check(small_model(**{**CORE, "backprop": 1, **keys}))


@pytest.mark.parametrize("keys", [{}, {"inject": "add", "schedule": "(1..4)x2"}, {"inject": "none", "backprop": 4}, {"schedule": None}])
def test_what_learns_is_not(small_model, keys):
    check(small_model(**{**CORE, "backprop": 1, **keys}))
