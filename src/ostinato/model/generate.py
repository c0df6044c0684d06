"""Text from a model, one token at a time, with a cache indexed by application."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from ostinato.errors import OstinatoError
from ostinato.model.decoder import Decoder


@torch.no_grad()
def generate(decoder: Decoder, prompt_ids: Sequence[int], n: int, temperature: float = 0.0, seed: int = 0) -> list[int]:
    """`n` tokens that continue the prompt (an empty one begins with BOS).

    temperature: 0 takes the likeliest token, else logits are divided by it and a token is drawn; the draws follow `seed`.
    Raises OstinatoError for a temperature or a seed out of range, and for a prompt with unknown tokens, without any token, or beyond
    learned positions.
    """
    prompt = list(prompt_ids) or ([] if decoder.bos is None else [decoder.bos])
    if not prompt:
        raise OstinatoError("an empty prompt", "there must be a token to continue, and this model knows no BOS", "give a prompt")
    if unknown := [token for token in prompt if not 0 <= token < decoder.vocab]:
        raise OstinatoError(f"token {unknown[0]} in the prompt", f"tokens are 0 to {decoder.vocab - 1}", "use the run's own tokenizer")
    if not 0 <= temperature < math.inf:
        raise OstinatoError(
            f"temperature {temperature}", "it is a finite number, 0 or more", "0 takes the likeliest token, 1 draws from the model"
        )
    if not 0 <= seed < 1 << 63:
        raise OstinatoError(f"seed {seed}", f"a seed is a whole number from 0 to {(1 << 63) - 1:,}", "use a smaller one")
    device = decoder.embedding.weight.device
    draws = torch.Generator().manual_seed(seed)
    cache, made = decoder.cache(), []
    tokens_BT = torch.tensor([prompt], device=device)
    while len(made) < n:
        logits_V = decoder(tokens_BT, cache=cache)[0, -1].float().cpu()
        if temperature:
            token = int(torch.multinomial(torch.softmax((logits_V - logits_V.max()).double() / temperature, 0), 1, generator=draws))
        else:
            token = int(logits_V.argmax())
        made.append(token)
        tokens_BT = torch.tensor([[token]], device=device)
    return made
