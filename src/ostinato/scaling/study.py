"""The table of runs of a study, from what its store holds: parameters from the records, losses from the last measurement of every run.

Parameters are counted as published: matrices of layers (12 d^2 a block of a plain transformer), and of a repeated part its injection
(2 d^2); no embedding, head, norm or scalar. An arm whose number of passes is drawn stands at the mean of what it draws. A treatment is
what an arm does that the law does not know of: a truncated backpropagation, several residual streams.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ostinato.analysis import ArmResult, results_table
from ostinato.errors import FitError
from ostinato.ledger.inventory import inventory, used_by
from ostinato.scaling.table import NUMBERS, WORDS, RunTable, made
from ostinato.schedule.groups import repeated_groups
from ostinato.store import Store
from ostinato.study import vocab
from ostinato.study.derive import arm_applications
from ostinato.study.records import Arm, Model, Study

BASE = "base"
COUNTED = ("matrix", "gate")


@dataclass(frozen=True)
class Size:
    """N_once and N_rec: unique parameters that run once and r times."""

    N_once: int
    N_rec: int
    r: float


def size_of(arm: Arm) -> Size | None:
    """What the law sees of an arm; None where its repeated groups run different numbers of times, which it has no word for."""
    model = arm.model
    applications = arm_applications(model)
    groups = repeated_groups(applications)
    if len({group.passes for group in groups}) > 1:
        return None
    rows = inventory(model, vocab(arm.data.tokenizer), arm.recipe.context)
    repeated = {applications[at].index for group in groups for at in range(group.first, group.first + group.length * group.passes)}
    once: dict[str, int] = {}
    again: dict[str, int] = {}
    for application, tensors in zip(applications, used_by(model, rows, applications), strict=True):
        into = again if application.index in repeated else once
        into |= {row.name: row.size for row in tensors if row.role in COUNTED}
    owned = {row.name for row in rows if row.layer is None and row.role in COUNTED}
    again |= {row.name: row.size for row in rows if row.name in owned and groups}
    kept = sum(size for name, size in once.items() if name not in again)
    r = mean_passes(model) or (groups[0].passes if groups else 1)
    return Size(kept, sum(again.values()), float(r))


def mean_passes(model: Model) -> float | None:
    """The mean of the number of passes, where it is drawn anew every step; None where it is fixed."""
    drawn = model.passes
    if drawn is None or isinstance(drawn, int):
        return None
    return float(drawn.mean)


def treatment_of(model: Model) -> str:
    """What an arm does beside looping, in words; `base` for nothing."""
    said = []
    backprop, streams = getattr(model, "backprop", None), getattr(model, "streams", 1)
    if backprop is not None:
        said.append(f"backprop {backprop}")
    if streams and streams > 1:
        said.append(f"{streams} streams")
    return ", ".join(said) or BASE


def varies(study: Study) -> bool:
    """Whether its arms differ in r: without, there is no phi to speak of. Cheap: nothing is read."""
    found = {size.r for arm in study.arms if (size := size_of(arm)) is not None}
    return len(found) > 1


def runs_table(study: Study, store: Store, results: Sequence[ArmResult] | None = None) -> RunTable:
    """One row a run that is finished.  results: the table of results, if it is there already.

    Raises FitError where no run is finished, StoreError where a stored file is torn.
    """
    results = results if results is not None else results_table(study, store)
    columns: dict[str, list] = {name: [] for name in (*NUMBERS, *WORDS)}
    notes, flops = [], []
    for result in results:
        size = size_of(result.arm)
        done = [run for run in result.runs if run.state == "done" and run.final and run.sums is not None]
        if size is None:
            notes.append(f"{result.name} is left out: its repeated groups run different numbers of times")
            continue
        if len(done) < len(result.runs):
            notes.append(f"{result.name}: {len(done)} of {len(result.runs)} runs are finished")
        for run in done:
            row = {"N_once": size.N_once, "N_rec": size.N_rec, "r": size.r, "D": run.tokens, "loss": run.sums.nats_per_token,
                   "budget": "", "arm": result.name, "seed": run.seed, "treatment": treatment_of(result.arm.model)}  # fmt: skip
            for name, value in row.items():
                columns[name].append(value)
            flops.append(result.ledger.flops_per_token * run.tokens)
    if not flops:
        raise FitError(f"no run of {study.name} is finished", "the law is fitted to runs that are trained and measured to their end",
                       f"ostinato run {study.name}")  # fmt: skip
    columns["budget"] = budgets(np.array(flops), np.array(columns["D"], dtype=float))
    table = made(columns, columns["arm"], study.name)
    return RunTable(**{**vars(table), "notes": (*notes, *table.notes)})


def budgets(flops: np.ndarray, tokens: np.ndarray) -> list[str]:
    """What runs have in common: their training FLOPs within 2%, else their tokens, whichever gives fewer budgets."""
    sets = {"FLOPs": _near(flops), "tokens": _near(tokens)}
    word = min(sets, key=lambda name: len(set(sets[name])))
    return [f"{value:.3g} {word}" for value in sets[word]]


def _near(values: np.ndarray) -> list[float]:
    """Each value, or the first of those at most 2% below it that begins a group."""
    first: list[float] = []
    found = {}
    for value in sorted(set(values.tolist())):
        if not first or value > first[-1] * 1.02:
            first.append(value)
        found[value] = first[-1]
    return [found[value] for value in values.tolist()]
