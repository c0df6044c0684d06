"""The noise of a study, all in one record: what its seeds, its documents and its machines leave open, arm by arm and for the ranking.

Of the validation part, and at the points at which the table of results compares arms. Whatever cannot be estimated has its reason.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from ostinato.analysis.against import Folders, losses_compared, other_tokens
from ostinato.analysis.arms import ArmResult
from ostinato.analysis.documents import Groupings, shared
from ostinato.analysis.intervals import Interval
from ostinato.analysis.paired import windows_of
from ostinato.analysis.results import results_table
from ostinato.analysis.words import NATS
from ostinato.errors import StoreError
from ostinato.judge.bca import bca
from ostinato.judge.estimable import NotEstimable
from ostinato.judge.exact import SignTest, sign_test
from ostinato.judge.noise import ImplementationNoise, Repeat, SeedNoise, implementation_noise, seed_noise
from ostinato.judge.permutation import SignFlip, sign_flip
from ostinato.judge.power import detectable, seeds_needed
from ostinato.judge.rank_stability import Ranking, rank_stability
from ostinato.judge.reading import Losses
from ostinato.store import RunFolder, Store
from ostinato.study.fingerprint import fingerprint, run_identity
from ostinato.study.records import Study

Found = TypeVar("Found")
SETTINGS = ("device", "threads", "compiled", "rows at once", "activation checkpointing")
"""What changes the order in which numbers are added, as a run remembers it."""


@dataclass(frozen=True)
class ArmNoise:
    """An arm's gain over `against`, in `unit`, and its noise.  seeds: {seed: gain}; documents: how many.

    windows: won, of losses averaged over seeds.  detectable: the smallest gain found at 80% with these seeds; detectable_documents: on
    this text, were there no noise of seeds.  seeds_needed: that would settle a gain as large as this.  reasons: {name: why it is None}.
    """

    arm: str
    against: str
    unit: str
    gain: float
    seeds: Mapping[int, float]
    documents: int
    interval_documents: Interval | None
    bca: Interval | None
    interval_seeds: Interval | None
    flip_seeds: SignFlip | None
    flip_documents: SignFlip | None
    windows: SignTest | None
    detectable: float | None
    detectable_documents: float | None
    seeds_needed: int | None
    reasons: Mapping[str, str]

    def record(self) -> dict[str, Any]:
        """As JSON types; an interval is [low, high]."""
        return {name: _plain(value) for name, value in vars(self).items()}


@dataclass(frozen=True)
class StudyNoise:
    """seeds: of losses in nats a token, pooled over arms.  implementation: of runs made again.  reasons: {name: why it is None}."""

    arms: tuple[ArmNoise, ...]
    seeds: SeedNoise | None
    implementation: ImplementationNoise | None
    ranking: Ranking | None
    reasons: Mapping[str, str]

    def record(self) -> dict[str, Any]:
        """As JSON types."""
        return {"arms": [arm.record() for arm in self.arms], **{name: _plain(getattr(self, name)) for name in
                ("seeds", "implementation", "ranking", "reasons")}}  # fmt: skip


def study_noise(study: Study, store: Store, results: Sequence[ArmResult] | None = None) -> StudyNoise:
    """results: the table of results of the validation part, where it is at hand. Raises StoreError when a stored file is torn."""
    results = results_table(study, store) if results is None else results
    folders, reasons = store.runs_of(study), {}
    alike = [one for one in results if one.arm.again is None and _target(one) == _target(_named(results, study.reference))]
    losses = {one.name: _losses(one) for one in alike if _losses(one)}
    seeds = _try(reasons, "seeds", lambda: seed_noise(losses))
    repeats = _repeats(results, folders)
    implementation = _try(reasons, "implementation", lambda: implementation_noise(repeats))
    read, groupings = Losses(store), Groupings(store)
    ranking = _try(reasons, "ranking", lambda: _ranking(alike, losses, study.reference, folders, read))
    compared = [_arm(_named(results, one.against), one, folders, read, groupings, seeds) for one in results
                if one.against and one.pairing and one.pairing.gain is not None and one.seeds and one.seeds.gains]  # fmt: skip
    return StudyNoise(tuple(compared), seeds, implementation, ranking, reasons)


def _arm(base: ArmResult, one: ArmResult, folders: Folders, read: Losses, groupings: Groupings, pooled: SeedNoise | None) -> ArmNoise:
    gains, sizes, windows = _documents(base, one, folders, read, groupings)
    reasons: dict[str, str] = {}
    of_seeds, number, over = one.seeds, len(one.seeds.gains), one.pairing.interval
    spread = pooled.gain if pooled and one.unit == NATS else of_seeds.sd
    if spread is None:
        reasons["detectable"] = reasons["seeds_needed"] = "one seed: the noise of seeds is not known"
    if over is None:
        reasons["interval_documents"] = "one document" if len(sizes) == 1 else "a document without a byte"
    if windows is None:
        reasons["windows"] = f"{one.name} has other tokens than {base.name}: they share no windows"
    known = spread is not None
    return ArmNoise(
        arm=one.name, against=base.name, unit=one.unit, gain=one.pairing.gain, seeds=dict(of_seeds.gains), documents=len(sizes),
        interval_documents=over,
        bca=_try(reasons, "bca", lambda: bca(gains, sizes)) if over else None,
        interval_seeds=of_seeds.interval,
        flip_seeds=_try(reasons, "flip_seeds", lambda: sign_flip(of_seeds.gains.values())),
        flip_documents=_try(reasons, "flip_documents", lambda: sign_flip(gains)),
        windows=None if windows is None else sign_test(windows),
        detectable=_try(reasons, "detectable", lambda: detectable(spread / math.sqrt(number), number - 1)) if known else None,
        detectable_documents=detectable(over.error, over.freedom) if over else None,
        seeds_needed=_try(reasons, "seeds_needed", lambda: seeds_needed(of_seeds.mean, spread)) if known else None,
        reasons=reasons,
    )  # fmt: skip


def _documents(base: ArmResult, one: ArmResult, folders: Folders, read: Losses, groupings: Groupings
               ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:  # fmt: skip
    """What every document gains, [K], its size in the unit of the gain, [K], and what every window gains, [W]; means over seeds."""
    tables, _, _ = losses_compared(base, one, folders)
    theirs, mine = next(iter(tables.values()))
    if other_tokens(base, one):
        sides = [groupings.of(table.target_id) for table in (theirs, mine)]
        both = [shared(sides[0].sums(above.losses), sides[1].sums(below.losses)) for above, below in tables.values()]
        gains = np.mean([above.nats - below.nats for above, below in both], axis=0)
        return gains, math.log(2) * both[0][1].bytes, None
    text = read.text(mine.target_id)
    gain = np.mean([np.subtract(above.losses, below.losses, dtype=np.float64) for above, below in tables.values()], axis=0)
    windows = np.bincount(windows_of(len(gain), text.targets.row), gain)
    return np.bincount(text.place, gain), np.bincount(text.place), windows


def _ranking(alike: Sequence[ArmResult], losses: Mapping[str, Mapping[int, float]], reference: str, folders: Folders,
             read: Losses) -> Ranking:  # fmt: skip
    """Of the arms that have ended on every seed that the reference has ended on."""
    seeds = losses.get(reference, {}).keys()
    chosen = [one for one in alike if seeds and seeds <= losses.get(one.name, {}).keys()]
    kept = {one.name: {seed: losses[one.name][seed] for seed in seeds} for one in chosen}
    text, sums = None, {}
    for one in chosen:
        tables = [read.table(folders[one.name, seed], one.part, one.ledger.tokens) for seed in seeds]
        text = text or read.text(tables[0].target_id)
        sums[one.name] = np.bincount(text.place, np.mean([table.losses for table in tables], axis=0, dtype=np.float64))
    return rank_stability(kept, sums, None if text is None else np.bincount(text.place))


def _repeats(results: Sequence[ArmResult], folders: Folders) -> list[Repeat]:
    """Runs of the same model, recipe, data and seed that were made more than once, with what they were made differently."""
    groups: dict[str, list[ArmResult]] = defaultdict(list)
    for one in results:
        arm = one.arm.model_copy(update={"again": None})
        groups[fingerprint([run_identity(arm, 0, ""), arm.data])].append(one)
    found = []
    for group in groups.values():
        for seed in sorted({seed for one in group for seed in one.arm.seeds}):
            runs = {one.name: (folders[one.name, seed], _losses(one)[seed]) for one in group if seed in _losses(one)}
            once = {folder.name: name for name, (folder, _) in reversed(runs.items())}
            runs = {name: run for name, run in runs.items() if name in once.values()}
            settings = {name: _settings(folder) for name, (folder, _) in runs.items()} if len(runs) > 1 else {}
            found.append(Repeat(seed, {name: loss for name, (_, loss) in runs.items()}, tuple(_differences(settings))))
    return found


def _settings(folder: RunFolder) -> dict[str, Any]:
    session, arm = folder.session(), folder.resolved().get("arm") or {}
    rows = (session.get("rows_at_once") or {}).get("at") if isinstance(session.get("rows_at_once"), dict) else session.get("rows_at_once")
    rows = rows[-1][1] if isinstance(rows, list) else rows
    return {**session, "rows at once": rows, "activation checkpointing": (arm.get("recipe") or {}).get("activation_checkpointing")}


def _differences(settings: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """As `threads: 1 in base, 2 in again`."""
    said = []
    for name in SETTINGS:
        values = {arm: of.get(name) for arm, of in settings.items()}
        if len({str(value) for value in values.values()}) > 1:
            words = {True: "yes", False: "no", None: "not recorded"}
            said.append(f"{name}: " + ", ".join(f"{words.get(value, value) if isinstance(value, bool | None) else value} in {arm}"
                                                for arm, value in values.items()))  # fmt: skip
    return said


def _losses(one: ArmResult) -> dict[int, float]:
    """{seed: nats a token} of the runs that are at their end."""
    return {run.seed: run.sums.nats_per_token for run in one.runs if run.final and run.sums and run.sums.nats_per_token is not None}


def _target(one: ArmResult) -> str | None:
    return next((run.target_id for run in one.runs if run.final), None)


def _named(results: Sequence[ArmResult], name: str | None) -> ArmResult:
    return next(one for one in results if one.name == name)


def _try(reasons: dict[str, str], name: str, find: Callable[[], Found]) -> Found | None:
    """What `find` finds, or None and its reason."""
    try:
        return find()
    except NotEstimable as error:
        reasons[name] = error.reason
    except StoreError as error:
        reasons[name] = error.what
    return None


def _plain(value: Any) -> Any:
    if isinstance(value, Interval):
        return [value.low, value.high]
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return value.record() if hasattr(value, "record") else value
