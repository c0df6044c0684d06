"""Losses and KL at other numbers of passes, against full distributions in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ostinato.data.targets import targets
from ostinato.errors import OstinatoError
from ostinato.measure import depths, measure_losses
from ostinato.measure.context import Context
from ostinato.measure.subject import Ours
from ostinato.model.depth import at_passes
from ostinato.study.records import Evaluate, Measure


@pytest.fixture
def wanted(small_text):
    return targets(small_text, "validation", Evaluate(windows="rows"), 16)


def make(small_model, small_decoder, small_text, **keys):
    return Ours(small_decoder(small_model(**keys), vocab=small_text.vocab, context=16, dtype=torch.float32, bos=small_text.bos))


@pytest.mark.parametrize("keys", [{"schedule": "(1..2)x{r}", "passes": 2, "softcap": 5.0},
                                  {"layers": 3, "schedule": "1 2 2 3", "inject": "linear", "h0": "noise", "pass_norm": True}])
def test_losses_and_kl_of_every_number_of_passes(keys, wanted, small_model, small_decoder, small_text):
    subject = make(small_model, small_decoder, small_text, **keys)
    taken = depths.take(subject, Context(Measure(targets=10**6), wanted, True, 100))
    found = {name: taken.table[name].to_numpy() for name in taken.table.column_names}
    assert list(found) == ["target", "nats_1", "nats_2", "nats_3", "nats_4", "kl_2", "kl_3", "kl_4"]
    assert taken.about == {"trained_passes": 2, "applications": [len(at_passes(subject.decoder, r).applications) for r in range(1, 5)]}
    windows = torch.from_numpy(wanted.windows.astype(np.int64))
    where, logs = wanted.where, []
    for passes in range(1, 5):
        other = at_passes(subject.decoder, passes)
        losses = measure_losses(other, wanted, 64, True, small_text.bos)
        np.testing.assert_allclose(found[f"nats_{passes}"], losses, rtol=1e-6, atol=2e-6)
        documents = (windows[:, :-1] == small_text.bos).long().cumsum(1)
        with torch.no_grad():
            logs.append(torch.log_softmax(other(windows[:, :-1], documents_BT=documents).double(), -1))
    for passes in range(2, 5):
        now, before = logs[passes - 1], logs[passes - 2]
        kl = (now.exp() * (now - before)).sum(-1).numpy()[where >= 0]
        np.testing.assert_allclose(found[f"kl_{passes}"], kl[np.argsort(where[where >= 0])], rtol=1e-3, atol=1e-6)
        assert (found[f"kl_{passes}"] >= 0).all() and found[f"kl_{passes}"].mean() > 1e-3


def test_a_model_whose_passes_are_not_free_is_refused(wanted, small_model, small_decoder, small_text):
    with pytest.raises(OstinatoError, match=r"passes of 1 2 1.*\nrule: the number of passes is not free"):
        depths.take(make(small_model, small_decoder, small_text, schedule="1 2 1"), Context(Measure(), wanted))
