"""Where a gain sits: the gain of every arm over its reference within classes of targets, and what each class adds to the whole.

A class's gain is the mean over its targets, in nats a token. Its contribution is the same sum over all targets of the part, so that the
contributions of a family of classes add up to the whole gain (as in "The second pass of a small looped Transformer does not decompose",
section 4.2, where bits per byte add up). A ratio is to another arm's gain in the same class: it says where an arm comes close to the other,
and nothing about how much there is to gain. As everywhere, intervals are over documents on losses averaged over seeds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ostinato.analysis.against import Folders, losses_compared, other_tokens
from ostinato.analysis.arms import ArmResult
from ostinato.analysis.intervals import Interval, over_clusters
from ostinato.analysis.members import ALL, TokenClass, named_classes
from ostinato.analysis.paired import same_targets
from ostinato.analysis.results import results_table
from ostinato.analysis.seeds import over_seeds
from ostinato.data.classes import TokenClasses
from ostinato.errors import StoreError
from ostinato.store import Store, TargetTable
from ostinato.study.asked import asked_arms
from ostinato.study.records import Study


@dataclass(frozen=True)
class ClassGain:
    """One class of targets.  gain: nats a token within it, None where it has no target; interval: over documents that hold some of it.

    contribution: the class's summed gain over all targets, nats a token; contribution_bits: over all their bytes, bits a byte.
    share_of_targets; share_of_gain: of the whole gain, None where that is 0.  seeds: the gain of each alone.
    ratio: to the gain of another arm in the same class (ArmClasses.ratio_to).
    """

    name: str
    family: str
    targets: int
    documents: int
    gain: float | None
    interval: Interval | None
    contribution: float
    contribution_bits: float | None
    share_of_targets: float | None
    share_of_gain: float | None
    seeds: Mapping[int, float]
    ratio: float | None = None

    @property
    def about_zero(self) -> bool:
        """Whether the gain is inside the noise of documents or of seeds, as in the table of results; without a target it is."""
        if self.gain is None or (self.interval is not None and self.interval.holds(0.0)):
            return True
        return abs(self.gain) <= over_seeds(self.seeds, self.interval).noise

    def record(self) -> dict[str, Any]:
        """As JSON types."""
        seeds = {str(seed): gain for seed, gain in self.seeds.items()}
        return {**vars(self), "seeds": seeds, "interval": self.interval and [self.interval.low, self.interval.high]}


@dataclass(frozen=True)
class ArmClasses:
    """An arm beside the one it is compared with, after `tokens` of training (final: the end of it), class by class; whole: all targets.

    ratio_to: the arm whose gains `ratio` divides by.  problem: why there are no classes.
    """

    arm: str
    against: str
    tokens: int | None = None
    final: bool = False
    whole: ClassGain | None = None
    classes: tuple[ClassGain, ...] = ()
    ratio_to: str | None = None
    problem: str | None = None

    @property
    def all(self) -> tuple[ClassGain, ...]:
        """The classes and, last, all targets."""
        return (*self.classes, self.whole) if self.whole else ()

    def record(self) -> dict[str, Any]:
        """As JSON types."""
        return {**vars(self), "whole": self.whole and self.whole.record(), "classes": [one.record() for one in self.classes]}


def class_gains(
    losses: Mapping[int, tuple[np.ndarray, np.ndarray]], known: TokenClasses, classes: Sequence[TokenClass], targets: TargetTable
) -> tuple[ClassGain, tuple[ClassGain, ...]]:
    """The gain on all targets, and in each of `classes`.

    losses: {seed: ([N] nats of the reference, [N] nats of the arm)}, one seed or more. known, targets: of the same N targets in that order.
    Raises StoreError when they are not as many.
    """
    sizes = {len(known), len(targets.document), *(np.size(side) for pair in losses.values() for side in pair)}
    if len(sizes) > 1:
        counts = " and ".join(f"{size:,}" for size in sorted(sizes))
        raise StoreError(f"{counts} losses, targets and classes", "one of each for every target", "read all of them from one store")
    by_seed = {seed: np.subtract(*pair, dtype=np.float64) for seed, pair in losses.items()}
    gain = np.mean(list(by_seed.values()), axis=0)
    targets_in_all, gain_of_all = len(gain), float(gain.sum())
    bytes_of_all = math.log(2) * float(np.sum(targets.bytes, dtype=np.int64))

    def within(name: str, family: str, members: np.ndarray | slice) -> ClassGain:
        mine, document = gain[members], targets.document[members]
        count, total, counts = len(mine), float(mine.sum()), np.bincount(document)
        held = np.flatnonzero(counts)
        return ClassGain(
            name=name,
            family=family,
            targets=count,
            documents=len(held),
            gain=total / count if count else None,
            interval=over_clusters(np.bincount(document, mine)[held], counts[held]),
            contribution=total / max(1, targets_in_all),
            contribution_bits=total / bytes_of_all if bytes_of_all else None,
            share_of_targets=count / targets_in_all if targets_in_all else None,
            share_of_gain=total / gain_of_all if gain_of_all else None,
            seeds={seed: float(each[members].sum() / count) for seed, each in by_seed.items()} if count else {},
        )

    return within(ALL, ALL, slice(None)), tuple(within(one.name, one.family, np.flatnonzero(one.of(known))) for one in classes)


def gains_by_class(
    study: Study,
    store: Store,
    classes: str | Sequence[str] = "R",
    *,
    ratio_to: str | None = None,
    results: Sequence[ArmResult] | None = None,
) -> list[ArmClasses]:
    """Every arm but the reference, in the study's order, on the validation targets where its gain in the table of results is taken.

    classes: as `named_classes` reads them. ratio_to: the arm whose gains the others are divided by, class by class. results: those of the
    study, if they are at hand. What keeps an arm from being split is its `problem`. Raises StudyError for an unknown class or arm.
    """
    asked = named_classes(classes)
    if ratio_to is not None:
        asked_arms(study.arms, [ratio_to])
    results = results_table(study, store) if results is None else results
    by_name, folders = {one.name: one for one in results}, store.runs_of(study)
    known: dict[str, tuple[TokenClasses, TargetTable]] = {}
    found = []
    for result in results:
        if result.against is None:
            continue
        try:
            found.append(_split(by_name[result.against], replace(result, part="validation"), folders, asked, store, known))
        except StoreError as error:
            problem = f"{error.what}; {error.fix}" if error.fix else error.what
            found.append(ArmClasses(result.name, result.against, problem=problem))
    return _with_ratios(found, ratio_to)


def _split(
    base: ArmResult, result: ArmResult, folders: Folders, asked: Sequence[TokenClass], store: Store,
    known: dict[str, tuple[TokenClasses, TargetTable]],
) -> ArmClasses:  # fmt: skip
    """One arm beside its reference. known: what was read of targets before. Raises StoreError where there is nothing to split."""
    if other_tokens(base, result):
        raise StoreError(f"its tokens are not those of {base.name}: classes are of tokens")
    tables, tokens, final = losses_compared(base, result, folders)
    if not tables:
        raise StoreError(result.problem or "not measured yet")
    for pair in tables.values():
        same_targets(*pair)
    first = next(iter(tables))
    target_id = tables[first][0].target_id
    if target_id not in known:
        classes = store.classes(target_id, folders[base.name, first].resolved().get("data_fingerprint", ""))
        if classes is None:
            raise StoreError("the classes of its targets are not stored", "classes are found when a study is run",
                             "give `ostinato run` again: they are added, and nothing is trained anew")  # fmt: skip
        known[target_id] = classes, store.targets(target_id)
    classes, targets = known[target_id]
    losses = {seed: (theirs.losses, mine.losses) for seed, (theirs, mine) in tables.items()}
    whole, parts = class_gains(losses, classes, asked, targets)
    return ArmClasses(result.name, base.name, tokens, final, whole, parts)


def _with_ratios(found: Sequence[ArmClasses], ratio_to: str | None) -> list[ArmClasses]:
    """Beside the gains of one arm, where both are compared with the same arm and are at the same targets.

    None where the gain of that arm is about zero: a share of nothing says nothing.
    """
    other = next((one for one in found if one.arm == ratio_to and one.whole and not one.whole.about_zero), None)
    if other is None:
        return list(found)
    listed = []
    for one in found:
        if one.whole and one.against == other.against and one.whole.targets == other.whole.targets:
            ratios = [mine.gain / theirs.gain if mine.gain is not None and theirs.gain else None
                      for mine, theirs in zip(one.all, other.all, strict=True)]  # fmt: skip
            *parts, whole = (replace(mine, ratio=ratio) for mine, ratio in zip(one.all, ratios, strict=True))
            one = replace(one, whole=whole, classes=tuple(parts), ratio_to=ratio_to)
        listed.append(one)
    return listed
