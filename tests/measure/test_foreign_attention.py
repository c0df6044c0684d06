"""Heads of models of transformers: the weights that transformers itself gives in its slow form, and models that cannot be looked into."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from ostinato.errors import OstinatoError
from ostinato.measure.context import Context
from ostinato.measure.foreign import Foreign
from ostinato.measure.heads import SCORES, repeated, take
from ostinato.study.records import Measure

transformers = pytest.importorskip("transformers")

STORIES = Path(__file__).parents[3] / "shared" / "data" / "models" / "stories260K"
SIZE = {"vocab_size": 90, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 40, "bos_token_id": 1}
KINDS = {
    "llama": SIZE | {"num_key_value_heads": 2, "max_position_embeddings": 40},
    "mistral": SIZE | {"num_key_value_heads": 2, "sliding_window": 9, "max_position_embeddings": 50},
    "qwen3": SIZE | {"num_key_value_heads": 1, "head_dim": 16, "max_position_embeddings": 40},
    "gpt2": {"vocab_size": 90, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 40},
    "gpt_neox": SIZE | {"max_position_embeddings": 40},
}


def made(kind, **more):
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.for_model(kind, **KINDS[kind]), **more).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return model


def by_transformers(model, probe):
    """Mean mass of every layer and head on the one key of each kind, from whole matrices; where no query sees it, None."""
    period = probe.at_BT[0].sum().item()
    with torch.no_grad():
        layers = model(probe.tokens_BT, output_attentions=True).attentions
    query = probe.tokens_BT.shape[1] - period + np.arange(period)
    keys = {"induction": query - period + 1, "previous": query - 1, "duplicate": query - period}
    return {(layer, head, score): whole[:, head, query, keys[score]].double().mean().item()
            for layer, whole in enumerate(layers) for head in range(whole.shape[1]) for score in SCORES}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_the_scores_are_of_the_weights_that_transformers_gives(kind):
    subject = Foreign(made(kind), kind, 1)
    taken = take(subject, Context(Measure()))
    wanted = by_transformers(made(kind, attn_implementation="eager"), repeated(subject))
    rows = taken.table.to_pylist()
    assert len(rows) == 2 * 4 * len(SCORES) and taken.about["relative_error"] < 1e-5 and taken.about["recurrent"] == []
    for row in rows:
        if row["count"]:
            mean = wanted[row["application"], row["head"], row["score"]]
            assert row["sum"] / row["count"] == pytest.approx(mean, abs=1e-6) and row["count"] == 16 * taken.about["period"]
        else:
            assert kind == "mistral" and row["score"] != "previous", "a window of nine hides what was a period before"
            assert wanted[row["application"], row["head"], row["score"]] == 0


def test_looking_leaves_nothing_behind():
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    subject, before = Foreign(made("llama"), "llama", 1), dict(ALL_ATTENTION_FUNCTIONS)
    take(subject, Context(Measure()))
    assert dict(ALL_ATTENTION_FUNCTIONS) == before and not ALL_ATTENTION_FUNCTIONS._local_mapping


def test_a_model_that_computes_attention_by_itself_is_refused():
    with pytest.raises(OstinatoError, match="attends 0 times in 2 applications by the function 'eager'"):
        take(Foreign(made("llama", attn_implementation="eager"), "llama", 1), Context(Measure()))


@pytest.mark.skipif(not STORIES.is_dir(), reason="no ../shared/data/models/stories260K")
def test_a_trained_model_has_a_previous_token_head():
    """Head 6 of the fourth layer of stories260K, as transformers' own weights have it."""
    load = transformers.AutoModelForCausalLM.from_pretrained
    subject = Foreign(load(STORIES), "stories260K", 1)
    rows = take(subject, Context(Measure())).table.to_pylist()
    best = max((row for row in rows if row["score"] == "previous"), key=lambda row: row["sum"])
    assert (best["application"], best["head"]) == (3, 6) and best["sum"] / best["count"] == pytest.approx(0.8814, abs=1e-4)
    wanted = by_transformers(load(STORIES, attn_implementation="eager"), repeated(subject))
    assert wanted[3, 6, "previous"] == pytest.approx(best["sum"] / best["count"], abs=1e-5)
