"""A decoder as a subject: watching changes no bit, what is watched is the stream, a skipped application adds nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from ostinato.measure.subject import Label, Ours

ROWS = torch.tensor([[0, 5, 2, 9, 5, 2, 7], [0, 3, 3, 1, 8, 8, 4]])
MODELS = {
    "plain": {},
    "twice with scalars": {"schedule": "1..2 1..2:attn 2", "application_scalars": True, "embedding_norm": True},
    "injected": {"schedule": "1 (2)x3", "inject": "linear", "pass_norm": True},
}


@pytest.fixture(params=MODELS)
def subject(request, small_model, small_decoder):
    return Ours(small_decoder(small_model(**MODELS[request.param]), context=12))


def test_watching_changes_no_bit_and_sees_every_application(subject):
    seen = []
    watched = subject.hidden(ROWS, watch=lambda index, x: seen.append((index, x.clone())))
    assert torch.equal(watched, subject.hidden(ROWS)) and torch.equal(watched, subject.decoder.hidden(ROWS))
    assert [index for index, _ in seen] == [None, *range(len(subject.labels))]
    torch.testing.assert_close(subject.readout(seen[-1][1]), subject.decoder(ROWS), rtol=0, atol=0)
    counted = torch.where(ROWS == 0, -1, ROWS)
    assert torch.equal(subject.losses(ROWS, counted), subject.decoder.losses(ROWS, counted))


def test_a_skipped_application_adds_nothing(subject):
    """As in a twin whose sublayers of that application give 0; all skipped, no sublayer has any say."""
    decoder = subject.decoder
    for index in range(len(subject.labels)):
        silent = [replace(own, attn=None, mlp=None) if place == index else own for place, own in enumerate(decoder.parts)]
        skipped = subject.hidden(ROWS, skip=frozenset({index}))
        assert torch.equal(skipped, decoder.hidden(ROWS, parts=silent)) and not torch.equal(skipped, decoder.hidden(ROWS))
    everything = frozenset(range(len(subject.labels)))
    before = subject.hidden(ROWS, skip=everything)
    with torch.no_grad():
        for name, parameter in decoder.named_parameters():
            if ".attn." in name or ".mlp." in name:
                parameter.zero_()
    torch.testing.assert_close(before, decoder.hidden(ROWS))


def test_labels(small_model, small_decoder):
    labels = Ours(small_decoder(small_model(schedule="1..2 2:mlp"), context=12)).labels
    assert labels == (Label(0, 1, "both", 1), Label(1, 2, "both", 1), Label(2, 2, "mlp", 2)) and str(labels[2]) == "2:mlp, pass 2"
