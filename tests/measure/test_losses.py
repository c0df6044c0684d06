"""A loss per target: against a plain loop over windows, whatever the batches, the windows and the document mask."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ostinato.data import document_ids
from ostinato.data.targets import targets
from ostinato.errors import DataError
from ostinato.measure import measure_losses
from ostinato.study.records import Evaluate


def one_window_at_a_time(decoder, wanted, document_mask=False):
    """The naive twin: logits of each window alone, log-softmax in float64."""
    losses = np.full(len(wanted), np.nan)
    for window in range(len(wanted.lengths)):
        first, last = wanted.offsets[window], wanted.offsets[window + 1]
        tokens = torch.from_numpy(wanted.flat[first:last].astype(np.int64))[None]
        documents = torch.from_numpy(document_ids(tokens[:, :-1].numpy(), wanted.bos)) if document_mask else None
        with torch.no_grad():
            scores = torch.log_softmax(decoder(tokens[:, :-1], documents_BT=documents).double(), -1)[0]
        for place, target in enumerate(wanted.flat_target[first + 1 : last]):
            if target >= 0:
                assert np.isnan(losses[target]), "a target scored twice"
                losses[target] = -scores[place, tokens[0, place + 1]]
    return losses


@pytest.mark.parametrize(
    "evaluate", [Evaluate(), Evaluate(stride=1), Evaluate(context=7, stride=5), Evaluate(windows="rows"), Evaluate(targets=500)]
)
@pytest.mark.parametrize("document_mask", [False, True])
def test_agrees_with_one_window_at_a_time(decoder, small_text, evaluate, document_mask):
    wanted = targets(small_text, "validation", evaluate, 16)
    found = measure_losses(decoder, wanted, 100, document_mask, small_text.bos)
    assert found.dtype == np.float32 and found.shape == (len(wanted),) and len(wanted) > 50
    np.testing.assert_allclose(found, one_window_at_a_time(decoder, wanted, document_mask), rtol=2e-6, atol=2e-6)


def test_the_mask_matters_where_a_row_has_several_documents(decoder, small_text):
    wanted = targets(small_text, "validation", Evaluate(windows="rows"), 16)
    free, masked = (measure_losses(decoder, wanted, 100, mask, small_text.bos) for mask in (False, True))
    assert np.abs(free - masked).max() > 1e-3


def test_the_mean_does_not_depend_on_the_batch(decoder, small_text):
    wanted = targets(small_text, "held_out", Evaluate(), 16)
    found = [measure_losses(decoder, wanted, batch, False, small_text.bos).sum(dtype=np.float64) for batch in (1, 17, 333, 10**6)]
    assert max(found) - min(found) <= 1e-6 * min(found)


def test_again_is_bit_identical(decoder, small_text):
    wanted = targets(small_text, "validation", Evaluate(), 16)
    one, other = (measure_losses(decoder, wanted, 200, False, small_text.bos) for _ in range(2))
    assert (one == other).all()


def test_training_goes_on_after_measuring(decoder, small_text):
    """What the decoder keeps of a pass under no_grad must not break the next backward pass."""
    wanted = targets(small_text, "validation", Evaluate(), 16)
    measure_losses(decoder, wanted, 200, False, small_text.bos)
    tokens = torch.from_numpy(wanted.windows[:2].astype(np.int64))
    decoder.losses(tokens[:, :-1], tokens[:, 1:]).sum().backward()
    assert all(parameter.grad is not None for parameter in decoder.parameters())


def test_progress_ends_at_all_targets(decoder, small_text):
    wanted = targets(small_text, "validation", Evaluate(), 16)
    seen = []
    measure_losses(decoder, wanted, 200, False, small_text.bos, lambda done, total: seen.append((done, total)))
    assert seen[-1] == (len(wanted), len(wanted)) and seen == sorted(seen) and len(seen) > 2


def test_a_target_that_no_window_scores_is_refused(decoder, small_text):
    wanted = targets(small_text, "validation", Evaluate(), 16)
    wanted.flat_target[np.flatnonzero(wanted.flat_target >= 0)[3]] = -1
    with pytest.raises(DataError, match=r"1 of .* targets are not scored exactly once"):
        measure_losses(decoder, wanted, 200, False, small_text.bos)
