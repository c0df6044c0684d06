"""Each rule speaks when it should and is silent when it should be."""

from __future__ import annotations

import pytest

from ostinato.ledger import account, confounds


@pytest.fixture
def found(make_arm):
    def found(**arms):
        made = [make_arm(name, **{"layers": 4, **arm}) for name, arm in arms.items()]
        return confounds([account(arm, arm.data.tokenizer.bpe) for arm in made])

    return found


def about(sentences, *words):
    return [sentence for sentence in sentences if all(word in sentence for word in words)]


TWICE = {"schedule": "1..4 1..4"}
DEEP = {"layers": 8}


def test_a_clean_study_is_quiet_but_for_the_learning_rate(found):
    (only,) = found(plain={}, twice=TWICE, deep=DEEP)
    assert only.startswith("one learning rate, 0.02, for effective depths 4 to 8")
    assert found(plain={}, again={}) == []


def test_one_rate_a_depth_is_named_differently(found):
    sentences = found(plain={}, twice={**TWICE, "recipe": {"lr": 0.01}}, deep={**DEEP, "recipe": {"lr": 0.01}})
    assert not about(sentences, "effective depths") and about(
        sentences, "different learning rates", "0.02 in plain", "0.01 in twice and deep"
    )


def test_injection(found):
    assert about(
        found(plain={}, twice=TWICE, block={**TWICE, "inject": "add"}, deep=DEEP), "some looped arms only", "again in block, not in twice"
    )
    assert about(found(plain={}, block={**TWICE, "inject": "add"}, deep=DEEP), "injection comes with looping")
    assert about(found(plain={"inject": "add"}, deep=DEEP), "never happens in plain")
    assert not about(found(plain={}, twice=TWICE, deep=DEEP), "injection")


def test_kinds_of_injection_and_norms_of_passes(found):
    add, linear = {**TWICE, "inject": "add"}, {**TWICE, "inject": "linear"}
    noise = {**linear, "h0": "noise"}
    sentences = found(plain={}, add=add, linear=linear, noise=noise, deep=DEEP)
    assert about(sentences, "different injection", "add in add", "linear, h0 input in linear", "linear, h0 noise in noise")
    assert not about(found(plain={}, one=linear, other=linear, deep=DEEP), "different injection")
    assert not about(sentences, "noise changes several settings")
    assert about(found(plain={}, part={"schedule": "1..4 1..2", "inject": "linear"}, deep=DEEP), "never happens in part")
    assert not about(found(plain={}, part={"schedule": "1..4 1..2", "inject": "add"}, deep=DEEP), "never happens")
    normed = {**TWICE, "pass_norm": True}
    some = found(plain={}, twice=TWICE, normed=normed, deep=DEEP)
    assert about(some, "norm at the end of a pass in some looped arms only", "in normed, not in twice")
    assert about(found(plain={}, normed=normed, deep=DEEP), "norm at the end of a pass comes with looping")
    assert about(found(plain={"pass_norm": True}, deep=DEEP), "pass_norm", "never happens in plain")
    assert not about(found(plain={}, twice=TWICE, deep=DEEP), "norm at the end")


def test_residual_scaling(found):
    assert about(
        found(plain={}, twice={**TWICE, "residual_scaling": "effective"}, deep=DEEP),
        "residual scaling",
        "none in plain and deep",
        "effective in twice",
    )
    everywhere = found(
        **{name: {**arm, "residual_scaling": "effective"} for name, arm in {"plain": {}, "twice": TWICE, "deep": DEEP}.items()}
    )
    assert not about(everywhere, "residual scaling")


def test_unused_parameters(found):
    (sentence,) = about(found(plain={}, less={"schedule": "1..3"}), "no application uses")
    assert sentence.startswith("less has 65,664 parameters") and "more tensors" in sentence


def test_unlike_recipes(found):
    sentences = found(
        plain={},
        other={"data": {"tokenizer": {"bpe": 300}}},
        long={"recipe": {"tokens": 8192}},
        alibi={"positions": "alibi"},
        rows={"recipe": {"batch": 128}},
        masked={"data": {"document_mask": True}},
    )
    assert about(sentences, "different tokenizers", "BPE 300 in other", "bits per byte")
    assert about(sentences, "training tokens", "8,192 in long")
    assert about(sentences, "positions", "alibi in alibi")
    assert about(sentences, "different batch", "rows") and about(sentences, "different data", "masked")


def test_controls_of_equal_flops(found):
    assert not about(found(plain={}, twice=TWICE, deep=DEEP), "no untied control")
    assert about(found(plain={}, twice=TWICE), "no untied control", "for twice", "the nearest, plain,")
    assert about(found(twice=TWICE, thrice={"schedule": "(1..4)x3"}), "no untied arm to compare with")
    assert about(found(plain={}, tied={"layers": 8, "tie": {"5..8": "1..4"}}, twice=TWICE), "for tied and twice", "the nearest, plain,")
    assert about(found(plain={}, twice=TWICE, deep={**DEEP, "positions": "alibi"}), "no untied control", "for twice")


def test_a_shorter_budget_may_match_total_flops(found, make_arm):
    once, twice = (account(make_arm(layers=4, **arm), 1024).flops_per_token for arm in ({}, TWICE))
    longer = {"tokens": round(100_000 * twice / once)}
    sentences = found(plain={"recipe": longer}, short={**TWICE, "recipe": {"tokens": 100_000}}, twice={**TWICE, "recipe": longer})
    (sentence,) = about(sentences, "no untied control")
    assert "FLOPs for twice (" in sentence and "the nearest, plain," in sentence


def test_several_changes_at_once(found):
    wide = {"mlp": {"ratio": 8}, "value_embeddings": "all"}
    (sentence,) = about(found(plain={}, again={}, wide=wide), "wide changes several settings at once")
    assert sentence.endswith("even from the most similar arm (plain) the difference is in mlp and value_embeddings")
    assert about(found(plain={}, wide=wide), "plain and wide change several settings", "similar arm (wide for plain)")
    steps = found(plain={}, wide={"mlp": {"ratio": 8}}, both={"mlp": {"ratio": 8}, "value_embeddings": "all"})
    assert not about(steps, "several settings")


GRID = {
    f"d{width} r{r} C{budget}e17": {
        "d_model": width, "heads": width // 16, "layers": 2 + 8 // r, "recipe": {"tokens": 256 * (budget * width + r), "lr": width / 1000},
        **({"schedule": f"1 (2..{1 + 8 // r})x{r} {2 + 8 // r}", "inject": "linear", "pass_norm": True} if r > 1 else {}),
    }
    for width in (32, 48, 64, 80, 96) for r in (1, 2, 4) for budget in range(1, 1 + width // 32)
}  # fmt: skip
"""Of the widths below 64 there is one budget, so that no other arm has the same model."""


def test_a_grid_changes_passes_and_width_by_design(found):
    assert not about(found(**GRID), "several settings"), "layers follow from passes, heads from the width"
    deeper = {**GRID["d32 r2 C1e17"], "layers": 9, "schedule": "1 (2..8)x2 9"}
    assert about(found(plain=GRID["d32 r1 C1e17"], twice=deeper), "several settings at once", "layers and schedule")


def test_a_sentence_stays_short_however_many_arms_there_are(found):
    sentences = found(**GRID)
    assert max(map(len, sentences)) <= 260
    assert about(sentences, "injection comes with looping", "in again in all 18 looped arms")
    (tokens,) = about(sentences, "training tokens")
    assert tokens == "27 different numbers of training tokens, 8,448 to 74,752"
    (controls,) = about(sentences, "no untied control")
    assert "17 of the 18 arms that share parameters (d32 r2 C1e17, d32 r4 C1e17, d48 r2 C1e17, d48 r4 C1e17 and 13 more)" in controls
    assert about(sentences, "times as much") == [controls]
    (rates,) = about(sentences, "learning rates", "sets of")
    assert rates == "5 sets of learning rates: 0.032 to 0.096"
    one_seed = found(**{name: {**arm, "seeds": (1,)} for name, arm in GRID.items()})
    assert about(one_seed, "one seed only in every arm")


def test_rates_are_those_of_roles_that_the_arms_have(found):
    groups = {"head": {"lr": 0.004, "width_base": 32}, "bigram_table": {"lr": 0.5}}
    arms = {name: {**arm, "recipe": {**arm["recipe"], "lr": 0.02, "groups": groups}, "tie_embeddings": False} for name, arm in GRID.items()}
    (rates,) = about(found(**arms), "sets of learning rates")
    assert rates == "5 sets of learning rates: 0.02, head 0.002309 to 0.004"


def test_many_groups_are_counted_and_the_first_named(found):
    sentences = found(**{f"an arm of batch {rows}": {"recipe": {"batch": 64 * rows}} for rows in range(1, 40)})
    (batch,) = about(sentences, "different batch")
    assert batch.startswith("different batch: 1 rows of 64 in 1 arm; ") and batch.endswith(" more") and len(batch) < 220


def test_seeds(found):
    sentences = found(plain={"seeds": (1, 2)}, twice={**TWICE, "seeds": (1,)}, deep=DEEP)
    assert about(sentences, "one seed only in twice") and about(sentences, "different seeds", "1 in twice", "1, 2 in plain and deep")


def test_connections_at_the_rate_of_matrices(found):
    slow = {"streams": 2, "recipe": {"groups": {"connection": {"lr": 2e-4}}}}
    (said,) = about(found(plain={}, two={"streams": 2}, slow=slow), "hyper-connections")
    assert said.startswith("hyper-connections of two learn at 0.02 by AdamW")
