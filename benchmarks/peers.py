"""The peers of a training step: functions that give a module from tokens [B, T] to logits [B, T, V], of one of harness.SHAPES.

All have the ledger's shape: the width, layers, heads and vocabulary given, a tied head, no biases, float32, no dropout, fused attention.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from harness import Shape
from torch import Tensor, nn


class Block(nn.Module):
    """Of NanoGPT: LayerNorm, attention by one product for q, k and v, LayerNorm, an MLP of four times the width with GELU."""

    def __init__(self, shape: Shape):
        super().__init__()
        self.heads = shape.heads
        self.norm_1, self.norm_2 = nn.LayerNorm(shape.width, bias=False), nn.LayerNorm(shape.width, bias=False)
        self.qkv, self.out = nn.Linear(shape.width, 3 * shape.width, bias=False), nn.Linear(shape.width, shape.width, bias=False)
        self.up, self.down = nn.Linear(shape.width, 4 * shape.width, bias=False), nn.Linear(4 * shape.width, shape.width, bias=False)

    def forward(self, x_BTD: Tensor) -> Tensor:
        parts = self.qkv(self.norm_1(x_BTD)).split(x_BTD.shape[-1], dim=-1)
        q_BHTE, k_BHTE, v_BHTE = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        y_BHTE = F.scaled_dot_product_attention(q_BHTE, k_BHTE, v_BHTE, is_causal=True)
        x_BTD = x_BTD + self.out(y_BHTE.transpose(1, 2).flatten(2))
        return x_BTD + self.down(F.gelu(self.up(self.norm_2(x_BTD))))


class NanoGPT(nn.Module):
    """The published architecture of karpathy/nanoGPT, bias False: learned positions, GPT-2's blocks, a final norm, a tied head."""

    def __init__(self, shape: Shape):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(shape.vocab, shape.width), nn.Embedding(shape.context, shape.width)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width, bias=False)
        for parameter in self.parameters():
            if parameter.ndim == 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens_BT: Tensor) -> Tensor:
        x_BTD = self.tokens(tokens_BT) + self.positions(torch.arange(tokens_BT.shape[1]))
        for block in self.blocks:
            x_BTD = block(x_BTD)
        return F.linear(self.norm(x_BTD), self.tokens.weight)


def hugging_face(shape: Shape) -> nn.Module:
    """LlamaForCausalLM of transformers with torch's fused attention."""
    from transformers import LlamaConfig, LlamaForCausalLM

    class Logits(nn.Module):
        def __init__(self, model: nn.Module):
            super().__init__()
            self.model = model

        def forward(self, tokens_BT: Tensor) -> Tensor:
            return self.model(tokens_BT).logits

    config = LlamaConfig(vocab_size=shape.vocab, hidden_size=shape.width, intermediate_size=shape.hidden, num_hidden_layers=shape.layers,
                         num_attention_heads=shape.heads, max_position_embeddings=shape.context, tie_word_embeddings=True,
                         attn_implementation="sdpa", use_cache=False)  # fmt: skip
    return Logits(LlamaForCausalLM(config))


def x_transformers(shape: Shape) -> nn.Module:
    """A Llama-like decoder of lucidrains/x-transformers: RMS norm, rotary positions, SwiGLU, torch's fused attention."""
    from x_transformers import Decoder, TransformerWrapper

    layers = Decoder(dim=shape.width, depth=shape.layers, heads=shape.heads, attn_dim_head=shape.width // shape.heads,
                     rotary_pos_emb=True, rotary_emb_dim=shape.width // shape.heads, use_rmsnorm=True, attn_flash=True,
                     ff_glu=True, ff_swish=True, ff_no_bias=True, ff_mult=shape.hidden / shape.width)  # fmt: skip
    return TransformerWrapper(num_tokens=shape.vocab, max_seq_len=shape.context, attn_layers=layers, tie_embedding=True,
                              use_abs_pos_emb=False)  # fmt: skip


PEERS: dict[str, Callable[[Shape], nn.Module]] = {
    "Hugging Face Llama": hugging_face, "nanoGPT": NanoGPT, "x-transformers": x_transformers,
}  # fmt: skip


def step(model: nn.Module, shape: Shape, tokens: Callable[[], tuple[Tensor, Tensor]], compiled: bool = False) -> Callable[[], float]:
    """A whole training step of a peer: loss, gradients, fused AdamW."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1, fused=True)

    def loss(tokens_BT: Tensor, targets_BT: Tensor) -> Tensor:
        return F.cross_entropy(model(tokens_BT).view(-1, shape.vocab), targets_BT.view(-1))

    found = torch.compile(loss, dynamic=False) if compiled else loss

    def take() -> float:
        optimizer.zero_grad(set_to_none=True)
        nats = found(*tokens())
        nats.backward()
        optimizer.step()
        return nats.item()

    return take
