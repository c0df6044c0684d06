"""Noise that is computed: what it follows from, what it does not follow from, and that it is normal."""

from __future__ import annotations

import math

import pytest
import torch

from ostinato.model import naive
from ostinato.model.decoder import build
from ostinato.model.noise import fixed_key, normal, row_keys

KEYS = row_keys(1, 0, 4)
PINNED_KEYS = [[2498364085, 2711112835], [716291841, 3511075422]]
PINNED = [0.9236143773794239, -0.637774402237469, -1.9682340799527334, -0.4295648960085939]


def draw(keys=KEYS, place=0, start=0, length=64, width=32, dtype=torch.float64):
    return normal(keys, place, start, length, width, dtype)


def test_moments_are_those_of_a_standard_normal():
    z = draw(row_keys(7, 3, 8), length=512, width=128).flatten()
    error = 1 / math.sqrt(len(z))  # of a mean; 4 of them are one chance in 16,000
    assert abs(z.mean()) < 4 * error and abs(z.var() - 1) < 4 * math.sqrt(2) * error
    assert abs((z**3).mean()) < 4 * math.sqrt(15) * error and abs((z**4).mean() - 3) < 4 * math.sqrt(96) * error
    levels = torch.tensor([-3.0, -2, -1, -0.5, 0, 0.5, 1, 2, 3], dtype=torch.float64)
    for level, expected in zip(levels, torch.special.ndtr(levels), strict=True):
        assert abs((z < level).double().mean() - expected) < 4 * 0.5 * error
    assert z.unique().numel() == len(z) and z.isfinite().all()


@pytest.mark.parametrize("dimension", [0, 1, 2])
@pytest.mark.parametrize("lag", [1, 2, 3])
def test_rows_positions_and_channels_are_not_correlated(dimension, lag):
    z = draw(row_keys(7, 3, 16), length=128, width=64)
    size = z.shape[dimension]
    one, other = z.narrow(dimension, 0, size - lag).flatten(), z.narrow(dimension, lag, size - lag).flatten()
    for power in (1, 2):
        moments = torch.corrcoef(torch.stack((one**power, other**power)))[0, 1]
        assert abs(moments) < 4 / math.sqrt(len(one))


def test_seeds_steps_places_and_the_fixed_draw_are_not_correlated():
    base = draw(row_keys(1, 0, 4)).flatten()
    others = [row_keys(2, 0, 4), row_keys(1, 1, 4), row_keys(0, 1, 4), fixed_key().expand(4, -1)]
    for z in [*(draw(keys).flatten() for keys in others), draw(row_keys(1, 0, 4), place=1).flatten()]:
        assert abs(torch.corrcoef(torch.stack((base, z)))[0, 1]) < 4 / math.sqrt(len(base))
        assert not (base == z).any()


def test_a_row_does_not_depend_on_the_rows_around_it():
    whole = draw()
    assert torch.equal(torch.cat([draw(KEYS[:1]), draw(KEYS[1:])]), whole)
    assert torch.equal(draw(KEYS.flip(0)), whole.flip(0))
    assert torch.equal(row_keys(1, 0, 9)[:4], KEYS), "a row has its key however many rows the step has"


def test_a_position_does_not_depend_on_where_a_piece_begins():
    assert torch.equal(torch.cat([draw(length=5), draw(start=5, length=1), draw(start=6, length=58)], 1), draw())


def test_a_channel_does_not_depend_on_the_width():
    assert torch.equal(draw(width=7), draw(width=32)[..., :7])


def test_the_number_format_does_not_change_the_draw():
    assert torch.equal(draw(dtype=torch.float32), draw().float())


def test_far_positions_and_wide_models_do_not_repeat():
    assert not torch.equal(draw(start=2**20, length=1, width=4), draw(start=0, length=1, width=4))
    z = draw(KEYS[:1], start=2**31, length=2, width=5000)
    assert z.unique().numel() == z.numel()


def test_the_stream_of_numbers_is_pinned():
    """A change of these numbers would make old and new runs incomparable."""
    assert row_keys(1, 2, 2).tolist() == PINNED_KEYS
    assert normal(fixed_key(), 0, 0, 1, 4, torch.float64).flatten().tolist() == pytest.approx(PINNED, abs=1e-12)


KEYED = {"inject": "linear", "h0": "noise", "schedule": "1x2 2x2", "init": {"std": 0.5}}


def test_a_step_has_noise_of_its_own_and_measuring_the_same_always(small_model, small_decoder):
    """Losses with keys are those of the naive twin with the same keys; without keys those of the fixed draw."""
    decoder = small_decoder(small_model(**KEYED))
    rows = torch.arange(14).view(2, 7) * 5 % 11
    weights = dict(decoder.named_parameters())
    with torch.no_grad():
        for keys in (row_keys(1, 0, 2), row_keys(1, 1, 2), None):
            losses = decoder.losses(rows, rows, keys_B2=keys)
            for b, row in enumerate(rows):
                logits = naive.logits(decoder.model, weights, row.tolist(), 8, key=None if keys is None else tuple(keys[b].tolist()))
                expected = torch.nn.functional.cross_entropy(logits, row, reduction="none")
                torch.testing.assert_close(losses[b], expected, rtol=1e-9, atol=1e-9)
        first, second, measured = (decoder.losses(rows, rows, keys_B2=keys) for keys in (row_keys(1, 0, 2), row_keys(1, 1, 2), None))
        assert not torch.allclose(first, second) and not torch.allclose(first, measured)
        assert torch.equal(measured, decoder.losses(rows, rows))
        torch.testing.assert_close(measured[:1], decoder.losses(rows[:1], rows[:1]), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("keys", "std"), [({}, 0.02), ({"init": {"std": 0.3}}, 0.3), ({"embedding_norm": True}, 1), ({"family": "loop2"}, 1)]
)
def test_the_noise_has_the_size_of_the_embedding_at_the_start(small_model, keys, std):
    given = {"windows": {"pattern": "L"}} if keys.get("family") else {}
    decoder = build(small_model(**{"inject": "linear", "h0": "noise", "schedule": "1x2 2x2", **keys, **given}), 11, 256, 1)
    first, second = decoder._noise(torch.zeros(2, 256, dtype=torch.int64), None, 0)
    assert first.shape == second.shape == (2, 256, 32) and not torch.equal(first, second) and torch.equal(first[0], first[1])
    assert first.std().item() == pytest.approx(std, rel=0.05)


def test_with_the_initial_weights_noise_changes_nothing(small_model):
    """W = [I | 0]: every pass begins with e, whatever h is."""
    tokens = torch.arange(16).view(2, 8) % 11
    made = [build(small_model(inject="linear", h0=h0, schedule="(1..2)x3"), 11, 8, 1) for h0 in ("input", "noise")]
    plain = build(small_model(), 11, 8, 1)
    assert torch.equal(made[0](tokens), made[1](tokens))
    torch.testing.assert_close(made[0](tokens), plain(tokens), rtol=1e-6, atol=1e-6)
