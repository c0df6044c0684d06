"""What each application and each pass does to the stream: does a further pass still move the state?

At every position that predicts a target, x_a the stream after application a and u_a = x_a − x_(a−1) its update (x_(−1) the input); b is the
application before a of the same layer, and z the last one of that layer:

    update     ‖u_a‖ / ‖x_(a−1)‖         how far the application moves the stream
    cosine     cos(u_a, u_b)             does a pass do what the one before did
    change     ‖x_a − x_b‖ / ‖x_a‖       what the whole of a pass has changed at this place; 0 at a fixed point
    distance   ‖x_a − x_z‖ / ‖x_z‖       from where the passes end: the fixed point, if there is one
    rank       exp(−Σ p ln p), p = σ / Σσ, σ the singular values of the centred states of all positions (Roy and Vetterli, EUSIPCO 2007)

Where the number of passes is free the same is told of twice the passes trained, so that z is further out. Sums over positions and how many
they are are stored, and one division makes a mean; the rank follows from float64 sums of x and x xᵀ, A · D² numbers on the device.

Shapes, as suffixes of names: A applications, N positions, D d_model.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from ostinato.analysis.states import SUMS
from ostinato.measure.context import Context, Progress, Taken
from ostinato.measure.readings import exact, streams
from ostinato.measure.subject import Label, Ours, Subject
from ostinato.measure.windows import Windows, over_windows
from ostinato.model.depth import at_passes
from ostinato.study.passes import trained_passes

TINY = 1e-300
POSITIONS = 4096
"""Inputs at once, at most: the stream after every application is held."""


def take(subject: Subject, context: Context) -> Taken:
    """One row an application: `passes` (of the model as it ran; none where they are not free), `application`, `layer`, `part`, `pass`,
    `positions`, float64 sums over them under the names of SUMS (none where there is no other application to compare with), and `rank`.

    Raises TrainingError when one window does not fit into memory.
    """
    trained = trained_passes(subject.decoder.model) if isinstance(subject, Ours) else None
    runs = {trained: subject}
    if trained is not None:
        runs[2 * trained] = Ours(at_passes(subject.decoder, 2 * trained))
    found = []
    for done, (passes, one) in enumerate(runs.items()):
        progress = context.progress and _part(context.progress, done, len(runs))
        given = replace(context, batch=min(context.batch, POSITIONS), progress=progress)
        found.append(_table(passes, one, _tally(one, given)))
    return Taken(pa.concat_tables(found), {"trained_passes": trained})


def relations(labels: tuple[Label, ...]) -> tuple[dict[int, int], dict[int, int]]:
    """(the application of the same layer before, the last one of the same layer), by application; of layers that run once neither.

    Applications of one layer are compared where they share a sublayer; the last is the last of those that share one with it.
    """
    before: dict[int, int] = {}
    last: dict[int, int] = {}
    for label in labels:
        alike = [one.index for one in labels if one.layer == label.layer and {one.part, label.part} != {"attn", "mlp"}]
        if earlier := [index for index in alike if index < label.index]:
            before[label.index] = earlier[-1]
        if len(alike) > 1:
            last[label.index] = alike[-1]
    return before, last


class Tally:
    """Sums over positions, and the moments that ranks follow from."""

    def __init__(self, labels: tuple[Label, ...], width: int, device: torch.device):
        self.labels, (self.before, self.last) = labels, relations(labels)
        self.positions = 0
        self.sums_AC = np.zeros((len(labels), len(SUMS)))
        self.first_AD = torch.zeros(len(labels), width, dtype=torch.float64, device=device)
        self.second_ADD = torch.zeros(len(labels), width, width, dtype=torch.float64, device=device)

    def add(self, states: list[Tensor]) -> None:
        """The streams of some positions, [N, D] each: before the first application and after each. Where it fails, nothing is added."""
        before, after = states[:-1], states[1:]
        updates = [x_ND - before_ND for before_ND, x_ND in zip(before, after, strict=True)]
        sums_AC, moments = np.zeros_like(self.sums_AC), []
        for a, (before_ND, x_ND, update_ND) in enumerate(zip(before, after, updates, strict=True)):
            found = {"size": _norm(x_ND) / x_ND.shape[-1] ** 0.5, "update": _share(_norm(update_ND), before_ND)}
            if (b := self.before.get(a)) is not None:
                product_N = (update_ND.double() * updates[b].double()).sum(-1)
                found["cosine"] = product_N / (_norm(update_ND) * _norm(updates[b])).clamp_min(TINY)
                found["change"] = _share(_norm(x_ND - after[b]), x_ND)
            if (z := self.last.get(a)) is not None:
                found["distance"] = _share(_norm(x_ND - after[z]), after[z])
            sums_AC[a] = [float(found[name].sum()) if name in found else 0.0 for name in SUMS]
            exact_ND = x_ND.double()
            moments.append((exact_ND.sum(0), exact_ND.T @ exact_ND))
        self.positions += len(states[0])
        self.sums_AC += sums_AC
        for a, (first_D, second_DD) in enumerate(moments):
            self.first_AD[a] += first_D
            self.second_ADD[a] += second_DD

    def ranks(self) -> list[float]:
        """The effective rank of the states after each application; 0 where they do not differ."""
        found = []
        for first_D, second_DD in zip(self.first_AD, self.second_ADD, strict=True):
            centred_DD = second_DD - torch.outer(first_D, first_D) / max(1, self.positions)
            found.append(effective_rank(torch.linalg.eigvalsh(centred_DD).clamp_min(0).sqrt()))
        return found


def effective_rank(singular: Tensor) -> float:
    """exp of the entropy of singular values [D] as shares of their sum; 0 where all are 0."""
    whole = singular.sum()
    if not whole > 0:
        return 0.0
    share = singular / whole
    return float(torch.exp(-torch.xlogy(share, share).sum()))


def _part(progress: Progress, place: int, parts: int) -> Progress:
    """What one of equal parts tells of its own progress, as progress of all."""
    return lambda done, every: progress(place * every + done, parts * every)


def _share(norm_N: Tensor, x_ND: Tensor) -> Tensor:
    """Of the norm of x; 0 of 0 is 0."""
    return norm_N / _norm(x_ND).clamp_min(TINY)


def _norm(x_ND: Tensor) -> Tensor:
    return torch.linalg.vector_norm(x_ND, dim=-1, dtype=torch.float64)


def _tally(subject: Subject, context: Context) -> Tally:
    tallies: list[Tally] = []

    def read(windows: Windows) -> None:
        states: list[Tensor] = []
        streams(subject, windows, lambda _, x_ND: states.append(exact(x_ND)))
        if not tallies:
            tallies.append(Tally(subject.labels, states[0].shape[-1], states[0].device))
        tallies[0].add(states)

    over_windows(read, context, subject.device, "following states")
    return tallies[0]


def _table(passes: int | None, subject: Subject, tally: Tally) -> pa.Table:
    labels = subject.labels
    columns = {
        "passes": pa.array([passes] * len(labels), pa.int64()),
        "application": pa.array([label.index for label in labels], pa.int64()),
        "layer": pa.array([label.layer for label in labels], pa.int64()),
        "part": pa.array([label.part for label in labels]),
        "pass": pa.array([label.pass_ for label in labels], pa.int64()),
        "positions": pa.array([tally.positions] * len(labels), pa.int64()),
    }
    lacks = {"cosine": tally.before, "change": tally.before, "distance": tally.last}
    for place, name in enumerate(SUMS):
        has = lacks.get(name)
        values = [float(value) if has is None or label.index in has else None
                  for label, value in zip(labels, tally.sums_AC[:, place], strict=True)]  # fmt: skip
        columns[name] = pa.array(values, pa.float64())
    columns["rank"] = pa.array(tally.ranks(), pa.float64())
    return pa.table(columns)
