"""The table of runs of a study, from what its store holds: parameters from the records, losses from the last measurement of every run.

Parameters are counted as published: matrices of layers (12 d^2 a block of a plain transformer), and of a repeated part its injection
(2 d^2); no embedding, head, norm, scalar or mixing of streams. An arm whose passes are drawn stands at the number that it is measured
with. A treatment is what an arm does that the law does not know of: truncated backpropagation, residual streams, drawn passes.
"""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ostinato.analysis import ArmResult, results_table
from ostinato.analysis.arms import RunResult
from ostinato.errors import FitError, ScheduleError
from ostinato.ledger.inventory import inventory, used_by
from ostinato.scaling.cells import fewest
from ostinato.scaling.table import NUMBERS, WORDS, RunTable, made
from ostinato.scaling.unlike import unlike
from ostinato.schedule.groups import repeated_groups
from ostinato.store import Store
from ostinato.study import load_study, vocab
from ostinato.study.counted import several
from ostinato.study.derive import arm_applications
from ostinato.study.load import sizes
from ostinato.study.records import Arm, Model, Passes, Study

BASE = "base"
COUNTED = ("matrix", "gate")


@dataclass(frozen=True)
class Size:
    """N_once and N_rec: unique parameters that run once and r times."""

    N_once: int
    N_rec: int
    r: float


def size_of(arm: Arm) -> Size | None:
    """What the law sees of an arm; None where it has no word for it: repeated groups that run
    different numbers of times, or whose passes could begin at more than one place."""
    model = arm.model
    applications = arm_applications(model)
    try:
        groups = repeated_groups(applications)
    except ScheduleError:
        return None
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
    return Size(kept, sum(again.values()), float(groups[0].passes if groups else 1))


def treatment_of(model: Model, r: float) -> str:
    """What an arm does beside looping, in words; `base` for nothing: with one pass no gradient is cut off, and none is drawn."""
    said = []
    backprop, drawn = model.backprop, model.passes if isinstance(model.passes, Passes) else None
    if backprop is not None and r > (1 if backprop == "half" else backprop):
        said.append(f"backprop {backprop}")
    if model.streams > 1:
        said.append(f"{model.streams} streams")
    if drawn is not None and r > 1:
        said.append(f"r uniform {drawn.uniform[0]} to {drawn.uniform[1]}" if drawn.uniform else f"r Poisson {drawn.poisson:g}")
    return ", ".join(said) or BASE


def varies(study: Study) -> bool:
    """Whether its arms are a grid: at least three widths that two numbers of passes share. Nothing is read."""
    by_r: dict[float, set[int]] = {}
    for arm in study.arms:
        if (size := size_of(arm)) is not None:
            by_r.setdefault(size.r, set()).add(arm.model.d_model)
    return any(len(one & other) > 2 for one, other in itertools.combinations(by_r.values(), 2))


def runs_table(study: Study, store: Store, results: Sequence[ArmResult] | None = None, beside: Sequence[Study] = ()) -> RunTable:
    """One row a run that is finished.  results: the table of results, if it is there already.

    beside: other sizes of the study, whose runs are treatments; a run that is in several is one row.
    Raises FitError where no run is finished, StoreError where a stored file is torn.
    """
    sets = [results if results is not None else results_table(study, store), *(results_table(other, store) for other in beside)]
    columns: dict[str, list] = {name: [] for name in (*NUMBERS, *WORDS)}
    notes, flops, seen, plain, arms = [], [], set(), {}, {}
    for one, found in zip((study, *beside), sets, strict=True):
        if not any(finished(result) for result in found):
            said = shlex.quote(one.name) + (f" --size {shlex.quote(one.size)}" if one.size else "")
            others = [f"--size {name}" for name in _with_runs(one, store)]
            raise FitError(f"no run of {said} is finished", "the law is fitted to runs that are trained and measured to their end",
                           " or ".join((*others, f"ostinato run {said} (a run that another study has made is found, and not made again)")))
        for result in found:
            size, done = size_of(result.arm), finished(result)
            if size is None:
                notes.append(f"{result.name} is left out: not one repeated group with one number of passes")
                continue
            if len(done) < len(result.runs):
                notes.append(f"{result.name}: {len(done)} of {len(result.runs)} runs are finished")
            for run in done:
                if run.run in seen:
                    continue
                seen.add(run.run)
                row = {"N_once": size.N_once, "N_rec": size.N_rec, "r": size.r, "D": run.tokens, "loss": run.sums.nats_per_token,
                       "budget": "", "arm": result.name, "seed": run.seed, "treatment": treatment_of(result.arm.model, size.r)}  # fmt: skip
                for name, value in row.items():
                    columns[name].append(value)
                plain[row["treatment"]] = treatment_of(result.arm.model, 1)
                arms[run.run] = row["treatment"], result.arm
                flops.append(result.ledger.flops_per_token * run.tokens)
    columns["flops"] = flops
    _plain_beside(columns, plain)
    flops = np.array(columns.pop("flops"))
    columns["budget"] = budgets(flops, np.array(columns["D"], dtype=float))
    table = made(columns, columns["arm"], study.name)
    warnings = (*table.warnings, *unlike(arms.values()), *_above_floors(itertools.chain(*sets)))
    return replace(table, notes=(*notes, *table.notes), warnings=warnings)


def _with_runs(study: Study, store: Store) -> list[str]:
    """The other sizes of a study that have finished runs."""
    source = study.path or study.name
    return [name for name in sizes(source) if name != study.size and any(map(finished, results_table(load_study(source, name), store)))]


def finished(result: ArmResult) -> list[RunResult]:
    """The runs of an arm that the law is fitted to: trained, and measured at their end."""
    return [run for run in result.runs if run.state == "done" and run.final and run.sums is not None]


def _above_floors(results: Iterable[ArmResult]) -> list[str]:
    """A warning where models have not learned what counting pairs of tokens gives: a law of such runs says nothing of loops."""
    known = {result.name: result.below_floors for result in results if result.below_floors is not None}
    above = [name for name, below in known.items() if not below]
    if not above:
        return []
    named = ", ".join(above[:3]) + (", …" if len(above) > 3 else "")
    return [f"{len(above)} of {several(len(known), 'arm')} ({named}) are not below every floor: counting pairs of tokens does better, so "
            "they have hardly begun to use a context"]  # fmt: skip


def _plain_beside(columns: dict[str, list], plain: Mapping[str, str]) -> None:
    """The runs of r = 1 of a treatment that is nothing without a loop, as truncation is: those of what it is there, under its name, too.

    plain: what each treatment is at r = 1; where that loops nowhere, its runs stand under the treatment alone.
    """
    treatments, r = columns["treatment"], columns["r"]
    at_one = {name: [at for at in range(len(r)) if r[at] == 1 and treatments[at] == name] for name in plain}
    added = [(name, at) for name, without in plain.items() if name != without and not at_one[name] for at in at_one.get(without, ())]
    moved = {at for name, at in added if not any(r[other] > 1 for other in range(len(r)) if treatments[other] == treatments[at])}
    kept = [at for at in range(len(r)) if at not in moved]
    for column, values in columns.items():
        new = [name if column == "treatment" else values[at] for name, at in added]
        values[:] = [values[at] for at in kept] + new


def budgets(flops: np.ndarray, tokens: np.ndarray) -> list[str]:
    """What runs have in common: their training FLOPs within 2%, else their tokens, whichever gives fewer budgets."""
    word, values = fewest({"FLOPs": flops, "tokens": tokens})
    return [f"{value:,.0f} tokens" if word == "tokens" else f"{value:.3g} FLOPs".replace("e+", "e") for value in values]
