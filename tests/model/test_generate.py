"""Generation: greedy equals the full forward's choice, draws follow the seed, a prompt's mistakes are named."""

from __future__ import annotations

import pytest
import torch

from ostinato.errors import OstinatoError
from ostinato.model import generate

MODELS = {
    "looped": {"schedule": "1..2 1..2"},
    "learned": {"positions": "learned"},
    "loop2": {"family": "loop2", "layers": 4, "windows": {"pattern": "SSSL", "short": 3}, "bigram_table": 7, "schedule": "1..4 1..4:attn"},
}


@pytest.mark.parametrize("keys", MODELS)
def test_greedy_is_the_likeliest_token_of_the_full_forward(small_model, small_decoder, keys):
    decoder = small_decoder(small_model(**MODELS[keys]), context=12, dtype=torch.float32)
    row = [3, 1, 4]
    for _ in range(8):
        with torch.no_grad():
            row.append(int(decoder(torch.tensor([row]))[0, -1].argmax()))
    made = generate(decoder, [3, 1, 4], 8)
    assert made == row[3:]
    assert len(set(made)) > 1


def test_draws_follow_the_seed_and_the_temperature(small_model, small_decoder):
    decoder = small_decoder(small_model(), dtype=torch.float32)
    one = generate(decoder, [1], 20, temperature=1.0, seed=1)
    assert generate(decoder, [1], 20, temperature=1.0, seed=1) == one
    assert generate(decoder, [1], 20, temperature=1.0, seed=2) != one
    for cold in (1e-4, 1e-300):  # logits divided by the second are beyond what a float holds
        assert generate(decoder, [1], 20, temperature=cold, seed=1) == generate(decoder, [1], 20)
    assert len(set(generate(decoder, [1], 60, temperature=50.0))) > 7, "a hot model draws nearly every token"


def test_draws_have_the_probabilities_of_the_model(small_model, small_decoder):
    decoder = small_decoder(small_model(), vocab=3, dtype=torch.float32)
    drawn = [generate(decoder, [1], 1, temperature=2.0, seed=seed)[0] for seed in range(600)]
    expected = torch.softmax(decoder(torch.tensor([[1]]))[0, -1] / 2, 0)
    for token in range(3):
        assert drawn.count(token) / 600 == pytest.approx(expected[token].item(), abs=0.07)


def test_nothing_to_write(small_model, small_decoder):
    assert generate(small_decoder(small_model()), [1], 0) == []


def test_an_empty_prompt_begins_with_bos(small_model, small_decoder):
    decoder = small_decoder(small_model(), bos=2)
    assert generate(decoder, [], 4) == generate(decoder, [2], 4)
    with pytest.raises(OstinatoError, match="empty prompt"):
        generate(small_decoder(small_model()), [], 4)


@pytest.mark.parametrize(
    "prompt, temperature, name",
    [
        ([1, 11], 0, "token 11"),
        ([-1], 0, "token -1"),
        ([1], -0.5, "temperature -0.5"),
        ([1], float("nan"), "temperature nan"),
        ([1], float("inf"), "temperature inf"),
    ],
)
def test_mistakes(small_model, small_decoder, prompt, temperature, name):
    with pytest.raises(OstinatoError, match=name):
        generate(small_decoder(small_model()), prompt, 1, temperature=temperature)


@pytest.mark.parametrize("seed", [-1, 1 << 63])
def test_a_seed_out_of_range(small_model, small_decoder, seed):
    with pytest.raises(OstinatoError, match=f"seed {seed}"):
        generate(small_decoder(small_model()), [1], 1, seed=seed)


def test_learned_positions_end(small_model, small_decoder):
    decoder = small_decoder(small_model(positions="learned"), context=6)
    assert len(generate(decoder, [1, 2], 5)) == 5
    with pytest.raises(OstinatoError, match="7 positions"):
        generate(decoder, [1, 2], 6)
