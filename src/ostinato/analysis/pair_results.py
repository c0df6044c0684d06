"""The minimal pairs of a study's arms: scores in both conventions, each arm beside the one it is compared with, and loss against pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ostinato.analysis.measured import newest, otherwise
from ostinato.analysis.minimal_pairs import CONVENTIONS, Convention, PairedPairs, PairScores, compare_pairs, pair_scores
from ostinato.analysis.ranks import Ranks, ranks
from ostinato.analysis.results import ArmResult
from ostinato.analysis.words import BITS
from ostinato.store import Store
from ostinato.study.records import Study

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, eq=False)
class ArmPairs:
    """One arm, all its seeds together, or a model that was trained elsewhere.  tokens: trained on.  source: of the pairs.  by_seed: tables.

    scores: by convention, of those that it is scored in.  against: the arm that it is compared with, in the convention `bos`; compared:
    None where there is no such arm, or it is not measured as far.
    """

    arm: str
    tokens: int
    source: str
    by_seed: Mapping[int, pa.Table]
    scores: Mapping[Convention, PairScores]
    against: str | None = None
    compared: PairedPairs | None = None
    elsewhere: bool = False

    @property
    def macro(self) -> float | None:
        """In the convention `bos`."""
        return self.scores["bos"].macro if "bos" in self.scores else None


@dataclass(frozen=True)
class Swap:
    """lower has the lower loss, by `loss` (0 or more); higher finds more pairs, by `macro` (a share).

    clear: every seed that both have shows that loss, and the accuracies differ by more than noise (`PairedPairs.clear`).
    """

    lower: str
    higher: str
    loss: float
    macro: float
    clear: bool


@dataclass(frozen=True)
class Disagreement:
    """How the order of arms by loss is another than that by minimal pairs.  unit: of the loss."""

    ranks: Ranks
    swaps: tuple[Swap, ...]
    losses: Mapping[str, float]
    unit: str


def pair_results(study: Study, store: Store, results: Sequence[ArmResult]) -> tuple[list[ArmPairs], list[str]]:
    """Arms that have scored the same pairs, in the order of the study, and models of the store that have; runs that have scored others.

    An arm is compared at its end with the end of the other, or at the same number of tokens. Raises StoreError when a stored file is torn.
    """
    found, content = {}, None
    for arm, seeds in newest(study, store, "pairs"):
        tables = {seed: measure.table() for seed, (_, measure) in seeds.items()}
        _, one = next(iter(seeds.values()))
        content = one.settings.get("content")
        found[arm] = ArmPairs(arm, one.tokens, one.about.get("source", ""), tables, _scores(tables))
    if not found:
        return [], []
    by_name = {result.name: result for result in results}
    arms = [_compared(arm, found, by_name) for arm in found.values()]
    return arms + _elsewhere(store, content, found.get(study.reference)), otherwise(study, store, "pairs")


def _scores(tables: Mapping[int, pa.Table]) -> dict[Convention, PairScores]:
    known = [one for one in CONVENTIONS if not any(table[f"good_{one}"].null_count for table in tables.values())]
    return {convention: pair_scores(list(tables.values()), convention) for convention in known}


def _elsewhere(store: Store, content: str | None, reference: ArmPairs | None) -> list[ArmPairs]:
    """Models that were not trained here and have scored these pairs, each beside the reference of the study."""
    found = []
    for folder in store.models():
        mine = [measure for measure in folder.measures("pairs") if measure.settings.get("content") == content]
        if mine:
            table = mine[-1].table()
            scores = _scores({0: table})
            pairs = {seed: (base, table) for seed, base in reference.by_seed.items()} if reference and "bos" in scores else {}
            found.append(ArmPairs(str(folder.given().get("arm")), 0, mine[-1].about.get("source", ""), {0: table}, scores,
                                  reference and reference.arm, compare_pairs(pairs) if pairs else None, True))  # fmt: skip
    return found


def _compared(arm: ArmPairs, found: Mapping[str, ArmPairs], results: Mapping[str, ArmResult]) -> ArmPairs:
    against = results[arm.arm].against if arm.arm in results else None
    base = found.get(against or "")
    ends = base and all(one.tokens == results[one.arm].tokens and results[one.arm].final for one in (arm, base))
    seeds = [seed for seed in arm.by_seed if base and seed in base.by_seed and (ends or base.tokens == arm.tokens)]
    compared = compare_pairs({seed: (base.by_seed[seed], arm.by_seed[seed]) for seed in seeds}) if seeds else None
    return ArmPairs(**{**vars(arm), "against": against, "compared": compared})


def disagreement(pairs: Sequence[ArmPairs], results: Sequence[ArmResult], unit: str) -> Disagreement | None:
    """Loss, in `unit`, against the macro mean of pairs in the convention `bos`; of arms that have both at one point, None under two."""
    rate = "bits_per_byte" if unit == BITS else "nats_per_token"
    of = {result.name: result for result in results}
    both = {one.arm: one for one in pairs if one.macro is not None and not one.elsewhere and of[one.arm].tokens == one.tokens}
    losses = {arm: loss for arm in both if (loss := getattr(of[arm].sums, rate)) is not None}
    if len(losses) < 2:
        return None
    found = ranks({arm: -loss for arm, loss in losses.items()}, {arm: both[arm].macro for arm in losses})
    seeds = {arm: {run.seed: getattr(run.sums, rate) for run in of[arm].runs if run.sums and run.seed in of[arm].seeds_used}
             for arm in losses}  # fmt: skip
    swaps = []
    for lower, higher in found.swaps:
        shared = [seed for seed in seeds[lower] if seed in seeds[higher]]
        tables = {seed: (both[lower].by_seed[seed], both[higher].by_seed[seed]) for seed in shared
                  if seed in both[lower].by_seed and seed in both[higher].by_seed}  # fmt: skip
        clear = bool(tables) and all(seeds[lower][seed] < seeds[higher][seed] for seed in shared) and compare_pairs(tables).clear
        swaps.append(Swap(lower, higher, losses[higher] - losses[lower], both[higher].macro - both[lower].macro, clear))
    return Disagreement(found, tuple(swaps), losses, unit)
