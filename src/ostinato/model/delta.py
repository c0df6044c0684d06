"""The gated delta rule in chunks: the same numbers as one token at a time, in a few large products.

    S_t = α_t S_{t-1} (I − β_t k_t k_tᵀ) + β_t v_t k_tᵀ,   o_t = S_t q_t          (Yang et al., arXiv 2412.06464; α = exp(g))

A row is cut into chunks of C tokens. With S the state [key, value] before a chunk and, inside it,

    D_ij = β_j exp(g_{j+1} + … + g_i) for i ≥ j, else 0        what token j's write is worth when token i reads
    e_i  = exp(g_1 + … + g_i)          f_j = D_Cj          P = D ∘ QKᵀ          M = D ∘ KKᵀ below the diagonal

the corrections U that the tokens write solve a triangular system, and everything else is a product (section 3.3 there):

    Y = V − e∘K S        U = (I + M)⁻¹ Y        O = e∘Q S + P U        S' = e_C S + (f∘K)ᵀ U

(I + M)⁻¹ is one batched forward substitution against the identity; its entries are at most about 1 because every step is a
contraction, while the powers that a repeated squaring would form reach 10⁸ for equal keys. Only the three small products with S are a loop.

Sums of g are differences of running sums. Where i < j they may overflow; those entries are set to 0, and no gradient passes through
them. A running sum is kept in two parts, multiples of 1/64 (exact) and the rest (small): the digits of a small decay survive beside a
decay of -1000, and beside the start of a document, which is a decay that leaves exactly nothing.

The backward pass is written by hand (Function below; it cannot be differentiated again). Its loop runs over the chunks in reverse:

    dU = Pᵀ dO + f∘K dS'       dY = (I + M)⁻ᵀ dU       dS = e_C dS' + (e∘Q)ᵀ dO − (e∘K)ᵀ dY

and, D being an exponential, the gradients of its exponents are row sums: those of g and log β are sums of q·dq, k·dk.
Lengths need not be multiples of C. Products are in float32 or better, whatever the inputs are.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from ostinato.ledger.memory import DELTA_CHUNK

CHUNK = DELTA_CHUNK
"""The fastest of 16, 32 and 64 on one CPU core at heads of 16 and of 64 (benchmarks/delta.py)."""
UNIT_EPS = 1e-6
LEAST_BETA = 1e-30
LOG2_E = 1.4426950408889634
Passed = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]
Six = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]
GRAIN = 64
"""Running sums of g are kept in multiples of 1 / GRAIN, and the rest."""


def chunked(q_BTHE: Tensor, k_BTHE: Tensor, v_BTHE: Tensor, g_BTH: Tensor, beta_BTH: Tensor, *, starts_BT: Tensor | None = None,
            state_BHEE: Tensor | None = None, chunk: int = CHUNK) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Outputs [B, T, H, E] in the dtype of v, and the last state [B, H, key, value] in float32 or better.

    q, k: as they come; normalised here (to |x| = 1, q then divided by √E).  g_BTH: log decay, at most 0.  beta_BTH: 0 to 1.
    starts_BT: bool, where a new document begins and the state is left behind.  state_BHEE: before the first token (None: zeros).
    """
    given = (q_BTHE, k_BTHE, v_BTHE, g_BTH, beta_BTH, starts_BT, state_BHEE, min(chunk, q_BTHE.shape[1]))
    return _opaque(*given)[:2] if torch.compiler.is_dynamo_compiling() else Chunked.apply(*given)


def forget(dtype: torch.dtype) -> float:
    """A log₂ of a decay that leaves exactly nothing, small enough for the sums of a chunk to keep multiples of 1 / GRAIN."""
    return -1152.0 if dtype == torch.float64 else -256.0


class Chunked(torch.autograd.Function):
    """The two passes below, and what goes from one to the other."""

    @staticmethod
    def forward(ctx, *given):
        out, last, *kept = forward(*given)
        _keep(ctx, given, (out, last, *kept))
        return out, last

    @staticmethod
    @once_differentiable
    def backward(ctx, d_out, d_last):
        return _gradients(ctx, backward, d_out, d_last)


def forward(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, starts: Tensor | None, state: Tensor | None, size: int) -> Passed:
    """Outputs, last state, and nine tensors for `backward`.

    N = chunks · B · H, the chunk first; Q, K and V of a chunk lie one below the other.  size: C.
    """
    batch, length, heads, width = q.shape
    count, dtype = -(-length // size), torch.promote_types(v.dtype, torch.float32)
    qk, values = (v.new_empty(count, batch, heads, parts, size, width, dtype=dtype) for parts in (2, 1))
    for part, to in zip((q, k, v), (*qk.unbind(3), values[:, :, :, 0]), strict=True):
        _to_chunks(to, part)
    qk, values = (part.view(-1, part.shape[3] * size, width) for part in (qk, values))
    norm = qk.square().sum(-1, keepdim=True).add_(UNIT_EPS).rsqrt_()
    norm[:, :size] *= width**-0.5
    qk.mul_(norm)
    keys = qk[:, size:]

    logs = qk.new_empty(2, count, batch, heads, size, 1)
    for i, part in enumerate((g if starts is None else g.masked_fill(starts[..., None], float("-inf")), beta)):
        _to_chunks(logs[i], part.unsqueeze(-1))
    g2, beta = logs.view(2, -1, size)
    beta.clamp_(min=LEAST_BETA)
    decay, since = _decays(g2.mul_(LOG2_E).clamp_(min=forget(dtype)), beta.log2())

    reads, between = (part * decay for part in torch.bmm(qk, keys.mT).unflatten(1, (2, size)).unbind(1))
    # from the right: for the identity the answer is the same, and half the time of the substitution from the left
    eye = torch.eye(size, dtype=dtype, device=qk.device).expand_as(between)
    solved = torch.linalg.solve_triangular(between, eye, upper=False, left=False, unitriangular=True)

    far, kept, left = _seen_from_afar(qk, decay, since)
    far_q, far_k = far.unbind(1)
    rows, chunks = batch * heads, (count, batch * heads)
    states = qk.new_empty(count + 1, rows, width, width)
    states[0] = 0 if state is None else state.reshape(-1, width, width)
    updates = qk.new_empty(count * rows, size, width)
    parts = (values, far_k, solved, kept.mT, left, updates)
    for now, then, value, far_key, inverse, kept_key, remaining, update in zip(
        states[:-1], states[1:], *(part.unflatten(0, chunks) for part in parts), strict=True
    ):
        update.copy_(torch.bmm(inverse, torch.baddbmm(value, far_key, now, alpha=-1)))
        then.copy_(torch.baddbmm(now * remaining, kept_key, update))
    out = torch.bmm(reads, updates).baddbmm_(far_q, states[:-1].flatten(0, 1))
    kept = (qk, norm, beta, decay, since, reads, solved, updates, states)
    return _to_rows(out, v.shape, v.dtype), states[-1].unflatten(0, (batch, heads)).clone(), *kept


def backward(d_out: Tensor, d_last: Tensor, kept: list[Tensor]) -> Six:
    """Gradients of q, k, v, g, beta and the first state, float32 or better."""
    qk, norm, beta, decay, since, reads, solved, updates, states = kept
    batch, _, heads, width = d_out.shape
    count, size = len(states) - 1, decay.shape[-1]
    keys, chunks = qk[:, size:], (count, batch * heads)
    far, kept, left = _seen_from_afar(qk, decay, since)
    far_q, far_k = far.unbind(1)
    pulls = torch.empty_like(qk, memory_format=torch.contiguous_format)  # dO, then −dY
    _to_chunks(pulls.view(count, batch, heads, 2, size, width)[:, :, :, 0], d_out)
    d_o, d_y = pulls[:, :size], pulls[:, size:]

    d_after = torch.empty_like(states[1:])
    now = d_last.reshape(-1, width, width).to(qk.dtype)
    parts = (torch.bmm(reads.mT, d_o), torch.bmm(far_q.mT, d_o), kept, solved.mT, far_k.mT, left, d_y)
    for after, d_update, d_before, kept_key, inverse, far_key, remaining, to in reversed(
        list(zip(d_after, *(part.unflatten(0, chunks) for part in parts), strict=True))
    ):
        after.copy_(now)
        here = torch.bmm(inverse, torch.baddbmm(d_update, kept_key, now))
        to.copy_(here.neg())
        now = torch.addcmul(d_before, now, remaining).baddbmm_(far_key, here, alpha=-1)
    d_after = d_after.flatten(0, 1)

    rows = torch.bmm(pulls, states[:-1].flatten(0, 1).mT).unflatten(1, (2, size)).mul_(since[:, None, :, None]).flatten(1, 2)
    inner = torch.bmm(pulls, updates.mT).unflatten(1, (2, size)).mul_(decay.unsqueeze(1))
    inner[:, 1].diagonal(dim1=-2, dim2=-1).zero_()
    inner = inner.flatten(1, 2)
    rows.baddbmm_(inner, keys)  # dQ, and dK as the one that reads
    columns = torch.bmm(updates, d_after.mT).mul_(decay[:, -1].unsqueeze(-1)).baddbmm_(inner.mT, qk)  # dK as the one that is read

    along_rows = (rows * qk).sum(-1)
    along_columns = (columns * keys).sum(-1)
    d_sums = along_rows[:, :size] + along_rows[:, size:] - along_columns
    d_sums[:, -1] += (d_after * states[1:].flatten(0, 1)).sum((1, 2))
    d_g = d_sums @ d_sums.new_ones(size, size).tril_()  # every sum that a g is part of
    d_beta = along_columns / beta

    rows[:, size:] += columns
    along_rows[:, :size] *= width
    along_rows[:, size:] += along_columns
    d_q, d_k = rows.addcmul_(qk, along_rows.unsqueeze(-1), value=-1).mul_(norm).unflatten(1, (2, size)).unbind(1)
    given = (d_q, d_k, d_y.neg(), d_g.unsqueeze(-1), d_beta.unsqueeze(-1))
    d_q, d_k, d_v, d_g, d_beta = (_to_rows(part, (*d_out.shape[:3], part.shape[-1]), part.dtype) for part in given)
    return d_q, d_k, d_v, d_g.squeeze(-1), d_beta.squeeze(-1), now.unflatten(0, (batch, heads))


def _apart(d_out: Tensor, d_last: Tensor, kept: list[Tensor]) -> Six:
    """`backward`, its results in memory of their own, as an operation must leave them."""
    d_q, d_k, *others = backward(d_out, d_last, kept)
    return d_q, d_k.clone(), *others


# For the compiler the two passes are operations that it does not look into, as in blocks.py: traced, they took minutes to compile.
_opaque = torch.library.custom_op("ostinato::delta_in_chunks", forward, mutates_args=())
_opaque_backward = torch.library.custom_op("ostinato::delta_in_chunks_backward", _apart, mutates_args=())
_opaque.register_fake(forward)
_opaque_backward.register_fake(_apart)


def _keep(ctx, inputs: tuple, output: tuple[Tensor, ...]) -> None:
    ctx.dtypes = [None if part is None else part.dtype for part in (*inputs[:5], inputs[6])]
    ctx.save_for_backward(*output[2:])


def _gradients(ctx, backward: Callable[..., Six], d_out: Tensor, d_last: Tensor) -> tuple[Tensor | None, ...]:
    found = backward(d_out, d_last, list(ctx.saved_tensors))
    *inputs, state = (None if dtype is None else part.to(dtype) for part, dtype in zip(found, ctx.dtypes, strict=True))
    return *inputs, None, state, None


_opaque.register_autograd(lambda ctx, d_out, d_last, *_: _gradients(ctx, _opaque_backward, d_out, d_last), setup_context=_keep)


def _to_chunks(to: Tensor, part_BTHE: Tensor) -> None:
    """Write [B, T, H, E] into [chunks, B, H, C, E]; zeros behind the end."""
    count, size, length = to.shape[0], to.shape[3], part_BTHE.shape[1]
    if count * size != length:
        part_BTHE = F.pad(part_BTHE, (0, 0, 0, 0, 0, count * size - length))
    to.copy_(part_BTHE.unflatten(1, (count, size)).permute(1, 0, 3, 2, 4))


def _to_rows(part: Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """[N, C, E] back to [B, T, H, E]."""
    batch, length, heads, _ = shape
    rows = part.unflatten(0, (-1, batch, heads)).permute(1, 0, 3, 2, 4)
    return rows.to(dtype).flatten(1, 2)[:, :length]


def _decays(g2_NC: Tensor, beta2_NC: Tensor) -> tuple[Tensor, Tensor]:
    """D [N, C, C] and e [N, C], from logarithms to base 2 (a third of the time of those to base e)."""
    coarse = (g2_NC * GRAIN).round_().div_(GRAIN)
    coarse, fine = torch.stack((coarse, g2_NC - coarse)).cumsum(-1)
    logs = coarse.unsqueeze(-1) - coarse.unsqueeze(-2)
    logs.add_(fine.unsqueeze(-1)).add_((beta2_NC - fine).unsqueeze(-2))
    return logs.exp2_().tril_(), (coarse + fine).exp2_()


def _seen_from_afar(qk: Tensor, decay: Tensor, since: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """e∘Q and e∘K [N, 2, C, E], f∘K [N, C, E], e_C [N, 1, 1]."""
    size = decay.shape[-1]
    return qk.unflatten(1, (2, size)) * since[:, None, :, None], qk[:, size:] * decay[:, -1].unsqueeze(-1), since[:, -1:, None]
