"""Scores of heads: against loops over single queries and keys, at chance where attention is even, and the same whatever the batch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ostinato.data.targets import targets
from ostinato.errors import OstinatoError
from ostinato.measure import heads
from ostinato.measure.attention import watch_attention
from ostinato.measure.context import Context
from ostinato.measure.heads import SCORES, Tally, repeated, take, tally
from ostinato.measure.subject import Ours
from ostinato.measure.windows import Windows
from ostinato.study.records import Evaluate, Measure

MODELS = {
    "twice, grouped": {"schedule": "1..2 1..2:attn", "heads": 4, "kv_heads": 2, "attn_gate": "head"},
    "windows": {"layers": 3, "windows": {"pattern": "SSL", "short": 7}, "positions": "alibi"},
    "hybrid": {"layers": "gdn gqa", "schedule": "(1..2)x2"},
}


def loops(decoder, windows):
    """The naive twin: whole rows of weights by softmax in float64, keys looked at one by one."""
    found = {}
    tokens = windows.tokens_BT.tolist()
    documents = windows.documents_BT.tolist() if windows.documents_BT is not None else [[0] * len(row) for row in tokens]

    def see(seen):
        heads_, per = seen.q_BHTE.shape[1], seen.q_BHTE.shape[1] // seen.k_BKTE.shape[1]
        mass, chance, count = np.zeros((heads_, 3)), np.zeros(3), np.zeros(3, int)
        for b, row in enumerate(tokens):
            for i in np.flatnonzero(windows.at_BT[b].numpy()).tolist():
                visible = [j for j in range(i + 1) if documents[b][j] == documents[b][i] and (not seen.window or i - j < seen.window)]
                kinds = [
                    [j for j in visible if j < i and j - 1 >= 0 and row[j - 1] == row[i] and documents[b][j - 1] == documents[b][j]],
                    [j for j in visible if j == i - 1],
                    [j for j in visible if j < i and row[j] == row[i]],
                ]
                for score, keys in enumerate(kinds):
                    count[score] += bool(keys)
                    chance[score] += len(keys) / len(visible)
                for head in range(heads_):
                    slope = 0.0 if seen.slopes_H is None else seen.slopes_H[head]
                    keys_SE = seen.k_BKTE[b, head // per, visible]
                    scores = keys_SE @ seen.q_BHTE[b, head, i] * seen.scale - slope * (i - torch.tensor(visible))
                    weights = dict(zip(visible, scores.softmax(0).tolist(), strict=True))
                    for score, keys in enumerate(kinds):
                        mass[head, score] += sum(weights[j] for j in keys)
        found[seen.application] = mass, chance, count

    watch_attention(decoder, windows.tokens_BT, windows.documents_BT, see)
    return found


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("model", MODELS)
def test_agrees_with_loops_over_queries_and_keys(small_model, small_decoder, model, masked):
    """On rows of few symbols, so that every kind of key is common, and with counted queries here and there."""
    decoder = small_decoder(small_model(**MODELS[model]), vocab=4, context=80)
    draw = torch.Generator().manual_seed(5)
    tokens = torch.randint(0, 4, (2, 71), generator=draw)
    counted = torch.rand(2, 71, generator=draw) < 0.6
    documents = (torch.rand(2, 71, generator=draw) < 0.06).cumsum(1) if masked else None
    windows = Windows(tokens, documents, counted, tokens[counted], np.arange(int(counted.sum())))
    ours, twin = tally(Ours(decoder), windows), loops(decoder, windows)
    assert ours.mass_HC.keys() == twin.keys()
    for index, (mass, chance, count) in twin.items():
        np.testing.assert_allclose(ours.mass_HC[index], mass, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(ours.chance_C[index], chance, rtol=1e-12)
        assert ours.count_C[index].tolist() == count.tolist() and ours.count_C[index].dtype == np.int64
    assert ours.error() < 1e-9 and (ours.mass_HC[min(twin)].sum(0) > 0).all()


def silent(decoder):
    """Every q is zero: attention is spread evenly over what is seen."""
    with torch.no_grad():
        for name, parameter in decoder.named_parameters():
            if ".attn.q." in name:
                parameter.zero_()
    return Ours(decoder)


def rows(taken, **wanted):
    return [row for row in taken.table.to_pylist() if all(row[key] == value for key, value in wanted.items())]


def test_on_the_probe_even_attention_scores_chance(small_model, small_decoder):
    """One key of each kind for each of 16 x 3 queries of the second time; the short window sees the one before alone."""
    decoder = small_decoder(small_model(positions="none", windows={"pattern": "SL", "short": 2}), vocab=9, context=8, bos=4)
    taken = take(silent(decoder), Context(Measure()))
    probe = repeated(Ours(decoder))
    assert probe.tokens_BT.shape == (16, 7) and (probe.tokens_BT[:, 0] == 4).all() and (probe.tokens_BT[:, 1:] != 4).all()
    assert torch.equal(probe.tokens_BT[:, 1:4], probe.tokens_BT[:, 4:]) and all(
        len(set(row)) == 3 for row in probe.wanted_N.view(16, 3).tolist()
    )
    for score in SCORES:
        for row in rows(taken, text="repeated", application=1, score=score):
            assert row["count"] == 48 and row["sum"] == pytest.approx(16 * (1 / 5 + 1 / 6 + 1 / 7)) == pytest.approx(row["chance"])
    assert [row["sum"] for row in rows(taken, application=0, score="previous")] == pytest.approx([24.0, 24.0])
    assert all(row["count"] == 0 == row["sum"] for score in ("induction", "duplicate") for row in rows(taken, application=0, score=score))
    assert taken.about["relative_error"] < 1e-9 and taken.about["period"] == 3 and taken.about["target_id"] is None


def test_a_head_that_looks_one_back_is_found(small_model, small_decoder):
    """Head 0 with q k = -100 (j - (i - 1))² + something that is the same for all keys; head 1 as it is."""
    decoder = small_decoder(small_model(positions="none", layers=1), vocab=9, context=8, bos=4)
    probe, found = repeated(Ours(decoder)), Tally()

    def sharpen(seen):
        place = torch.arange(seen.q_BHTE.shape[2]).double()
        seen.q_BHTE[:, 0], seen.k_BKTE[:, 0] = 0, 0
        seen.q_BHTE[:, 0, :, 0], seen.q_BHTE[:, 0, :, 1] = 200 * (place - 1) / seen.scale, -100 / seen.scale
        seen.k_BKTE[:, 0, :, 0], seen.k_BKTE[:, 0, :, 1] = place, place.square()
        found.add(probe, seen)

    watch_attention(decoder, probe.tokens_BT, None, sharpen)
    scores = found.mass_HC[0] / found.count_C[0]
    assert scores[0] == pytest.approx([0, 1, 0], abs=1e-6) and scores[1, 1] < 0.9


def test_real_windows_whatever_the_batch(decoder, small_text):
    """The windows hold about as many targets as asked for; sums do not depend on how they are cut."""
    wanted = targets(small_text, "validation", Evaluate(), 16)
    seen = []
    taken = [take(Ours(decoder), Context(Measure(targets=200), wanted, mask, batch, progress=lambda *at: seen.append(at)))
             for batch in (1, 90, 10**6) for mask in (False, True)]  # fmt: skip
    for other in taken[1:]:
        for name in ("sum", "chance", "count"):
            np.testing.assert_allclose(other.table[name], taken[0].table[name], rtol=1e-6, atol=1e-7)
    counts = {row["count"] for row in rows(taken[0], text="windows", score="previous")}
    assert len(counts) == 1 and 150 < counts.pop() <= 200
    assert taken[0].about["target_id"] == wanted.id and seen[-1][0] == seen[-1][1]
    assert len(taken[0].table) == 2 * 2 * 2 * 3  # texts, applications, heads, scores
    assert {tuple(row[key] for key in ("application", "layer", "pass")) for row in rows(taken[0])} == {(0, 1, 1), (1, 2, 1)}


def test_recurrent_applications_have_no_heads(small_model, small_decoder):
    hybrid = Ours(small_decoder(small_model(layers="gdn gqa", schedule="(1..2)x2"), vocab=30, context=8, bos=0))
    taken = take(hybrid, Context(Measure()))
    assert taken.about["recurrent"] == [0, 2] and {(row["application"], row["pass"]) for row in rows(taken)} == {(1, 1), (3, 2)}
    with pytest.raises(OstinatoError, match="no attention heads"):
        take(Ours(small_decoder(small_model(layers="2 x gdn"))), Context(Measure()))


@pytest.mark.parametrize("more", [{}, {"windows": {"pattern": "SL", "short": 40}}, {"positions": "alibi"}])
def test_products_in_bfloat16_stay_within_the_bound(small_model, small_decoder, more):
    decoder = small_decoder(small_model(**more), vocab=300, context=128, dtype=torch.float32, compute_dtype=torch.bfloat16, bos=0)
    taken = take(Ours(decoder), Context(Measure()))
    assert 1e-4 < taken.about["relative_error"] < heads.LARGEST_ERROR and taken.about["period"] == 63


def test_what_cannot_be_scored_is_refused(small_model, small_decoder, monkeypatch):
    with pytest.raises(OstinatoError, match="a context of 4"):
        take(Ours(small_decoder(small_model(), context=4)), Context(Measure()))
    genuine = heads.watch_attention

    def off(decoder, tokens, documents, see):
        genuine(decoder, tokens, documents, lambda seen: see(seen) if seen.y_BHTE.mul_(1.01) is not None else None)

    monkeypatch.setattr(heads, "watch_attention", off)
    with pytest.raises(OstinatoError, match=r"off by 0\.99%"):
        take(Ours(small_decoder(small_model())), Context(Measure()))
