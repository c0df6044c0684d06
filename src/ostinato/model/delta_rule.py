"""One interface to the gated delta rule, three ways to compute it.

    torch       chunks, in torch (delta.py): any device and dtype, training and evaluation
    recurrent   a token at a time, in torch: what a chunk of one token comes to, for generation
    fla         the Triton kernels of flash-linear-attention (Yang and Zhang), on CUDA: `pip install ostinato[fla]`

`auto` takes fla on CUDA where it is installed and heads are not too wide for its kernels, else torch; a single token without gradient is
always recurrent. A backend that was asked
for is never replaced: when it cannot run, that is an error. `choose` says which and why, for the log.
"""

from __future__ import annotations

import importlib.util
from typing import Literal

import torch
from torch import Tensor

from ostinato.errors import OstinatoError
from ostinato.model.delta import UNIT_EPS, chunked
from ostinato.model.spans import Spans

DeltaBackend = Literal["auto", "torch", "recurrent", "fla"]
FLA_MOST_HEAD_DIM = 256
_FOUND = importlib.util.find_spec("fla")  # looked up once: every application asks


def gated_delta_rule(q_BTHE: Tensor, k_BTHE: Tensor, v_BTHE: Tensor, g_BTH: Tensor, beta_BTH: Tensor, *, spans: Spans | None = None,
                     initial_state: Tensor | None = None, final: bool = False,
                     backend: DeltaBackend = "auto") -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """Outputs [B, T, H, E] in the dtype of v, and with `final` the state after the last token, [B, H, key, value], float32 or better.

    q, k: as they come; every backend divides by √(|x|² + 1e-6), and q by √E.  g: log decay, at most 0.  beta: from 0 to 1.
    spans: where documents begin; the first position of a row continues `initial_state` (None: zeros).
    Raises OstinatoError when the backend asked for cannot run.
    """
    backend, _ = choose(backend, q_BTHE.device, q_BTHE.shape[-1])
    if backend == "recurrent" or (q_BTHE.shape[1] == 1 and not torch.is_grad_enabled()):
        out, state = recurrent(q_BTHE, k_BTHE, v_BTHE, g_BTH, beta_BTH, spans and spans.starts_BT, initial_state)
    elif backend == "fla":
        out, state = _fla(q_BTHE, k_BTHE, v_BTHE, g_BTH, beta_BTH, spans, initial_state, final)
    else:
        out, state = chunked(q_BTHE, k_BTHE, v_BTHE, g_BTH, beta_BTH, starts_BT=spans and spans.starts_BT, state_BHEE=initial_state)
    return out, state if final else None


def choose(backend: DeltaBackend, device: torch.device, head_dim: int) -> tuple[Literal["torch", "recurrent", "fla"], str]:
    """The backend for a device and heads of this size, and why in words. Raises OstinatoError when the one asked for cannot run there."""
    on_gpu, installed, wide = device.type == "cuda", fla_installed(), head_dim > FLA_MOST_HEAD_DIM
    most = f"its kernels take heads of at most {FLA_MOST_HEAD_DIM} channels, and these have {head_dim}"
    if backend == "fla" and (wide or not on_gpu or not installed):
        what = f"its kernels run on CUDA, and this is {device}" if not on_gpu else most
        what = what if installed else "flash-linear-attention is not installed"
        raise OstinatoError("the backend fla of the gated delta rule was asked for", what,
                            "pip install ostinato[fla] on a machine with a GPU, or use the backend torch or auto")  # fmt: skip
    if backend != "auto":
        return backend, "asked for"
    if on_gpu and installed:
        return ("torch", f"flash-linear-attention: {most}") if wide else ("fla", "flash-linear-attention is installed")
    return "torch", "not on CUDA" if not on_gpu else "flash-linear-attention is not installed: pip install ostinato[fla]"


def fla_installed() -> bool:
    """Whether flash-linear-attention can be imported."""
    return _FOUND is not None and _FOUND.origin is not None  # a folder that happens to be called fla has no origin


def recurrent(q_BTHE: Tensor, k_BTHE: Tensor, v_BTHE: Tensor, g_BTH: Tensor, beta_BTH: Tensor, starts_BT: Tensor | None,
              state_BHEE: Tensor | None) -> tuple[Tensor, Tensor]:  # fmt: skip
    """One token after another; differentiable by autograd. Shapes and meaning as in `chunked`."""
    dtype = torch.promote_types(v_BTHE.dtype, torch.float32)
    q, k, v, g, beta = (part.to(dtype).transpose(1, 2) for part in (q_BTHE, k_BTHE, v_BTHE, g_BTH, beta_BTH))
    q, k = (part * (part.square().sum(-1, keepdim=True) + UNIT_EPS).rsqrt() for part in (q, k))
    q, leave = q * q.shape[-1] ** -0.5, g.exp()
    if starts_BT is not None:
        leave = leave.masked_fill(starts_BT[:, None], 0)
    state = q.new_zeros(*q.shape[:2], q.shape[-1], q.shape[-1]) if state_BHEE is None else state_BHEE.to(dtype)
    outputs = []
    for t in range(q.shape[2]):
        key, state = k[:, :, t, :, None], state * leave[:, :, t, None, None]
        write = beta[:, :, t, None] * (v[:, :, t] - (state * key).sum(-2))
        state = state + key * write[..., None, :]
        outputs.append((state * q[:, :, t, :, None]).sum(-2))
    return torch.stack(outputs, 1).to(v_BTHE.dtype), state


def _fla(q_BTHE: Tensor, k_BTHE: Tensor, v_BTHE: Tensor, g_BTH: Tensor, beta_BTH: Tensor, spans: Spans | None,
         state_BHEE: Tensor | None, final: bool) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """fla.ops.gated_delta_rule.chunk_gated_delta_rule (0.6): states [stretches, H, key, value]; stretches of any length in one row."""
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule

    batch, length = q_BTHE.shape[:2]
    given = [part.contiguous() for part in (q_BTHE, k_BTHE, v_BTHE, g_BTH.float(), beta_BTH.float())]
    size = {"scale": q_BTHE.shape[-1] ** -0.5, "output_final_state": final, "use_qk_l2norm_in_kernel": True}
    if spans is None:
        return chunk_gated_delta_rule(*given, initial_state=state_BHEE, **size)
    bounds = spans.bounds
    first = torch.searchsorted(bounds, torch.arange(batch, device=bounds.device) * length)  # the stretch that a row begins with
    if state_BHEE is not None:
        state_BHEE = state_BHEE.new_zeros(len(bounds) - 1, *state_BHEE.shape[1:]).index_copy(0, first, state_BHEE)
    out, state = chunk_gated_delta_rule(*(part.flatten(0, 1)[None] for part in given), initial_state=state_BHEE, cu_seqlens=bounds, **size)
    if final:
        last = torch.cat((first[1:], first.new_tensor([len(bounds) - 1]))) - 1
        state = state[last]
    return out[0].unflatten(0, (batch, length)), state
