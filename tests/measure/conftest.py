"""A small decoder with weights that are not tiny, and its targets."""

from __future__ import annotations

import pytest


@pytest.fixture
def decoder(small_text, small_arm):
    import torch

    from ostinato.model import build

    made = build(small_arm().model, small_text.vocab, 16, 1, bos=small_text.bos)
    noise = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=noise) * 0.1)
    return made
