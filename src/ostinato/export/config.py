"""config.json: the model record resolved to what the exported modeling file reads, so that nothing is derived a second time there.

The schedule is written out application by application, with the layers that sublayers are taken from, as the decoder itself runs them.
"""

from __future__ import annotations

from typing import Any

from ostinato import __version__
from ostinato.errors import OstinatoError
from ostinato.ledger.inventory import CONVOLUTION_WIDTH
from ostinato.model import Decoder
from ostinato.study.derive import GATE_CHANNELS, arm_schedule, h0_std, has_value_table, head_dim, kv_heads, model_hidden, pass_groups

MODULE = "modeling_ostinato"
CLASSES = {"AutoConfig": "OstinatoConfig", "AutoModel": "OstinatoModel", "AutoModelForCausalLM": "OstinatoForCausalLM",
           "AutoModelForSequenceClassification": "OstinatoForSequenceClassification"}  # fmt: skip


def model_config(decoder: Decoder) -> dict[str, Any]:
    """The content of config.json. Raises OstinatoError for a model with hyper-connections."""
    model, bos = decoder.model, decoder.bos
    if model.streams > 1:
        raise OstinatoError(f"streams {model.streams}: a model with hyper-connections", "exported models have one residual stream",
                            "read it with ostinato.model.load_weights, or export an arm without streams")  # fmt: skip
    return {
        "model_type": "ostinato",
        "architectures": [CLASSES["AutoModelForCausalLM"]],
        "auto_map": {auto: f"{MODULE}.{name}" for auto, name in CLASSES.items()},
        "ostinato_version": __version__,
        "dtype": str(decoder.dtype).removeprefix("torch."),
        "vocab_size": decoder.vocab,
        "hidden_size": model.d_model,
        "num_hidden_layers": len(decoder.applications),
        "num_attention_heads": model.heads,
        "num_key_value_heads": kv_heads(model),
        "head_dim": head_dim(model),
        "intermediate_size": model_hidden(model),
        "mlp": model.mlp.kind,
        "schedule": arm_schedule(model).text,
        "layers": [_layer(decoder, number) for number in range(1, len(model.layers) + 1)],
        "applications": [_application(decoder, index) for index in range(len(decoder.applications))],
        "max_position_embeddings": decoder.context,
        "norm_eps": model.norm.eps,
        "norm_weight": model.norm.weight,
        "positions": model.positions,
        "rope_base": model.rope_base,
        "qk_norm": model.qk_norm,
        "attn_gate": model.attn_gate,
        "convolution_width": CONVOLUTION_WIDTH,
        "gate_channels": GATE_CHANNELS,
        "bigram_table": model.bigram_table,
        "bigram_start": decoder.vocab,
        "embedding_norm": model.embedding_norm,
        "application_scalars": model.application_scalars,
        "final_logit_softcapping": model.softcap,
        "inject": model.inject,
        "h0_std": h0_std(model) if decoder.draws else None,
        "pass_norm": model.pass_norm,
        "initializer_range": model.init.std,
        "tie_word_embeddings": model.tie_embeddings,
        "use_cache": True,
        "bos_token_id": bos,
        "eos_token_id": bos,
        "pad_token_id": bos,
    }


def _layer(decoder: Decoder, number: int) -> dict[str, Any]:
    """attn, mlp: the layers whose parameters these sublayers are.  begins: a pass of a repeated group begins with this layer."""
    model = decoder.model
    return {
        "kind": model.layers[number - 1],
        "attn": decoder.source[number, "attn"],
        "mlp": decoder.source[number, "mlp"],
        "window": decoder.windows[number],
        "values": has_value_table(model, number),
        "begins": any(group.layer == number for group in pass_groups(model)),
    }


def _application(decoder: Decoder, index: int) -> dict[str, Any]:
    """attn, mlp: what runs.  adds, injects: x0, or [e; x] through a matrix, comes in before.  enters: the number of the repeated group
    that begins here and keeps its input e.  ends: the layer whose norm ends a pass here."""
    application, owner = decoder.applications[index], decoder.ends.get(index)
    return {
        "layer": application.layer,
        "pass": application.pass_,
        "attn": application.attn,
        "mlp": application.mlp,
        "adds": decoder.parts[index].adds,
        "injects": decoder.parts[index].injects,
        "enters": decoder.enters.get(index),
        "ends": None if owner is None else int(owner),
    }
