"""A model whose number of passes is free, at every number from one to twice what it was trained with.

For each number r: the loss of every target, and how far the distribution over the next token moved with the last pass, KL(p_r || p_(r-1)).
An exit rule stops at the first r whose KL is under a threshold (Geiping et al., arXiv 2502.05171); with both columns stored, what any
threshold gives is a pure function of them (analysis/depths.py).

Every number of passes is a forward pass of its own, R (R + 1) / 2 passes through the core for R numbers.
Shapes, as suffixes of names: R numbers of passes, N targets, D d_model, V vocabulary.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ostinato.measure.columns import table
from ostinato.measure.context import Context, Taken
from ostinato.measure.readings import pieces, scores, stream
from ostinato.measure.subject import Ours
from ostinato.measure.windows import Windows, over_windows
from ostinato.model.depth import at_passes
from ostinato.model.head import softmax
from ostinato.study.passes import trained_passes


def take(subject: Ours, context: Context) -> Taken:
    """One row a target: `target`, its index among the Targets, float32 nats `nats_1`, …, `nats_R` and `kl_2`, …, `kl_R`.

    R: twice the passes trained, which `about` holds as `trained_passes`, beside the number of applications with each number of passes.
    Raises OstinatoError for a model whose number of passes is not free, TrainingError when one window does not fit into memory.
    """
    trained = trained_passes(subject.decoder.model) or 1  # at_passes says what is wrong where none is free
    subjects = [Ours(at_passes(subject.decoder, passes)) for passes in range(1, 2 * trained + 1)]

    def read(windows: Windows) -> tuple[np.ndarray, np.ndarray]:
        nats_RN, kl_RN = compare(subjects, [stream(subject, windows) for subject in subjects], windows.wanted_N)
        return windows.place_N, np.concatenate([nats_RN, kl_RN])

    found = over_windows(read, context, subject.device, "running other numbers of passes")
    numbers = range(1, len(subjects) + 1)
    names = [f"nats_{passes}" for passes in numbers] + [f"kl_{passes}" for passes in numbers[1:]]
    return Taken(table(found, names), {"trained_passes": trained, "applications": [len(one.labels) for one in subjects]})


def compare(subjects: list[Ours], streams: list[Tensor], wanted_N: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """(nats float32 [R, N], KL from the number of passes before, in nats, float32 [R - 1, N]) of streams [N, D] of each."""
    count = len(wanted_N)
    nats_RN, kl_RN = np.zeros((len(subjects), count), np.float32), np.zeros((len(subjects) - 1, count), np.float32)
    for part in pieces(subjects[0], wanted_N):
        before_NV: Tensor | None = None
        for place, (subject, x_ND) in enumerate(zip(subjects, streams, strict=True)):
            scores_NV = scores(subject, x_ND[part])
            logs_NV = torch.log_softmax(scores_NV, -1)
            nats_RN[place, part] = softmax(scores_NV, wanted_N[part, None], None, False)[0].float().cpu().numpy()
            if before_NV is not None:
                kl_N = (logs_NV.exp() * (logs_NV - before_NV)).sum(-1)
                kl_RN[place - 1, part] = kl_N.clamp_min(0).float().cpu().numpy()  # below 0 by rounding alone
            before_NV = logs_NV
    return nats_RN, kl_RN
