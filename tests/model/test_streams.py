"""Hyper-connections: at the start the plain residual, exactly; then a model of their own, with caches, other depths and measures."""

from __future__ import annotations

import pytest
import torch

from ostinato.errors import OstinatoError
from ostinato.export.config import model_config
from ostinato.measure.subject import Ours
from ostinato.model.decoder import build
from ostinato.model.depth import at_passes
from ostinato.model.streams import start

ROWS = torch.tensor([[0, 5, 2, 9, 5, 2, 7], [0, 3, 3, 1, 8, 8, 4]])
MODELS = {
    "plain": {},
    "core": {"layers": 4, "schedule": "1 (2..3)x{r} 4", "passes": 3, "inject": "linear", "pass_norm": True, "backprop": 2},
    "loop2": {"family": "loop2", "layers": 4, "heads": 4, "windows": {"pattern": "SSSL", "short": 3}, "schedule": "1..4 1..4:attn",
              "inject": "add"},
}  # fmt: skip


@pytest.mark.parametrize("streams", [2, 3])
@pytest.mark.parametrize("name", MODELS)
def test_they_start_as_the_plain_residual(small_model, name, streams):
    """The same weights under the same names, so the same losses, and gradients of everything that both have."""
    one, several = (build(small_model(**MODELS[name], streams=n), 11, 8, 1, dtype=torch.float64) for n in (1, streams))
    losses = [decoder.losses(ROWS, ROWS.roll(-1, 1)) for decoder in (one, several)]
    torch.testing.assert_close(losses[1], losses[0], rtol=1e-12, atol=1e-12)
    for loss in losses:
        loss.sum().backward()
    mine = dict(several.named_parameters())
    for key, parameter in one.named_parameters():
        assert torch.equal(mine[key], parameter)
        torch.testing.assert_close(mine[key].grad, parameter.grad, rtol=1e-9, atol=1e-10)
    assert all(mine[key].grad.abs().sum() > 0 for key in mine if key.endswith("dynamic.weight"))


def test_the_start_reads_one_stream_and_keeps_all():
    assert start(2, 3).tolist() == [[0, 1, 0, 1], [1, 0, 1, 1]]


@pytest.mark.parametrize("name", MODELS)
def test_a_cache_changes_nothing(small_model, small_decoder, name):
    decoder = small_decoder(small_model(**MODELS[name], streams=2))
    cache = decoder.cache()
    with torch.no_grad():
        pieces = [decoder(ROWS[:, piece], cache=cache) for piece in (slice(0, 4), slice(4, 5), slice(5, 7))]
        torch.testing.assert_close(torch.cat(pieces, 1), decoder(ROWS), rtol=1e-9, atol=1e-9)


def test_measures_see_the_mean_of_the_streams(small_model, small_decoder):
    decoder, seen = small_decoder(small_model(**MODELS["core"], streams=2)), []
    subject = Ours(at_passes(decoder, 2))
    hidden = subject.hidden(ROWS, watch=lambda index, x_BTD: seen.append(x_BTD))
    assert {x_BTD.shape for x_BTD in seen} == {(2, 7, 32)}
    torch.testing.assert_close(subject.decoder.final_norm(seen[-1]), hidden)
    torch.testing.assert_close(subject.readout(seen[-1]), subject.decoder(ROWS))


def test_export_says_that_it_cannot(small_model):
    with pytest.raises(OstinatoError, match="one residual stream"):
        model_config(build(small_model(streams=2), 11, 8, 1))
