"""The gated delta rule in chunks: the same numbers as one token at a time, in a few large products.

    S_t = α_t S_{t-1} (I − β_t k_t k_tᵀ) + β_t v_t k_tᵀ,   o_t = S_t q_t          (Yang et al., arXiv 2412.06464; α = exp(g))

A row is cut into chunks of C tokens. With S the state [key, value] before a chunk and, inside it,

    D_ij = β_j exp(g_{j+1} + … + g_i) for i ≥ j, else 0        what token j's write is worth when token i reads
    e_i  = exp(g_1 + … + g_i)          f_j = D_Cj          P = D ∘ QKᵀ          M = D ∘ KKᵀ below the diagonal

the corrections U that the tokens write solve a triangular system, and everything else is a product (section 3.3 there):

    Y = V − e∘K S        U = (I + M)⁻¹ Y        O = e∘Q S + P U        S' = e_C S + (f∘K)ᵀ U

(I + M)⁻¹ is one batched forward substitution against the identity; its entries are at most about 1 because every step is a
contraction, while the powers that a repeated squaring would form reach 10⁸ for equal keys. Only the three small products with S are a loop.

Sums of g are differences of running sums, taken only where i ≥ j and before the exponential, so nothing overflows. A running sum is kept
in two parts, multiples of 1/64 (exact) and the rest (below 1): the digits of a small decay survive beside a decay of -1000, and
beside the start of a document, which is a decay that leaves exactly nothing.

The backward pass is written by hand (Function below; it cannot be differentiated again). Its loop runs over the chunks in reverse:

    dU = Pᵀ dO + f∘K dS'       dY = (I + M)⁻ᵀ dU       dS = e_C dS' + (e∘Q)ᵀ dO − (e∘K)ᵀ dY

and, D being an exponential, the gradients of its exponents are row sums: those of g and log β are sums of q·dq, k·dk.
Lengths need not be multiples of C. Products are in float32 or better, whatever the inputs are.
"""

from __future__ import annotations

import functools

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

CHUNK = 32
"""Tokens of a chunk: the fastest of 16, 32 and 64 on one CPU core at heads of 16 and of 64 (benchmarks/delta_speed.py)."""
UNIT_EPS = 1e-6
LEAST_BETA = 1e-30
GRAIN = 64
"""Running sums of g are kept in multiples of 1 / GRAIN, and the rest."""


def chunked(q_BTHE: Tensor, k_BTHE: Tensor, v_BTHE: Tensor, g_BTH: Tensor, beta_BTH: Tensor, *, starts_BT: Tensor | None = None,
            state_BHEE: Tensor | None = None, chunk: int = CHUNK) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Outputs [B, T, H, E] in the dtype of v, and the last state [B, H, key, value] in float32 or better.

    q, k: as they come; normalised here (to |x| = 1, q then divided by √E).  g_BTH: log decay, at most 0.  beta_BTH: 0 to 1.
    starts_BT: bool, where a new document begins and the state is left behind.  state_BHEE: before the first token (None: zeros).
    """
    return Chunked.apply(q_BTHE, k_BTHE, v_BTHE, g_BTH, beta_BTH, starts_BT, state_BHEE, min(chunk, q_BTHE.shape[1]))


def forget(dtype: torch.dtype) -> float:
    """A log decay that leaves exactly nothing, and that sums of one chunk still hold to 1 / GRAIN."""
    return -800.0 if dtype == torch.float64 else -200.0


class Chunked(torch.autograd.Function):
    """The forward and backward pass above.  N = B · H · chunks; a chunk's queries, keys and values lie one after another."""

    @staticmethod
    def forward(ctx, q, k, v, g, beta, starts, state, size):
        batch, length, heads, width = q.shape
        count = -(-length // size)
        dtype = torch.promote_types(v.dtype, torch.float32)
        x = v.new_empty(batch, heads, count, 3, size, width, dtype=dtype)
        for i, part in enumerate((q, k, v)):
            _to_chunks(x[:, :, :, i], part)
        x = x.view(-1, 3 * size, width)
        qk, v_ = x[:, : 2 * size], x[:, 2 * size :]
        norm = qk.square().sum(-1, keepdim=True).add_(UNIT_EPS).rsqrt_()
        norm[:, :size] *= width**-0.5
        qk.mul_(norm)
        keys = qk[:, size:]

        logs = x.new_empty(2, batch, heads, count, size)
        for i, part in enumerate((g if starts is None else g.masked_fill(starts[..., None], float("-inf")), beta)):
            _to_chunks(logs[i].unsqueeze(-1), part.unsqueeze(-1))
        logs = logs.view(2, -1, size)
        beta_ = logs[1].clamp_(min=LEAST_BETA)
        decay, since = _decays(logs[0].clamp_(min=forget(dtype)), beta_.log())
        since_ = since.unsqueeze(-1)

        scores = (qk @ keys.mT).unflatten(1, (2, size)).mul_(decay.unsqueeze(1))
        reads, between = scores[:, 0], scores[:, 1]
        eye = _eye(size, dtype, x.device)
        solved = torch.linalg.solve_triangular(between, eye.expand_as(between), upper=False, unitriangular=True)

        far = qk.unflatten(1, (2, size)) * since_.unsqueeze(1)  # e∘Q and e∘K
        kept = keys * decay[:, -1].unsqueeze(-1)  # f∘K
        by_chunk = (batch * heads, count)
        far_k, kept_t, inverse, values = (part.unflatten(0, by_chunk) for part in (far[:, 1], kept.mT, solved, v_))
        left = since_[:, -1:].unflatten(0, by_chunk)
        states = x.new_empty(batch * heads, count + 1, width, width)
        states[:, 0] = 0 if state is None else state.reshape(-1, width, width)
        updates = torch.empty_like(values, memory_format=torch.contiguous_format)
        now = states[:, 0]
        for c in range(count):
            update = inverse[:, c] @ torch.baddbmm(values[:, c], far_k[:, c], now, alpha=-1)
            now = torch.baddbmm(now * left[:, c], kept_t[:, c], update)
            updates[:, c], states[:, c + 1] = update, now
        before = states[:, :-1].reshape(-1, width, width)
        updates = updates.flatten(0, 1)
        out = torch.baddbmm(reads @ updates, far[:, 0], before)
        ctx.save_for_backward(qk, norm, beta_, decay, since, reads, solved, updates, states)
        ctx.shape, ctx.kinds = (batch, length, heads, width, count, size), (q.dtype, k.dtype, v.dtype, g.dtype, beta.dtype)
        ctx.state_dtype = None if state is None else state.dtype
        final = now.unflatten(0, (batch, heads))
        return _to_rows(out, ctx.shape, v.dtype), final

    @staticmethod
    @once_differentiable
    def backward(ctx, d_out, d_state):
        qk, norm, beta, decay, since, reads, solved, updates, states = ctx.saved_tensors
        batch, _, heads, width, count, size = ctx.shape
        since_ = since.unsqueeze(-1)
        keys = qk[:, size:]
        far = qk.unflatten(1, (2, size)) * since_.unsqueeze(1)
        kept = keys * decay[:, -1].unsqueeze(-1)
        pulls = qk.new_empty(qk.shape)  # dO, then −dY
        _to_chunks(pulls.view(batch, heads, count, 2, size, width)[:, :, :, 0], d_out)
        d_o = pulls[:, :size]

        by_chunk = (batch * heads, count)
        d_update0 = (reads.mT @ d_o).unflatten(0, by_chunk)
        d_before0 = (far[:, 0].mT @ d_o).unflatten(0, by_chunk)
        kept_, inverse_t, far_kt = (part.unflatten(0, by_chunk) for part in (kept, solved.mT, far[:, 1].mT))
        left = since_[:, -1:].unflatten(0, by_chunk)
        d_y, d_after = pulls.unflatten(0, by_chunk)[:, :, size:], torch.empty_like(states[:, 1:])
        now = d_state.reshape(-1, width, width).to(qk.dtype)
        for c in reversed(range(count)):
            d_after[:, c] = now
            here = inverse_t[:, c] @ torch.baddbmm(d_update0[:, c], kept_[:, c], now)
            d_y[:, c] = -here
            now = torch.baddbmm(torch.addcmul(d_before0[:, c], now, left[:, c]), far_kt[:, c], here, alpha=-1)
        d_after = d_after.flatten(0, 1)

        rows = (pulls @ states[:, :-1].reshape(-1, width, width).mT).unflatten(1, (2, size)).mul_(since_.unsqueeze(1)).flatten(1, 2)
        inner = (pulls @ updates.mT).unflatten(1, (2, size)).mul_(decay.unsqueeze(1))
        inner[:, 1].diagonal(dim1=-2, dim2=-1).zero_()
        inner = inner.flatten(1, 2)
        rows = torch.baddbmm(rows, inner, keys)  # dQ, and dK as the one that reads
        columns = torch.baddbmm((updates @ d_after.mT).mul_(decay[:, -1].unsqueeze(-1)), inner.mT, qk)  # dK as the one that is read

        along_rows = (rows * qk).sum(-1).unflatten(1, (2, size))
        along_columns = (columns * keys).sum(-1)
        d_sums = along_rows.sum(1).sub_(along_columns)
        after = states[:, 1:].reshape(-1, width, width)
        d_sums[:, -1] += (d_after * after).sum((1, 2))
        d_g = d_sums @ _ones_below(size, qk.dtype, qk.device)  # every sum that a g is part of
        d_beta = along_columns / beta

        rows[:, size:] += columns
        along = along_rows.flatten(1)
        along[:, :size] *= width
        along[:, size:] += along_columns
        d_qk = rows.addcmul_(qk, along.unsqueeze(-1), value=-1).mul_(norm)
        d_qk = d_qk.unflatten(1, (2, size))
        kinds = ctx.kinds
        d_q, d_k = (_to_rows(d_qk[:, i], ctx.shape, kinds[i]) for i in (0, 1))
        d_v = _to_rows(pulls[:, size:].neg(), ctx.shape, kinds[2])
        d_g, d_beta = (_to_rows(part.unsqueeze(-1), ctx.shape, kind).squeeze(-1) for part, kind in ((d_g, kinds[3]), (d_beta, kinds[4])))
        d_initial = None if ctx.state_dtype is None else now.unflatten(0, (batch, heads)).to(ctx.state_dtype)
        return d_q, d_k, d_v, d_g, d_beta, None, d_initial, None


def _to_chunks(to: Tensor, part_BTHE: Tensor) -> None:
    """Write [B, T, H, E] into [B, H, chunks, C, E]; zeros behind the end."""
    count, size, length = *to.shape[2:4], part_BTHE.shape[1]
    if count * size != length:
        part_BTHE = F.pad(part_BTHE, (0, 0, 0, 0, 0, count * size - length))
    to.copy_(part_BTHE.unflatten(1, (count, size)).permute(0, 3, 1, 2, 4))


def _to_rows(part: Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """[N, C, E] back to [B, T, H, E]."""
    batch, length, heads, _, count, _ = shape
    rows = part.unflatten(0, (batch, heads, count)).permute(0, 2, 3, 1, 4)
    return rows.to(dtype, memory_format=torch.contiguous_format).flatten(1, 2)[:, :length]


def _decays(g_NC: Tensor, log_beta_NC: Tensor) -> tuple[Tensor, Tensor]:
    """D [N, C, C] and e [N, C]."""
    coarse = (g_NC * GRAIN).round_().div_(GRAIN)
    coarse, fine = torch.stack((coarse, g_NC - coarse)).cumsum(-1)
    size = g_NC.shape[-1]
    logs = coarse.unsqueeze(-1) - coarse.unsqueeze(-2)
    logs.add_(fine.unsqueeze(-1)).add_((log_beta_NC - fine).unsqueeze(-2)).add_(_infinite_above(size, g_NC.dtype, g_NC.device))
    return logs.exp_(), (coarse + fine).exp_()


@functools.lru_cache(maxsize=32)
def _eye(size: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.eye(size, dtype=dtype, device=device)


@functools.lru_cache(maxsize=32)
def _infinite_above(size: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.full((size, size), float("-inf"), dtype=dtype, device=device).triu(1)


@functools.lru_cache(maxsize=32)
def _ones_below(size: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.ones(size, size, dtype=dtype, device=device).tril()
