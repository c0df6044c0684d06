"""The parts on their own: hash, gates, angles, masks shared between applications."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ostinato.model.embeddings import bigram_rows, gated_value
from ostinato.model.linear import Linear
from ostinato.model.masks import Masks
from ostinato.model.norm import RMSNorm, rms_norm
from ostinato.model.positions import alibi_slopes, rotate, rotation


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 49_999), min_size=1, max_size=12), st.integers(1, 70_000))
def test_a_pair_has_one_row(tokens, rows):
    """The stated formula in Python's own integers; a pair has its row wherever it stands."""
    found = bigram_rows(torch.tensor([tokens]), None, None, 50_000, rows)[0].tolist()
    before = [50_000, *tokens[:-1]]
    lines = [1_640_531_527 * a + 839_872_933 * b + 374_761_393 for a, b in zip(before, tokens, strict=True)]
    assert found == [pow(line, 5, 2**31 - 1) % rows for line in lines]


def test_pairs_spread_over_the_rows():
    """A million pairs over 65,536 rows: as even as chance, and as many rows in use."""
    tokens = torch.cartesian_prod(torch.arange(1024), torch.arange(1024))
    rows = torch.cat([bigram_rows(part, None, None, 8192, 65_536)[:, 1] for part in tokens.split(2**18)])
    counts = torch.bincount(rows, minlength=65_536).double()
    assert (counts > 0).all()
    assert 0.9 < counts.var().item() / counts.mean().item() < 1.1


def test_the_first_token_of_a_row_and_of_a_document_has_no_previous_one():
    tokens = torch.tensor([[5, 6, 5, 6]])
    alone = bigram_rows(tokens[:, :1], None, None, 10, 997)
    assert bigram_rows(tokens, None, torch.tensor([[0, 0, 1, 1]]), 10, 997)[0, 2] == alone[0, 0]
    assert bigram_rows(tokens, None, None, 10, 997)[0, 2] != alone[0, 0]
    assert torch.equal(bigram_rows(tokens[:, 2:], tokens[:, 1], None, 10, 997), bigram_rows(tokens, None, None, 10, 997)[:, 2:])


def test_a_gate_of_zero_weights_adds_the_value_as_it_is():
    gate = Linear(32, 2)
    torch.nn.init.zeros_(gate.weight)
    value = torch.randn(1, 3, 10)
    assert torch.equal(gated_value(gate, torch.randn(1, 3, 40), value), value.view(1, 3, 2, 5))


def test_a_rotation_keeps_lengths_and_knows_only_distances():
    angles = rotation(torch.arange(50), 3, 8, 10_000.0, torch.float64)
    q, k = torch.randn(8, dtype=torch.float64), torch.randn(8, dtype=torch.float64)
    turned_q, turned_k = (rotate(x.expand(1, 50, 3, 8), *angles)[0, :, 1] for x in (q, k))
    torch.testing.assert_close(turned_q.norm(dim=-1), q.norm().expand(50))
    scores = turned_q @ turned_k.T
    for distance in (0, 1, 7, 30):
        diagonal = scores.diagonal(-distance)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal))


def test_far_positions_keep_their_digits():
    cos, _ = rotation(torch.tensor([1_000_003]), 1, 4, 10_000.0, torch.float32)
    assert cos[0, 0].tolist() == pytest.approx([math.cos(1_000_003), math.cos(10_000.03)] * 2, abs=1e-6)


def test_norms():
    x = torch.randn(3, 5, 16, dtype=torch.float64)
    torch.testing.assert_close(rms_norm(x, 0.1), x / torch.sqrt((x * x).mean(-1, keepdim=True) + 0.1))
    assert list(RMSNorm(16, False, 1e-6).parameters()) == []
    assert RMSNorm(16, True, 1e-6).weight.shape == (16,)


@pytest.mark.parametrize("heads", range(1, 33))
def test_alibi_slopes_fall_within_their_group(heads):
    slopes = alibi_slopes(heads)
    assert len(slopes) == heads == len(set(slopes)) and all(0 < slope <= 1 for slope in slopes)
    whole = 1 << (heads.bit_length() - 1)
    assert slopes[:whole] == sorted(slopes[:whole], reverse=True)


def test_a_mask_is_made_once_for_all_applications_of_a_window(small_model, small_decoder, monkeypatch):
    made = []
    monkeypatch.setattr(Masks, "_bias", (lambda original: lambda *args: made.append(args[1:3]) or original(*args))(Masks._bias))
    decoder = small_decoder(small_model(layers=4, windows={"pattern": "SSSL", "short": 3}, schedule="1..4 1..4 2 2"))
    tokens = torch.zeros(1, 8, dtype=torch.int64)
    documents = torch.tensor([[0, 0, 0, 1, 1, 1, 1, 1]])
    decoder(tokens)
    assert made == [(3, 8)]
    decoder(tokens)
    assert made == [(3, 8)], "and kept for the next forward of the same length"
    decoder(tokens, documents_BT=documents)
    assert sorted(made[1:], key=str) == [(3, 8), (None, 8)]
