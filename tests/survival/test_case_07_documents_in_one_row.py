"""Case 7. Row A|B with document masking: whatever happens in A, nothing of B changes: logits, loss, gradients."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ostinato.data import document_ids
from ostinato.model.decoder import build
from ostinato.model.init import unit_noise
from ostinato.study.families import with_family
from ostinato.study.layers import layer_kinds
from ostinato.study.records import Model

BOS, VOCAB = 0, 13
A, B = [5, 3, 7, 2], [4, 9, 1, 1, 6]
MODELS = {
    "llama": {},
    "windows": {"windows": {"pattern": "SL", "short": 3}},
    "alibi": {"positions": "alibi"},
    "learned positions": {"positions": "learned"},
    "looped and injected": {"schedule": "1..2 1..2:attn", "inject": "add"},
    "gated": {"attn_gate": "channel"},
    "gated by head, every pass injected and normed": {"schedule": "(1..2)x2", "inject": "linear", "pass_norm": True, "attn_gate": "head"},
    "bigram table": {"bigram_table": 11},
    "gated delta rule": {"layers": "2 x gdn"},
    "hybrid, looped": {"layers": "gdn gdn gqa", "schedule": "(1..3)x2", "inject": "add", "bigram_table": 11},
    "loop2": {"family": "loop2", "layers": 4, "windows": {"pattern": "SSSL", "short": 3}, "bigram_table": 11, "schedule": "1..4 1..4"},
}
ROWS = {
    "each document begins with BOS": ([BOS, *A, BOS, *B], 5),
    "the row begins in the middle of a document": ([*A, BOS, *B], 4),
    "the row ends in the middle of a document": ([BOS, *A, BOS, *B[:2]], 5),
    "a document of BOS alone between": ([*A, BOS, BOS, *B], 5),
}


def decoder(keys, backend):
    given = with_family({"layers": 2, "d_model": 32, "heads": 2, "mlp": {"hidden": 12}, **keys})
    given["layers"] = layer_kinds(given["layers"])
    made = build(Model.model_validate(given), VOCAB, 16, seed=1, dtype=torch.float64, backend=backend)
    with torch.no_grad():
        for name, parameter in made.named_parameters():  # nothing at zero: no path from A to B is closed by chance
            parameter.copy_(torch.from_numpy(unit_noise(1, "test " + name, parameter.shape)) * 0.4)
    return made


def of_b(made, row, start):
    """Logits, loss and gradients of B: targets in A do not count."""
    tokens_BT = torch.tensor([row])
    documents_BT = torch.from_numpy(document_ids(np.array([row]), BOS))
    targets_BT = tokens_BT.roll(-1, 1)
    targets_BT[:, :start] = targets_BT[:, -1] = -1
    if made.backend == "flex":  # torch has no backward pass of it on a CPU
        with torch.no_grad():
            return [made(tokens_BT, documents_BT=documents_BT)[:, start:], made.losses(tokens_BT, targets_BT, documents_BT).sum()]
    made.zero_grad()
    logits_BTV = made(tokens_BT, documents_BT=documents_BT)
    loss = made.losses(tokens_BT, targets_BT, documents_BT).sum()
    loss.backward()
    return [logits_BTV[:, start:], loss, *(p.grad.clone() for p in made.parameters())]


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("backend", ["masked", "flex"])
@pytest.mark.parametrize("layout", ROWS)
@pytest.mark.parametrize("keys", MODELS)
def test_a_document_does_not_see_the_one_before(keys, layout, backend):
    made = decoder(MODELS[keys], backend)
    row, start = ROWS[layout]
    begin = 1 if row[0] == BOS else 0
    changed = list(row)
    changed[begin : begin + len(A)] = [8, 8, 12, 10]
    for one, other in zip(of_b(made, row, start), of_b(made, changed, start), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
    with torch.no_grad():
        unmasked = made(torch.tensor([row, changed]))[:, start:]
    assert not torch.allclose(unmasked[0], unmasked[1]), "without the mask the same change must reach B, or this test says nothing"


@pytest.mark.parametrize("keys", sorted(set(MODELS) - {"learned positions"}))
def test_a_masked_document_equals_the_document_alone(keys):
    """B in a row has the loss that B has as a row (learned positions aside: they count from the row's start)."""
    made = decoder(MODELS[keys], "auto")
    row = [BOS, *A, BOS, *B]
    tokens_BT = torch.tensor([row])
    in_row = made(tokens_BT, documents_BT=torch.from_numpy(document_ids(np.array([row]), BOS)))[:, 5:]
    torch.testing.assert_close(in_row, made(tokens_BT[:, 5:]), rtol=1e-10, atol=1e-10)


def test_a_state_does_not_cross_documents_far_into_a_row():
    """Longer than two chunks of the gated delta rule, a document from the middle of one to the middle of another before it."""
    made = decoder({"layers": "gdn gdn gqa", "positions": "none"}, "auto")
    row = [BOS] + [1 + 7 * i % 12 for i in range(79)]
    row[20] = row[50] = BOS
    changed = row[:21] + [1 + 5 * i % 12 for i in range(29)] + row[50:]
    for one, other in zip(of_b(made, row, 50), of_b(made, changed, 50), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
