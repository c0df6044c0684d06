"""The lens, skips, other numbers of passes and states of small models, against what is said of them and against plain loops."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ostinato.data.targets import targets
from ostinato.measure import lens, measure_losses, skips
from ostinato.measure.context import Context
from ostinato.measure.subject import Ours
from ostinato.measure.windows import some
from ostinato.study.records import Evaluate, Measure

MODELS = {
    "plain": {},
    "twice": {"schedule": "1..2 1..2:attn", "application_scalars": True, "softcap": 3, "embedding_norm": True},
    "hybrid": {"layers": "gdn gqa", "schedule": "(1..2)x2", "inject": "linear", "pass_norm": True, "tie_embeddings": False},
}


@pytest.fixture
def subject_of(small_model, small_decoder, small_text):
    def make(dtype=torch.float32, **keys):
        return Ours(small_decoder(small_model(**keys), vocab=small_text.vocab, context=16, dtype=dtype, bos=small_text.bos))

    return make


@pytest.fixture
def subject(request, subject_of):
    return subject_of(**MODELS[request.param])


@pytest.fixture
def wanted(small_text):
    return targets(small_text, "validation", Evaluate(windows="rows"), 16)


def columns(taken):
    return {name: taken.table[name].to_numpy() for name in taken.table.column_names}


def one_window_at_a_time(subject, chosen, read, document_mask):
    """The naive twin: `read(tokens [1, T], documents)` gives the streams [1, T, D] that the head reads; log-softmax in float64."""
    found = {}
    for first, last in zip(chosen.offsets[:-1], chosen.offsets[1:], strict=True):
        tokens = torch.from_numpy(chosen.flat[first:last].astype(np.int64))[None]
        documents = (tokens[:, :-1] == chosen.bos).long().cumsum(1) if document_mask else None
        with torch.no_grad():
            scores = [torch.log_softmax(subject.readout(x).double(), -1)[0] for x in read(tokens[:, :-1], documents)]
        for at, place in enumerate(chosen.flat_target[first + 1 : last].tolist()):
            if place >= 0:
                found[place] = [-float(each[at, tokens[0, at + 1]]) for each in scores]
    return found


@pytest.mark.parametrize("document_mask", [False, True])
@pytest.mark.parametrize("subject", MODELS, indirect=True)
def test_the_lens_reads_every_stream_as_the_head_would(subject, wanted, document_mask):
    def read(tokens, documents):
        seen = []
        subject.hidden(tokens, documents, watch=lambda _, x: seen.append(x))
        return seen

    taken = lens.take(subject, Context(Measure(targets=200), wanted, document_mask, 100))
    found, twin = columns(taken), one_window_at_a_time(subject, some(wanted, 200), read, document_mask)
    assert found["target"].tolist() == sorted(twin) and 100 < len(twin) <= 200
    assert list(found) == ["target", "input", *(f"after_{label.index}" for label in subject.labels)]
    assert [one["layer"] for one in taken.about["applications"]] == [label.layer for label in subject.labels]
    rows = np.array([twin[place] for place in found["target"].tolist()]).T
    np.testing.assert_allclose(np.stack(list(found.values())[1:]), rows, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("subject", MODELS, indirect=True)
@pytest.mark.parametrize("batch", [57, 10**6])
def test_the_last_row_of_the_lens_is_the_loss(subject, wanted, small_text, batch):
    """To 1e-6 of it, and the same whatever the batch."""
    losses = measure_losses(subject, wanted, 64, False, small_text.bos)
    found = columns(lens.take(subject, Context(Measure(targets=10**6), wanted, False, batch)))
    last = found[f"after_{len(subject.labels) - 1}"]
    np.testing.assert_allclose(last, losses, rtol=1e-6, atol=2e-6)
    assert abs(last.sum(dtype=np.float64) - losses.sum(dtype=np.float64)) <= 1e-6 * losses.sum(dtype=np.float64)


def test_each_row_is_normed_by_its_own_statistics(subject_of, wanted):
    """A stream twice as large reads the same, but for the eps of the norm."""
    subject = subject_of(norm={"weight": True, "eps": 1e-12})
    plain = columns(lens.take(subject, Context(Measure(targets=100), wanted)))["input"]
    with torch.no_grad():
        subject.decoder.embedding.weight.copy_(subject.decoder.embedding.weight * 2)
        subject.decoder.final_norm.weight.copy_(subject.decoder.final_norm.weight / 2)  # the head is tied: it doubled, too
    np.testing.assert_allclose(columns(lens.take(subject, Context(Measure(targets=100), wanted)))["input"], plain, rtol=1e-5)


@pytest.mark.parametrize("document_mask", [False, True])
@pytest.mark.parametrize("subject", MODELS, indirect=True)
def test_skips_are_forward_passes_without_an_application_or_a_pass(subject, wanted, document_mask):
    sets = skips.skipped(subject)
    several = len({label.pass_ for label in subject.labels}) > 1
    assert list(sets) == ["whole", *(f"without_{label.index}" for label in subject.labels)] + ["without_pass_1", "without_pass_2"] * several
    if several:
        assert sets["without_pass_1"] | sets["without_pass_2"] == set(range(len(subject.labels)))

    def read(tokens, documents):
        found = []
        for skip in sets.values():
            subject.hidden(tokens, documents, skip=skip, watch=lambda _, x, found=found: found.append(x))
            del found[-1 - len(subject.labels) : -1]
        return found

    taken = skips.take(subject, Context(Measure(targets=150 * skips.SHARE), wanted, document_mask, 64))
    found, twin = columns(taken), one_window_at_a_time(subject, some(wanted, 150), read, document_mask)
    rows = np.array([twin[place] for place in found["target"].tolist()]).T
    np.testing.assert_allclose(np.stack(list(found.values())[1:]), rows, rtol=2e-5, atol=2e-5)
    assert list(found)[1:] == list(sets) and all(np.abs(row - rows[0]).max() > 1e-3 for row in rows[1:])
