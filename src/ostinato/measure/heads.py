"""What every head of every application looks at: three scores, on repeated random tokens and on real windows.

For a query at position i with token t, the keys j < i that it sees and that are …

    induction   … behind an earlier t: token[j - 1] = t         (Olsson et al., arXiv 2209.11895: what came after t the last time)
    previous    … the one before: j = i - 1
    duplicate   … an earlier t: token[j] = t

A score is the attention mass on those keys, summed over the queries that see at least one of them; `chance` is what evenly spread attention
would put there, summed alike. One division makes a mean of either. Two texts:

    repeated    BOS, then up to 64 different random tokens twice over; queries are those of the second time. Nothing but copying can help,
                so a high induction score is a copying head. Short enough for most windows.
    windows     real windows as the losses are measured on; queries are those that predict a target.

A query counts where it sees a key of the kind: what a window or a document mask hides is not asked for. Weights are computed again from q
and k (attention.py); where they do not give the kernel's own output back to 0.3%, the scores are of something else and are refused.

Shapes as in attention.py, and C scores.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from ostinato.analysis.heads import REPEATED, SCORES, WINDOWS
from ostinato.errors import OstinatoError
from ostinato.measure.attention import Attended, watch_attention
from ostinato.measure.columns import labelled
from ostinato.measure.context import Context, Taken, Unfit
from ostinato.measure.foreign import Foreign
from ostinato.measure.foreign_attention import watch_foreign
from ostinato.measure.subject import Ours
from ostinato.measure.windows import Windows, over_windows
from ostinato.model.blocks import Span

LARGEST_ERROR = 0.003
"""Of what the weights give, relative to the kernel's output."""
PERIOD, ROWS, SEED = 64, 16, 0


class Tally:
    """Sums by application, float64 but for counts: mass of every head and score, chance and count of every score.

    squares: of (what the weights give − the kernel's output), and of that output.
    """

    def __init__(self):
        self.mass_HC: dict[int, np.ndarray] = {}
        self.chance_C: dict[int, np.ndarray] = {}
        self.count_C: dict[int, np.ndarray] = {}
        self.squares_2: dict[int, np.ndarray] = {}

    def add(self, windows: Windows, seen: Attended) -> None:
        """What one application attended to in these windows."""
        tokens_BT, heads, groups = windows.tokens_BT, seen.q_BHTE.shape[1], seen.k_BKTE.shape[1]
        mass_KGC = torch.zeros(groups, heads // groups, len(SCORES), dtype=torch.float64, device=tokens_BT.device)
        chance_C, squares_2 = (torch.zeros(size, dtype=torch.float64, device=tokens_BT.device) for size in (len(SCORES), 2))
        count_C = torch.zeros(len(SCORES), dtype=torch.int64, device=tokens_BT.device)
        for span in seen.spans():
            seen_BRS = seen.seen(span)
            keys_CBRS = looked_at(tokens_BT, seen.documents_BT, span) & seen_BRS & windows.at_BT[:, span.first : span.last, None]
            count_C += keys_CBRS.any(-1).sum((1, 2))
            chance_C += (keys_CBRS.sum(-1) / seen_BRS.sum(-1).double()).sum((1, 2))
            for few, p_BKGRS in seen.weights(span, seen_BRS):
                squares_2 += torch.stack(seen.difference(span, few, p_BKGRS))
                for score, keys_BRS in enumerate(keys_CBRS):
                    mass_KGC[few, :, score] += (p_BKGRS * keys_BRS[:, None, None]).sum(-1).sum((0, 3), dtype=torch.float64)
        for sums, part in zip(vars(self).values(), (mass_KGC.flatten(0, 1), chance_C, count_C, squares_2), strict=True):
            sums[seen.application] = sums.get(seen.application, 0) + part.cpu().numpy()

    def __iadd__(self, other: Tally) -> Tally:
        for sums, more in zip(vars(self).values(), vars(other).values(), strict=True):
            sums.update({application: sums.get(application, 0) + part for application, part in more.items()})
        return self

    def error(self) -> float:
        """Of the application where it is largest; one whose kernel gave nothing but zeros must be zero."""
        return max(float(np.sqrt(off / (own or 1.0))) for off, own in self.squares_2.values())


def looked_at(tokens_BT: Tensor, documents_BT: Tensor | None, span: Span) -> Tensor:
    """Which keys before each query of a block are of which kind: bool [C, B, R, S].  documents_BT: nothing is seen across them."""
    before_BT = torch.cat((torch.full_like(tokens_BT[:, :1], -1), tokens_BT[:, :-1]), 1)
    if documents_BT is not None:
        before_BT[:, 1:][documents_BT[:, 1:] != documents_BT[:, :-1]] = -1
    place_S = torch.arange(span.keys, span.last, device=tokens_BT.device)
    distance_RS = place_S[span.first - span.keys :, None] - place_S
    token_BR1 = tokens_BT[:, span.first : span.last, None]
    behind_BRS, same_BRS = (keys_BT[:, None, span.keys : span.last] == token_BR1 for keys_BT in (before_BT, tokens_BT))
    return torch.stack((behind_BRS, (distance_RS == 1).expand_as(same_BRS), same_BRS)) & (distance_RS > 0)


def take(subject: Ours | Foreign, context: Context) -> Taken:
    """Columns text, application, layer, pass, head (from 0), score, sum, chance (float64) and count: one row a head and score.

    about: the largest relative error of the weights, how the probe was made, recurrent applications, which layer each application is.
    Raises OstinatoError for a model without attention heads or too short a context, and for weights that are not the kernel's.
    """
    probe = repeated(subject)
    tallies = {REPEATED: tally(subject, probe)}
    attends = tallies[REPEATED].mass_HC.keys()
    if not attends:
        raise Unfit(f"{subject.name} has no attention heads", "a head is scored by what it attends to; gdn layers have none",
                    "leave `heads` out of what is measured")  # fmt: skip
    if context.targets:
        tallies[WINDOWS] = Tally()
        for part in over_windows(partial(tally, subject), context, subject.device, "scoring heads"):
            tallies[WINDOWS] += part
    error = max(one.error() for one in tallies.values())
    if not error <= LARGEST_ERROR:
        raise OstinatoError(f"the attention of {subject.name} computed again is off by {error:.2%}",
                            f"scores are of what the model computes: of its kernel's output, to {LARGEST_ERROR:.1%}",
                            "leave `heads` out: this model's attention is not what its q, k and window say")  # fmt: skip
    about = labelled(subject) | {"relative_error": error, "seed": SEED, "rows": ROWS, "period": len(probe.wanted_N) // ROWS,
             "target_id": context.targets.id if context.targets else None,
             "recurrent": [label.index for label in subject.labels if label.part != "mlp" and label.index not in attends]}  # fmt: skip
    return Taken(_table(subject, tallies), about)


def tally(subject: Ours | Foreign, windows: Windows) -> Tally:
    """Of one forward pass. Raises OstinatoError where another's model does not show its attention."""
    found = Tally()
    see = partial(found.add, windows)
    if isinstance(subject, Ours):
        watch_attention(subject.decoder, windows.tokens_BT, windows.documents_BT, see)
    else:
        watch_foreign(subject, windows.tokens_BT, see)
    return found


def repeated(subject: Ours | Foreign) -> Windows:
    """The probe: ROWS rows of BOS (where there is one) and random tokens of its own twice; the second time is asked."""
    context, bos = subject.decoder.context if isinstance(subject, Ours) else subject.context, subject.bos
    allowed = np.delete(np.arange(subject.vocab), [] if bos is None else [bos])
    period = min(PERIOD, (context - 1) // 2 if context else PERIOD, len(allowed))
    if period < 2:
        raise Unfit(f"a context of {context} and a vocabulary of {subject.vocab}", "the probe is BOS, and two tokens or more twice",
                    "leave `heads` out of what is measured")  # fmt: skip
    draw = np.random.Generator(np.random.Philox(SEED))
    once = np.stack([draw.choice(allowed, period, replace=False) for _ in range(ROWS)])
    front = np.full((ROWS, 0 if bos is None else 1), bos or 0)
    tokens_BT = torch.from_numpy(np.concatenate((front, once, once), 1)).to(subject.device)
    at_BT = torch.zeros_like(tokens_BT, dtype=torch.bool)
    at_BT[:, -period:] = True
    return Windows(tokens_BT, None, at_BT, tokens_BT[at_BT], np.arange(ROWS * period))


def _table(subject: Ours | Foreign, tallies: dict[str, Tally]) -> pa.Table:
    rows = []
    for text, found in tallies.items():
        for index, masses_HC in found.mass_HC.items():
            label = subject.labels[index]
            for head, masses_C in enumerate(masses_HC):
                for score, *sums in zip(SCORES, masses_C, found.chance_C[index], found.count_C[index], strict=True):
                    rows.append((text, index, label.layer, label.pass_, head, score, *sums))
    names = ("text", "application", "layer", "pass", "head", "score", "sum", "chance", "count")
    return pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))
