"""The attention of a model of transformers, as attention.py shows that of ours.

Such models call their attention by name from one table of functions (sdpa, flash_attention_2, …), with q, k and v as the kernel takes them.
For one forward pass the function of that name is put behind one that looks on; it is the same function that computes. Masks that
a model makes in other ways, soft caps and sinks are not in what is shown: where a model has them, P v is not the kernel's output.

Shapes as in attention.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ostinato.measure.attention import Attended, See
from ostinato.measure.context import Unfit
from ostinato.measure.foreign import Foreign


@torch.no_grad()
def watch_foreign(subject: Foreign, tokens_BT: Tensor, see: See) -> None:
    """A forward pass that shows the attention of every application to `see`, in their order.

    Raises OstinatoError for a model whose layers do not call one such function each, and as `Foreign.hidden`.
    """
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    name = subject.model.config.get_text_config()._attn_implementation
    genuine = ALL_ATTENTION_FUNCTIONS.get(name)
    seen: list[Attended] = []

    def look(module: nn.Module, q_BHTE: Tensor, k_BKTE: Tensor, v_BKTE: Tensor, *rest: Any, **given: Any) -> tuple[Tensor, Any]:
        found = genuine(module, q_BHTE, k_BKTE, v_BKTE, *rest, **given)
        scale = given.get("scaling")
        one = Attended(len(seen), q_BHTE, k_BKTE, v_BKTE, found[0].transpose(1, 2), q_BHTE.shape[-1] ** -0.5 if scale is None else scale,
                       given.get("sliding_window"))  # fmt: skip
        seen.append(one)
        see(one)
        return found

    if genuine is not None:
        _instead(ALL_ATTENTION_FUNCTIONS, name, look, lambda: subject.hidden(tokens_BT))
    if len(seen) != len(subject.labels):
        raise Unfit(f"{subject.name} attends {len(seen)} times in {len(subject.labels)} applications by the function {name!r}",
                    "heads are read where every layer calls one attention function of transformers",
                    'load the model with attn_implementation="sdpa", or leave `heads` out')  # fmt: skip


def _instead(table: Any, name: str, function: Callable, work: Callable[[], Any]) -> None:
    """Do `work` with another function of that name in the table."""
    before = table._local_mapping.get(name)
    table[name] = function
    try:
        work()
    finally:
        del table[name]
        if before is not None:
            table[name] = before
