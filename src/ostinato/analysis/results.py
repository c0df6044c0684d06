"""The results of a study as the store has them now: one record an arm, whatever is missing or failed shown and never dropped."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from ostinato.analysis.against import Folders, against
from ostinato.analysis.arms import ArmResult, RunResult
from ostinato.analysis.curves import points_of
from ostinato.analysis.documents import Groupings
from ostinato.analysis.sums import Sums, total
from ostinato.ledger import Ledger, account
from ostinato.store import RunFolder, Store
from ostinato.study import recipe_steps, vocab
from ostinato.study.asked import depends_on
from ostinato.study.pairs import base_of
from ostinato.study.records import Arm, Study


def results_table(study: Study, store: Store, part: str = "validation") -> list[ArmResult]:
    """One record for every arm of the study, in its order; each run counts, finished or not.

    Asking for the held-out part is written to the study's log. Raises StoreError when a stored file is torn.
    """
    if part == "held_out":
        store.study_folder(study.name).log("held_out_shown", by="results")
    runs = store.runs_of(study)
    alone = {arm.name: _alone(arm, base_of(arm, study.reference), runs, store, part) for arm in study.arms}
    groupings = Groupings(store)
    return [against(alone[one.against], one, runs, groupings) if one.against else one for one in alone.values()]


def _run_result(arm: Arm, seed: int, folder: RunFolder | None, part: str) -> RunResult:
    if folder is None or not folder.exists():
        return RunResult(seed, folder and folder.name, "not asked" if depends_on(arm) else "missing", None, None, False, None, None, None)
    status, points = folder.status(), points_of(folder, part)
    end = recipe_steps(arm.recipe).tokens
    last, sums, target_id = max(points, default=None), None, None
    if last is not None:
        footer = folder.read_loss_summary(part, last)
        sums, target_id = Sums(footer["sum_nats"], footer["targets"], footer["bytes"]), footer["target_id"]
    return RunResult(seed, folder.name, status["state"], status.get("error"), last, last == end, sums, target_id, folder.training_seconds(),
                     folder.peak_bytes(), folder.tokens_per_s())  # fmt: skip


def _ledger(arm: Arm, folders: Folders) -> Ledger:
    """What the arm costs; the end of its first pass over the text as its runs have recorded it, for only a prepared text knows its size."""
    stored = {}
    for seed in arm.seeds:
        folder = folders.get((arm.name, seed))
        if folder and folder.exists() and (stored := folder.resolved().get("ledger") or {}):
            break
    return account(arm, vocab(arm.data.tokenizer), stored.get("first_pass_ends"), stored.get("words"))


def _alone(arm: Arm, base: str | None, folders: Folders, store: Store, part: str) -> ArmResult:
    """What an arm has reached, without comparing it."""
    runs = tuple(_run_result(arm, seed, folders.get((arm.name, seed)), part) for seed in arm.seeds)
    result = ArmResult(arm, base, runs, _ledger(arm, folders), part)
    furthest = max((run.tokens for run in runs if run.tokens is not None), default=None)
    used = [run for run in runs if run.tokens is not None and run.tokens == furthest]
    if not used:
        return result
    first = used[0]
    data = folders[arm.name, first.seed].resolved().get("data_fingerprint")
    return replace(
        result,
        seeds_used=tuple(run.seed for run in used),
        tokens=furthest,
        final=first.final,
        sums=total(run.sums for run in used if run.sums),
        targets=first.sums.targets if first.sums else 0,
        windows=store.targets(first.target_id).policy if first.target_id else "",
        floors=store.floors(first.target_id, data) if first.target_id and data else None,
        seconds=_mean(run.seconds for run in used),
        peak_bytes=max((run.peak_bytes for run in used if run.peak_bytes is not None), default=None),
        tokens_per_s=_mean(run.tokens_per_s for run in used),
    )


def _mean(values: Iterable[float | None]) -> float | None:
    """Of those that are known."""
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None
