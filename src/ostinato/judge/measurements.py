"""The measures of a study, by the names that its predictions use (`ostinato.claims`), from what the store has of its runs.

A measure is of runs at the end of their training, unless `tokens=` names a point before it: an arm that is half way is not judged as if it
had ended. A comparison is paired by seed, over the seeds that both arms have; a single gain is the point, the interval over documents and
the gains by seed of the table of results. What stands beside other terms in one comparison is asked for over the seeds of all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from ostinato.analysis.against import against, other_tokens
from ostinato.analysis.arms import ArmResult
from ostinato.analysis.curves import points_of
from ostinato.analysis.documents import Groupings, shared
from ostinato.analysis.measured import newest
from ostinato.analysis.paired import WINDOW
from ostinato.analysis.results import results_table
from ostinato.analysis.words import BITS, NATS
from ostinato.claims import Measure
from ostinato.errors import StoreError
from ostinato.judge.estimable import NotEstimable
from ostinato.judge.reading import DOCUMENT, Losses, by_document, in_words, same
from ostinato.judge.taken import Runs, depth, lens, pairs
from ostinato.judge.value import Value, document_keys, over_units
from ostinato.store import LossTable, Store
from ostinato.study.records import Study

UNITS = {"nats": NATS, "bits": BITS}
_COSTS = {
    "params": ("params_total", "parameters"),
    "flops": ("flops_total", "FLOPs"),
    "flops_per_token": ("flops_per_token", "FLOPs/token"),
    "tokens": ("tokens", "tokens"),
    "first_pass_ends": ("first_pass_ends", "tokens"),
}
"""What the ledger says of an arm, whether it ran or not: the name there, and the unit."""
_STATES = {
    "missing": "is not begun",
    "new": "is not begun",
    "not asked": "is contingent and was not asked for",
    "running": "is still running",
    "stopped": "stopped before its end",
    "done": "has no losses at its end",
}


class StudyMeasurements:
    """Each number is read once.  results: the table of the validation part, if it is at hand.

    held_out: whether numbers of the held-out part may be given; before a study is judged they are not estimable.
    """

    def __init__(self, study: Study, store: Store, results: Sequence[ArmResult] | None = None, held_out: bool = False):
        self.study, self.store = study, store
        self.results = {one.name: one for one in (results_table(study, store) if results is None else results)}
        self.arms, self.reference = tuple(self.results), study.reference
        self._held_out = held_out
        self._folders, self._groupings, self._losses = store.runs_of(study), Groupings(store), Losses(store)
        self._newest: dict[str, dict[str, Runs]] = {}
        self._known: dict[tuple[Measure, frozenset[int] | None], Value | NotEstimable] = {}

    def value(self, term: Measure, seeds: frozenset[int] | None = None) -> Value:
        """seeds: of these alone, of those that it has; None: of all. A cost is of no seed.

        Raises NotEstimable: the arm is not there, not run, failed or half way; nothing is stored that the number could come from.
        """
        key = term, seeds
        if key not in self._known:
            try:
                self._known[key] = self._find(term, seeds)
            except NotEstimable as error:
                self._known[key] = error
            except StoreError as error:
                self._known[key] = in_words(error)
        found = self._known[key]
        if isinstance(found, NotEstimable):
            raise found
        return found

    def _find(self, term: Measure, seeds: frozenset[int] | None) -> Value:
        options = dict(term.options)
        result = self._result(term.arm)
        if term.name in _COSTS:
            name, unit = _COSTS[term.name]
            amount = getattr(result.ledger, name)
            if amount is None:
                raise NotEstimable(f"{term.name} of {term.arm} is not known before a run of it has begun")
            return Value(float(amount), unit=unit)
        if options.get("part") == "held_out" and not self._held_out:
            raise NotEstimable("the held-out part is not shown before the study is judged")
        if seeds is not None:  # of one arm, for its pairs are of the seeds that both have
            kept = tuple(seed for seed in result.arm.seeds if seed in seeds)
            runs = tuple(run for run in result.runs if run.seed in seeds)
            result = replace(result, arm=result.arm.model_copy(update={"seeds": kept}), runs=runs)
        find: Callable[[ArmResult, Mapping[str, str]], Value] = getattr(self, f"_{term.name}")
        return find(result, options)

    def _result(self, arm: str) -> ArmResult:
        if arm not in self.results:
            raise NotEstimable(f"the study has no arm {arm!r}", "its arms are " + ", ".join(self.arms))
        return self.results[arm]

    # --- losses

    def _gain(self, result: ArmResult, options: Mapping[str, str]) -> Value:
        base = self._base(result, options)
        if other_tokens(base, result):
            return self._gain_of_documents(base, result, options)
        return self._sum((base, result), options, lambda theirs, mine: np.subtract(theirs, mine, dtype=np.float64))

    def _loss(self, result: ArmResult, options: Mapping[str, str]) -> Value:
        return self._sum((result,), options, lambda mine: mine.astype(np.float64))

    def _ppl(self, result: ArmResult, options: Mapping[str, str]) -> Value:
        nats = self._loss(result, options)
        if nats.point > 700:
            raise NotEstimable(f"exp of {nats.point:.4g} nats is beyond all bounds")
        return nats.through(math.exp, math.exp(nats.point), "perplexity")

    def _sum(self, arms: Sequence[ArmResult], options: Mapping[str, str], nats_of: Callable[..., np.ndarray]) -> Value:
        """nats_of: float64 [N] of each target, from the losses of each arm."""
        tables = self._tables(arms, options)
        target_id, seed = same(tables), next(iter(tables))
        nats = {seed: nats_of(*(table.losses for table in each)) for seed, each in tables.items()}
        data = self._folders[arms[-1].name, seed].resolved().get("data_fingerprint", "")
        members = self._losses.members(options.get("class"), target_id, data)
        unit = UNITS[options.get("unit", "nats")]
        return by_document(self._losses.text(target_id), nats, members, _tokens if unit == NATS else _bits, unit)

    def _gain_of_documents(self, base: ArmResult, result: ArmResult, options: Mapping[str, str]) -> Value:
        """`analysis.documents`: arms with other tokens share no targets, but whole documents."""
        if options.get("unit", "nats") != "bits" or "class" in options:
            what = "classes are of tokens" if "class" in options else "nats are of tokens"
            raise NotEstimable(f"{result.name} has other tokens than {base.name}, and {what}", "other tokenizers are compared by document",
                               f"write gain({result.name}, unit=bits)")  # fmt: skip
        tables = self._tables((base, result), options)
        for side in zip(*tables.values(), strict=True):
            same({0: side})
        first = next(iter(tables.values()))
        groupings = [self._groupings.of(table.target_id) for table in first]
        both = {seed: shared(groupings[0].sums(theirs.losses), groupings[1].sums(mine.losses)) for seed, (theirs, mine) in tables.items()}
        nats = {seed: theirs.nats - mine.nats for seed, (theirs, mine) in both.items()}
        _, documents = next(iter(both.values()))
        sizes = _bits(documents.bytes)
        seeds = {seed: float(values.sum() / sizes.sum()) for seed, values in nats.items()}
        keys = document_keys(documents.key["digest"], documents.key["copy"])
        return over_units(keys, np.mean(list(nats.values()), axis=0), sizes, seeds, BITS, DOCUMENT)

    def _won(self, result: ArmResult, options: Mapping[str, str]) -> Value:
        """The share of each seed, averaged. Windows as in `analysis.paired`; a window belongs to the document that it begins in."""
        base = self._base(result, options)
        if other_tokens(base, result):
            raise NotEstimable(f"{result.name} has other tokens than {base.name}: they share no windows")
        tables = self._tables((base, result), options)
        text = self._losses.text(same(tables))
        row = text.targets.row
        window = np.arange(len(text.place)) // WINDOW if row is None else np.unique(row, return_inverse=True)[1]
        _, first = np.unique(window, return_index=True)
        wins = {seed: np.bincount(window, np.subtract(theirs.losses, mine.losses, dtype=np.float64)) > 0
                for seed, (theirs, mine) in tables.items()}  # fmt: skip
        seeds = {seed: float(np.mean(each)) for seed, each in wins.items()}
        document, number = text.place[first], len(text.keys)
        won = np.bincount(document, np.mean(list(wins.values()), axis=0), number)
        held = np.bincount(document, minlength=number)
        kept = np.flatnonzero(held)
        return over_units(text.keys[kept], won[kept], held[kept], seeds, "of windows", DOCUMENT)

    def _base(self, result: ArmResult, options: Mapping[str, str]) -> ArmResult:
        base = options.get("over", result.against)
        if base is None:
            raise NotEstimable(f"{result.name} is the reference, which is compared with none", "", f"write gain({result.name}, over=ARM)")
        return self._result(base)

    # --- which runs

    def _tables(self, arms: Sequence[ArmResult], options: Mapping[str, str]) -> dict[int, tuple[LossTable, ...]]:
        """{seed: losses of each of these arms}, of the seeds that all of them have at the point that is asked for."""
        part = options.get("part", "validation")
        points = [self._points(arm, options) for arm in arms]
        for arm, found in zip(arms, points, strict=True):
            if not found:
                raise NotEstimable(self._lacking(arm, options))
        common = sorted(set.intersection(*(set(found) for found in points)))
        if not common:
            seeds = " and ".join(f"{arm.name} has {', '.join(map(str, found))}" for arm, found in zip(arms, points, strict=True))
            raise NotEstimable(f"no seed is in both arms: {seeds}", "a gain is paired by seed", "run the same seeds of both")
        return {seed: tuple(self._losses.table(self._folders[arm.name, seed], part, found[seed])
                            for arm, found in zip(arms, points, strict=True)) for seed in common}  # fmt: skip

    def _points(self, result: ArmResult, options: Mapping[str, str]) -> dict[int, int]:
        """{seed: tokens} where the arm is measured as it is asked for: at the end, or at the whole step nearest to `tokens`."""
        seeds = [int(options["seed"])] if "seed" in options else list(result.arm.seeds)
        runs = {run.seed: run for run in result.runs if run.seed in seeds}
        if "tokens" not in options:
            return {seed: run.tokens for seed, run in runs.items() if run.final and run.tokens}
        at = self._step(result, options)
        found = {seed: self._folders.get((result.name, seed)) for seed, run in runs.items() if run.tokens}
        return {seed: at for seed, folder in found.items() if folder and at in points_of(folder, options.get("part", "validation"))}

    def _step(self, result: ArmResult, options: Mapping[str, str]) -> int:
        step = result.ledger.tokens_per_step
        return max(1, (2 * int(options["tokens"]) + step) // (2 * step)) * step

    def _lacking(self, result: ArmResult, options: Mapping[str, str] | None = None) -> str:
        """Why an arm is not at the point that is asked for."""
        options = options or {}
        if "seed" in options and int(options["seed"]) not in result.arm.seeds:
            return f"{result.name} has no seed {options['seed']}"
        if "tokens" in options and any(run.tokens for run in result.runs):
            return f"{result.name} is not measured at {self._step(result, options):,} tokens"
        said = []
        for run in result.runs:
            if "seed" in options and run.seed != int(options["seed"]):
                continue
            words = f"failed ({run.error})" if run.state == "failed" and run.error else _STATES.get(run.state, run.state)
            at = f" at {run.tokens:,} of {result.ledger.tokens:,} tokens" if run.tokens and not run.final else ""
            said.append(f"seed {run.seed} {words}{at}")
        return f"{result.name}: {', '.join(said)}" if said else f"{result.name} has no seeds"

    # --- other measures

    def _lens(self, result: ArmResult, options: Mapping[str, str]) -> Value:
        return self._taken(result, options, "lens", partial(lens, self._losses))

    def _depth(self, result: ArmResult, options: Mapping[str, str]) -> Value:
        return self._taken(result, options, "depths", partial(depth, self._losses))

    def _pairs(self, result: ArmResult, options: Mapping[str, str]) -> Value:
        return self._taken(result, options, "pairs", pairs)

    def _taken(self, result: ArmResult, options: Mapping[str, str], name: str, find: Callable[[Runs, Mapping[str, str]], Value]) -> Value:
        """What was measured of trained models, at the end of training."""
        if name not in self._newest:
            self._newest[name] = dict(newest(self.study, self.store, name))
        wanted = int(options["seed"]) if "seed" in options else None
        asked = {run.seed for run in result.runs if wanted in (None, run.seed)}
        runs = {seed: pair for seed, pair in self._newest[name].get(result.name, {}).items() if seed in asked}
        if not runs:
            raise NotEstimable(f"{name} of {result.name} is not measured", "", "give `ostinato measure`")
        tokens = next(iter(runs.values()))[1].tokens
        if tokens != result.ledger.tokens:
            raise NotEstimable(f"{name} of {result.name} is measured at {tokens:,} of {result.ledger.tokens:,} tokens")
        return find(runs, options)

    def _seconds(self, result: ArmResult, options: Mapping[str, str]) -> Value:
        found = {run.seed: run.seconds for run in result.runs if run.final and run.seconds is not None}
        if not found:
            raise NotEstimable(self._lacking(result))
        mean = math.fsum(found.values()) / len(found)
        return Value(mean, {seed: seconds - mean for seed, seconds in found.items()}, unit="seconds")

    def _peak_bytes(self, result: ArmResult, options: Mapping[str, str]) -> Value:
        if result.peak_bytes is None:
            raise NotEstimable(f"how much memory {result.name} takes was not measured")
        return Value(float(result.peak_bytes), unit="bytes")

    def _crossing(self, result: ArmResult, options: Mapping[str, str]) -> Value:
        base = self._base(result, options)
        for arm in (base, result):
            if not any(run.final for run in arm.runs):
                raise NotEstimable(self._lacking(arm))
        if base.ledger.tokens != result.ledger.tokens:
            raise NotEstimable(f"{result.name} and {base.name} have other budgets of tokens: their courses are not comparable")
        found = against(base, result, self._folders, self._groupings).crossing
        if found is None or found.tokens is None:
            raise NotEstimable(f"the gain of {result.name} over {base.name} never changes its sign")
        whole = against(base, self.results[result.name], self._folders, self._groupings).crossing  # to leave such a seed out hides nothing
        never = [str(seed) for seed, at in whole.by_seed.items() if at is None]
        seeds = {seed: at for seed, at in found.by_seed.items() if at is not None}
        mean = math.fsum(seeds.values()) / len(seeds) if seeds else 0.0
        return replace(
            self._zero(base, result, found.tokens, found.between),
            seeds={seed: at - mean for seed, at in seeds.items()},
            unknown=f"the gain of seed {', '.join(never)} never changes its sign" if never else "",
        )

    def _zero(self, base: ArmResult, result: ArmResult, at: float, between: tuple[int, int]) -> Value:
        """The zero of the line between two points; documents move it as they move the gains at these points."""
        unit = {"unit": "bits"} if other_tokens(base, result) else {}
        before, after = (self._gain(result, {"over": base.name, "tokens": str(point), **unit}) for point in between)
        fall, width = before.point - after.point, between[1] - between[0]
        moved = before * (-width * after.point / fall**2) + after * (width * before.point / fall**2)
        return replace(moved, point=at, unit="tokens")


def _tokens(target_bytes: np.ndarray) -> np.ndarray:
    return np.ones(len(target_bytes))


def _bits(target_bytes: np.ndarray) -> np.ndarray:
    return math.log(2) * target_bytes.astype(np.float64)
