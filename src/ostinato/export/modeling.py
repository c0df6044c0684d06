"""An exported ostinato run as a Hugging Face model: this one file and `config.json` are all that it needs beside torch and transformers.

    AutoModelForCausalLM.from_pretrained(FOLDER, trust_remote_code=True)

A layer is one set of parameters; `config.applications` says in which order layers run, and a layer may run several times:

    x = x0 = embedding[tokens] (+ bigram row) (+ position row) (normed)
    for every application:
        e = x; x = noise                     enters: a repeated group begins that sees its input e again; h0, if that is noise
        x = x + x0, or W [e; x]              adds, injects
        x = residual_scale · x + x0_scale · x0
        x = x + attn(norm x); x = x + mlp(norm x)        `attn` and `mlp` name the layer whose sublayer runs, null: none does
        x = norm x                           ends: with the norm of this layer
    logits = softcap(head(norm x))

Keys, values and states are cached by application, so a layer that runs twice has two slots. Padding on either side changes nothing:
positions, windows, bigrams, noise and recurrent states count the real tokens of a row alone.

Shapes, as suffixes of names: B rows  T new tokens  S keys  D hidden_size  H heads  K key-value heads  E head_dim  C channels
N chunks  R tokens of a chunk  V vocabulary
"""

from __future__ import annotations

import hashlib
import math
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import GenerationMixin, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutputWithPast, CausalLMOutputWithPast, SequenceClassifierOutput

from ostinato.export.modeling_parts import (
    Application,
    OstinatoCache,
    OstinatoConfig,
    OstinatoGatedDelta,
    OstinatoLayer,
    OstinatoRMSNorm,
    Sight,
    alibi_slopes,
    bigram_rows,
    exact,
    mixed,
)


class OstinatoPreTrainedModel(PreTrainedModel):
    config_class = OstinatoConfig
    base_model_prefix = "model"
    _no_split_modules = ("OstinatoModel",)  # its layers run more than once: they stay on one device
    _supports_sdpa = True

    def _init_weights(self, module: nn.Module) -> None:
        """Plain beginnings for weights that no file brings; a run of ostinato has a table of its own."""
        super()._init_weights(module)
        with torch.no_grad():
            if isinstance(module, OstinatoGatedDelta):
                module.A_log.copy_(torch.linspace(1, 16, module.heads, device=module.A_log.device).log())
                module.dt_bias.fill_(math.log(math.expm1(0.01)))
            if isinstance(module, OstinatoModel) and module.config.application_scalars:
                module.residual_scale.fill_(1.0)
                module.x0_scale.fill_(0.0)

    def _cache(self, past_key_values: OstinatoCache | None, cache: OstinatoCache | None, use_cache: bool | None) -> OstinatoCache | None:
        """The one that is given by its older or its newer name; a new one where one is asked for, as always but in training."""
        given, use_cache = past_key_values if cache is None else cache, _chosen(use_cache, self.config.use_cache and not self.training)
        return OstinatoCache() if given is None and use_cache else given


class OstinatoModel(OstinatoPreTrainedModel):
    """The decoder up to its final norm."""

    def __init__(self, config: OstinatoConfig):
        super().__init__(config)
        width, vocab, channels = config.hidden_size, config.vocab_size, config.num_key_value_heads * config.head_dim
        self.embedding = nn.Embedding(vocab, width)
        if config.positions == "learned":
            self.positions = nn.Embedding(config.max_position_embeddings, width)
        if config.bigram_table:
            self.bigram = nn.Embedding(config.bigram_table, width)
        numbered = {str(number): layer for number, layer in enumerate(config.layers, 1)}
        self.value_tables = nn.ModuleDict({i: nn.Embedding(vocab, channels) for i, layer in numbered.items() if layer["values"]})
        self.layers = nn.ModuleDict({i: OstinatoLayer(config, int(i)) for i in numbered})
        self.final_norm = OstinatoRMSNorm(width, config.norm_weight, config.norm_eps)
        if config.application_scalars:
            self.residual_scale = nn.Parameter(torch.ones(len(config.applications)))
            self.x0_scale = nn.Parameter(torch.zeros(len(config.applications)))
        self.post_init()

    def get_input_embeddings(self) -> nn.Embedding:
        return self.embedding

    def set_input_embeddings(self, value: nn.Embedding) -> None:
        self.embedding = value

    def forward(self, input_ids=None, attention_mask=None, past_key_values=None, cache=None, use_cache=None, output_hidden_states=None,
                return_dict=None, inputs_embeds=None, output_attentions=None):  # fmt: skip
        """[B, T] tokens that continue `cache` (or `past_key_values`, the same by its older name) -> the normed stream [B, T, D].

        attention_mask: 1 at real tokens, 0 at padding: [B, T], or [B, S] with those in the cache.
        """
        config = self.config
        if input_ids is None or inputs_embeds is not None:
            raise ValueError("an ostinato model is given input_ids: bigram and value tables are looked up by token")
        if output_attentions:
            raise ValueError("an ostinato model does not return attention: its kernels never form it whole")
        cache = self._cache(past_key_values, cache, use_cache)
        sight, positions_BT = self._sight(input_ids, attention_mask, cache)
        x_BTD = e_BTD = sight.x0_BTD
        seen = [x_BTD] if _chosen(output_hidden_states, config.output_hidden_states) else None
        for index, step in enumerate(config.applications):
            if step["enters"] is not None:
                e_BTD, x_BTD = x_BTD, x_BTD if config.h0_std is None else self._noise(positions_BT, step["enters"], x_BTD)
            x_BTD = self.layers[str(step["layer"])](x_BTD, e_BTD, sight, self._application(index))
            if seen is not None:
                seen.append(x_BTD)
        x_BTD = self.final_norm(x_BTD)
        if cache is not None:
            cache.real_BS, cache.last_B = sight.real_BS, input_ids[:, -1]
        # in this order, without names: transformers has renamed past_key_values to cache
        output = BaseModelOutputWithPast(x_BTD, cache, seen and (*seen[:-1], x_BTD))
        return output if _chosen(return_dict, config.return_dict) else output.to_tuple()

    def _application(self, index: int) -> Application:
        step, number = self.config.applications[index], str(self.config.applications[index]["layer"])
        about = self.config.layers[int(number) - 1]
        attn, mlp = (getattr(self.layers[str(about[part])], part) if step[part] else None for part in ("attn", "mlp"))
        scales = (self.residual_scale[index], self.x0_scale[index]) if self.config.application_scalars else None
        pass_norm = None if step["ends"] is None else self.layers[str(step["ends"])].pass_norm
        values = self.value_tables[number] if about["values"] and step["attn"] else None
        return Application(index, step["adds"], step["injects"], about["window"], attn, mlp, values, pass_norm, scales)

    def _sight(self, tokens_BT: Tensor, mask: Tensor | None, cache: OstinatoCache | None) -> tuple[Sight, Tensor]:
        """What applications see, and the position of every token among the real ones of its row."""
        config, (rows, length), device = self.config, tokens_BT.shape, tokens_BT.device
        before_BS = torch.ones(rows, 0, dtype=torch.bool, device=device) if cache is None or cache.real_BS is None else cache.real_BS
        total = before_BS.shape[1] + length
        real_BS = torch.ones(rows, length, dtype=torch.bool, device=device) if mask is None else mask.bool()
        real_BS = torch.cat((before_BS, real_BS), 1) if real_BS.shape[1] != total else real_BS
        if real_BS.shape != (rows, total):
            raise ValueError(f"an attention_mask {list(mask.shape)} for tokens {list(tokens_BT.shape)} after {total - length} in the cache")
        positions_BT = (real_BS.long().cumsum(1) - 1).clamp(min=0)[:, -length:]
        if config.positions == "learned" and int(positions_BT.max()) >= config.max_position_embeddings:
            raise ValueError(f"position {int(positions_BT.max())}: this model has learned {config.max_position_embeddings}, from 0")
        angles = slopes_H = None
        if config.positions == "rope":
            powers_E = torch.arange(0, config.head_dim, 2, dtype=torch.float64, device=device) / config.head_dim
            angle_BT1E = (positions_BT.double()[..., None] * config.rope_base**-powers_E)[:, :, None]
            cos, sin = angle_BT1E.cos(), angle_BT1E.sin()
            angles = tuple(torch.cat(halves, -1).to(exact(self.embedding.weight).dtype) for halves in ((cos, cos), (-sin, sin)))
        if config.positions == "alibi":
            slopes_H = torch.tensor(alibi_slopes(config.num_attention_heads), device=device)
        x0_BTD = self._embed(tokens_BT, real_BS, positions_BT, cache)
        return Sight(tokens_BT, x0_BTD, cache, real_BS, not bool(real_BS.all()), angles, slopes_H), positions_BT

    def _embed(self, tokens_BT: Tensor, real_BS: Tensor, positions_BT: Tensor, cache: OstinatoCache | None) -> Tensor:
        config = self.config
        x_BTD = self.embedding(tokens_BT)
        if config.bigram_table:
            last_B1 = tokens_BT[:, :1] if cache is None or cache.last_B is None else cache.last_B[:, None]
            known_BT = F.pad(real_BS, (1, 0))[:, :-1][:, -tokens_BT.shape[1] :]  # is there a real token before?
            before_BT = torch.cat((last_B1, tokens_BT[:, :-1]), 1).masked_fill(~known_BT, config.bigram_start)
            x_BTD = x_BTD + self.bigram(bigram_rows(before_BT, tokens_BT, config.bigram_table))
        if config.positions == "learned":
            x_BTD = x_BTD + self.positions(positions_BT)
        return F.rms_norm(x_BTD, x_BTD.shape[-1:], eps=config.norm_eps) if config.embedding_norm else x_BTD

    def _noise(self, positions_BT: Tensor, place: int, like: Tensor) -> Tensor:
        """h0 of a repeated group: a function of group, position and channel, the same in every call (Box and Muller's method)."""
        key, width = hashlib.sha256(b"h0|fixed").digest(), like.shape[-1]
        pair_P = torch.arange((width + 1) // 2, device=like.device)
        pair_P = mixed((pair_P * 0x9E3779B1 + (place + 1) * 0x85EBCA6B) % 2**32)
        a, b = (mixed(mixed(int.from_bytes(key[i : i + 4], "little") ^ mixed(positions_BT))[..., None] ^ pair_P) for i in (0, 4))
        radius = torch.sqrt(-2 * torch.log((a.double() + 0.5) / 2**32))
        angle = b.double() * (2 * math.pi / 2**32)
        noise = torch.stack((radius * angle.cos(), radius * angle.sin()), -1).flatten(-2)[..., :width]
        return (self.config.h0_std * noise).to(like.dtype)


class OstinatoForCausalLM(OstinatoPreTrainedModel, GenerationMixin):
    """The decoder and its head: logits in float32 or better, and the mean loss of the tokens that follow."""

    _tied_weights_keys: ClassVar = {"lm_head.weight": "model.embedding.weight"}
    accepts_loss_kwargs = True

    def __init__(self, config: OstinatoConfig):
        super().__init__(config)
        self.model = OstinatoModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def get_output_embeddings(self) -> nn.Linear:
        return self.lm_head

    def set_output_embeddings(self, new_embeddings: nn.Linear) -> None:
        self.lm_head = new_embeddings

    @classmethod
    def _supports_default_dynamic_cache(cls) -> bool:
        return False  # its cache is OstinatoCache, made by the first call

    def forward(self, input_ids=None, attention_mask=None, past_key_values=None, cache=None, labels=None, use_cache=None,
                logits_to_keep=0, output_hidden_states=None, return_dict=None, inputs_embeds=None, output_attentions=None,
                num_items_in_batch=None):  # fmt: skip
        """As OstinatoModel.  labels: [B, T], -100 is not counted; label t is compared with what was predicted at t - 1.

        logits_to_keep: only those of so many last tokens (0: of all, as labels need them).  num_items_in_batch: what the sum of losses
        is divided by, when a batch comes in several parts.
        """
        cache = self._cache(past_key_values, cache, use_cache)
        found = self.model(input_ids, attention_mask, cache=cache, use_cache=False, output_hidden_states=output_hidden_states,
                           return_dict=True, inputs_embeds=inputs_embeds, output_attentions=output_attentions)  # fmt: skip
        x_BTD = found.last_hidden_state[:, -logits_to_keep:] if logits_to_keep and labels is None else found.last_hidden_state
        softcap, loss, logits = self.config.final_logit_softcapping, None, exact(self.lm_head(x_BTD))
        logits = logits if softcap is None else softcap * torch.tanh(logits / softcap)
        if labels is not None:
            wanted = labels[:, 1:].flatten().to(logits.device)
            loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), wanted, reduction="sum")
            loss = loss / ((wanted != -100).sum() if num_items_in_batch is None else num_items_in_batch)
        output = CausalLMOutputWithPast(loss, logits, cache, found.hidden_states)
        return output if _chosen(return_dict, self.config.return_dict) else output.to_tuple()

    def prepare_inputs_for_generation(self, input_ids, past_key_values=None, cache=None, attention_mask=None, use_cache=True,
                                      output_hidden_states=None, logits_to_keep=1, **_):  # fmt: skip
        """The tokens that the cache has not seen."""
        cache = past_key_values if cache is None else cache
        seen = 0 if cache is None else cache.get_seq_length()
        return {"input_ids": input_ids[:, seen:], "attention_mask": attention_mask, "cache": cache, "use_cache": use_cache,
                "output_hidden_states": output_hidden_states, "logits_to_keep": logits_to_keep}  # fmt: skip


class OstinatoForSequenceClassification(OstinatoPreTrainedModel):
    """A class (or a number) for a text, from the normed stream at its last real token."""

    def __init__(self, config: OstinatoConfig):
        super().__init__(config)
        self.model = OstinatoModel(config)
        self.score = nn.Linear(config.hidden_size, config.num_labels, bias=False)
        self.post_init()

    def forward(self, input_ids=None, attention_mask=None, labels=None, output_hidden_states=None, return_dict=None, inputs_embeds=None,
                output_attentions=None):  # fmt: skip
        found = self.model(input_ids, attention_mask, use_cache=False, output_hidden_states=output_hidden_states, return_dict=True,
                           inputs_embeds=inputs_embeds, output_attentions=output_attentions)  # fmt: skip
        real_BT = torch.ones_like(input_ids) if attention_mask is None else attention_mask.long()
        last_B = (real_BT * torch.arange(1, real_BT.shape[1] + 1, device=real_BT.device)).argmax(1)
        logits = exact(self.score(found.last_hidden_state[torch.arange(len(last_B), device=last_B.device), last_B]))
        loss = None
        if labels is not None:
            one = self.config.num_labels == 1
            loss = F.mse_loss(logits[:, 0], labels.to(logits.dtype)) if one else F.cross_entropy(logits, labels)
        output = SequenceClassifierOutput(loss=loss, logits=logits, hidden_states=found.hidden_states)
        return output if _chosen(return_dict, self.config.return_dict) else output.to_tuple()


def _chosen(asked: bool | None, otherwise: bool) -> bool:
    return otherwise if asked is None else asked
