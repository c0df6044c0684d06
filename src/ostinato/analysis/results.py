"""The results of a study as the store has them now: one record an arm, whatever is missing or failed shown and never dropped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ostinato.analysis.curves import points_of
from ostinato.analysis.paired import Paired, same_targets
from ostinato.analysis.seeds import OverSeeds, paired_over_seeds
from ostinato.analysis.sums import Sums, total
from ostinato.errors import StoreError
from ostinato.ledger import Ledger, account
from ostinato.store import RunFolder, Store
from ostinato.study import recipe_steps, vocab
from ostinato.study.records import Arm, Study

NOTHING = Sums()
Folders = dict[tuple[str, int], RunFolder]


@dataclass(frozen=True)
class RunResult:
    """One arm with one seed. state: missing (never begun), not asked (contingent), new, running, stopped, failed, done.

    tokens: the last measured point (None: none yet); final: that it is the end of training. sums: of that point. seconds: of training.
    peak_bytes: the most memory that a training step held. tokens_per_s: the median over its steps. None where it is not known.
    """

    seed: int
    run: str | None
    state: str
    error: str | None
    tokens: int | None
    final: bool
    sums: Sums | None
    target_id: str | None
    seconds: float | None
    peak_bytes: int | None = None
    tokens_per_s: float | None = None

    def record(self) -> dict[str, Any]:
        """As JSON types."""
        return {**vars(self), "sums": self.sums and {**vars(self.sums), "nats_per_token": self.sums.nats_per_token}}


@dataclass(frozen=True)
class ArmResult:
    """One arm over its seeds.

    tokens: the point that nats, bits_per_byte and perplexity are of, over `seeds_used` (sums of all of them, one division); final: that
    it is the end of training. gain_tokens and gain_final: the same for the comparison with the reference, paired by seed: `pairing` over
    documents on losses averaged over seeds, `seeds` over seeds. problem: why there is no gain. floors: nats of simple models of the
    training stream on the same targets. seconds and tokens_per_s: of training, means over the runs used; peak_bytes: the most of them.
    """

    arm: Arm
    reference: bool
    runs: tuple[RunResult, ...]
    ledger: Ledger
    part: str
    seeds_used: tuple[int, ...] = ()
    tokens: int | None = None
    final: bool = False
    sums: Sums = NOTHING
    targets: int = 0
    windows: str = ""
    gain_tokens: int | None = None
    gain_final: bool = False
    pairing: Paired | None = None
    seeds: OverSeeds | None = None
    problem: str | None = None
    floors: Mapping[str, float] | None = None
    seconds: float | None = None
    peak_bytes: int | None = None
    tokens_per_s: float | None = None

    @property
    def name(self) -> str:
        return self.arm.name

    @property
    def below_floors(self) -> bool | None:
        """Whether the arm is below every floor; None while either is unknown."""
        nats = self.sums.nats_per_token
        return None if nats is None or not self.floors else all(nats < floor for floor in self.floors.values())

    @property
    def words(self) -> str:
        """The comparison with the reference in words."""
        if self.reference:
            return "the reference"
        return self.seeds.words if self.seeds else self.problem or "not measured yet"

    @property
    def caution(self) -> str:
        """What the number of seeds, and runs that failed or are not finished, take from the comparison."""
        parts = [self.seeds.caution] if self.seeds else []
        if self.seeds and not self.gain_final:
            parts.append(f"at {self.gain_tokens:,} of {self.ledger.tokens:,} tokens")
        for said, states in (("failed", ("failed",)), ("not finished", ("new", "running", "stopped")), ("not begun", ("missing",))):
            seeds = self.seeds_in(*states)
            if seeds:
                parts.append(f"{said}: seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}")
        return "; ".join(parts)

    def seeds_in(self, *states: str) -> list[int]:
        """The seeds whose run is in one of these states."""
        return [run.seed for run in self.runs if run.state in states]

    def record(self) -> dict[str, Any]:
        """As JSON types: one flat object for scripts."""
        pairing, seeds = self.pairing, self.seeds
        over_documents = pairing and pairing.record()
        return {
            "arm": self.name, "note": self.arm.note, "contingent": self.arm.contingent, "reference": self.reference, "part": self.part,
            "seeds": list(self.arm.seeds), "seeds_done": self.seeds_in("done"), "seeds_failed": self.seeds_in("failed"),
            "seeds_missing": self.seeds_in("missing", "not asked"), "seeds_unfinished": self.seeds_in("new", "running", "stopped"),
            "runs": [run.record() for run in self.runs], "seeds_used": list(self.seeds_used), "tokens": self.tokens, "final": self.final,
            "nats": self.sums.nats_per_token, "bits_per_byte": self.sums.bits_per_byte, "perplexity": self.sums.perplexity,
            "nats_by_seed": {str(run.seed): run.sums.nats_per_token for run in self.runs if run.sums and run.seed in self.seeds_used},
            "targets": self.targets, "windows": self.windows, "gain": seeds and seeds.mean, "gain_sd": seeds and seeds.sd,
            "gain_by_seed": seeds and seeds.record()["gains"], "gain_interval_seeds": seeds and seeds.record()["interval"],
            "gain_interval_documents": over_documents and over_documents["interval"],
            "gain_tokens": self.gain_tokens,
            "gain_final": self.gain_final,
            "gain_bits_per_byte": pairing and pairing.gain_bits_per_byte,
            "documents": pairing and pairing.documents, "documents_won": pairing and pairing.documents_won,
            "windows_compared": pairing and pairing.windows, "windows_won": pairing and pairing.windows_won,
            "window": pairing and pairing.window,
            "words": self.words, "caution": self.caution, "problem": self.problem,
            "floors": dict(self.floors) if self.floors else None, "below_floors": self.below_floors,
            "params_total": self.ledger.params_total, "params_nonembedding": self.ledger.params_nonembedding,
            "flops_per_token": self.ledger.flops_per_token, "flops_total": self.ledger.flops_total,
            "tokens_planned": self.ledger.tokens, "effective_depth": self.ledger.effective_depth, "seconds": self.seconds,
            "peak_bytes": self.peak_bytes, "tokens_per_s": self.tokens_per_s,
        }  # fmt: skip


def results_table(study: Study, store: Store, part: str = "validation") -> list[ArmResult]:
    """One record for every arm of the study, in its order; each run counts, finished or not.

    Asking for the held-out part is written to the study's log. Raises StoreError when a stored file is torn.
    """
    if part == "held_out":
        store.study_folder(study.name).log("held_out_shown", by="results")
    runs = store.runs_of(study)
    alone = {arm.name: _alone(arm, arm.name == study.reference, runs, store, part) for arm in study.arms}
    reference = alone[study.reference]
    return [result if result.reference else _against(reference, result, runs, store) for result in alone.values()]


def _run_result(arm: Arm, seed: int, folder: RunFolder | None, part: str) -> RunResult:
    if folder is None or not folder.exists():
        return RunResult(seed, folder and folder.name, "not asked" if arm.contingent else "missing", None, None, False, None, None, None)
    status, points = folder.status(), points_of(folder, part)
    end = recipe_steps(arm.recipe).tokens
    last, sums, target_id = max(points, default=None), None, None
    if last is not None:
        footer = folder.read_loss_summary(part, last)
        sums, target_id = Sums(footer["sum_nats"], footer["targets"], footer["bytes"]), footer["target_id"]
    return RunResult(seed, folder.name, status["state"], status.get("error"), last, last == end, sums, target_id, folder.training_seconds(),
                     folder.peak_bytes(), folder.tokens_per_s())  # fmt: skip


def _alone(arm: Arm, reference: bool, folders: Folders, store: Store, part: str) -> ArmResult:
    """What an arm has reached, without comparing it."""
    runs = tuple(_run_result(arm, seed, folders.get((arm.name, seed)), part) for seed in arm.seeds)
    result = ArmResult(arm, reference, runs, account(arm, vocab(arm.data.tokenizer)), part)
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


def _shared_point(reference: ArmResult, result: ArmResult, folders: Folders) -> tuple[int, int, bool, list[int]]:
    """(tokens of the reference, tokens of the arm, whether both are the end, seeds) of the comparison; no seeds when nothing is shared.

    Runs that are both at their end are compared there; while none are, at the last point that both have measured.
    """
    ends = {one.name: {run.seed: run.tokens for run in one.runs if run.final and run.tokens} for one in (reference, result)}
    ended = [seed for seed in result.arm.seeds if all(seed in seeds for seeds in ends.values())]
    if ended:
        return ends[reference.name][ended[0]], ends[result.name][ended[0]], True, ended
    shared: dict[int, set[int]] = {}
    for seed in result.arm.seeds:
        pair = [folders.get((name, seed)) for name in (reference.name, result.name)]
        if all(pair):
            shared[seed] = set.intersection(*(points_of(folder, result.part) for folder in pair if folder))
    at = max((tokens for points in shared.values() for tokens in points), default=0)
    return at, at, False, [seed for seed, points in shared.items() if at in points]


def _against(reference: ArmResult, result: ArmResult, folders: Folders, store: Store) -> ArmResult:
    """The same result, compared with the reference's runs of the same seeds."""
    reference_at, at, final, seeds = _shared_point(reference, result, folders)
    if not seeds:
        unmeasured = [one.name for one in (result, reference) if one.tokens is None]
        shared = "no point is measured in both this arm and the reference"
        return replace(result, problem=f"{unmeasured[0]} is not measured yet" if unmeasured else shared)
    tables = {}
    for seed in seeds:
        one, other = folders[reference.name, seed], folders[result.name, seed]
        tables[seed] = one.read_losses(result.part, reference_at), other.read_losses(result.part, at)
    first = tables[seeds[0]][0]
    try:
        for one, other in tables.values():
            same_targets(one, other)
            same_targets(first, one)
    except StoreError as error:
        return replace(result, problem=f"not comparable: {error.what}")
    pairing, over = paired_over_seeds(tables, store.targets(first.target_id))
    return replace(result, gain_tokens=at, gain_final=final, pairing=pairing, seeds=over)
