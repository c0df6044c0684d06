"""Stored measures with one row a target (lens, skips, depths), summed by token class: sums over targets and seeds, then one division.

Shapes, as suffixes of names: C columns, K classes, M measured targets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ostinato.analysis.members import ALL, TokenClass, named_classes
from ostinato.data.classes import TokenClasses
from ostinato.errors import StoreError
from ostinato.store import RunFolder, Store
from ostinato.store.measures import Measure
from ostinato.study.records import Study

Columns = dict[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class ClassSums:
    """sums_CK: float64, nats of every column over the targets of every class, which count_K int64 counts."""

    columns: tuple[str, ...]
    classes: tuple[str, ...]
    sums_CK: np.ndarray
    count_K: np.ndarray

    def mean(self, column: str, class_: str = ALL) -> float | None:
        """None ("not estimable") where the class has no target."""
        place = self.classes.index(class_)
        return float(self.sums_CK[self.columns.index(column), place] / self.count_K[place]) if self.count_K[place] else None

    def __add__(self, other: ClassSums) -> ClassSums:
        """Of both together. Raises StoreError for other columns or classes."""
        if (self.columns, self.classes) != (other.columns, other.classes):
            raise StoreError("sums of other columns or classes", "seeds of one arm are summed column by column", "measure both again")
        return replace(self, sums_CK=self.sums_CK + other.sums_CK, count_K=self.count_K + other.count_K)


@dataclass(frozen=True, eq=False)
class ArmSums:
    """A measure of one arm, of all its seeds together.  tokens: trained on.  about: what was stored beside the columns."""

    arm: str
    seeds: tuple[int, ...]
    tokens: int
    sums: ClassSums
    about: Mapping[str, Any]


def members(asked: Iterable[TokenClass], known: TokenClasses | None, target_M: np.ndarray) -> dict[str, np.ndarray]:
    """Which of the measured targets each class has: bool [M] by name, ALL always first.  known: of all targets; None: only `all`."""
    found = {ALL: np.ones(len(target_M), bool)}
    return found | ({one.name: one.of(known)[target_M] for one in asked} if known is not None else {})


def class_sums(columns: Mapping[str, np.ndarray], chosen: Mapping[str, np.ndarray]) -> ClassSums:
    """columns: [M] by name.  chosen: which of the M each class has, bool [M] by name."""
    weights_MK = np.stack([*chosen.values()], 1).astype(np.float64)
    sums_CK = np.stack([np.asarray(column, np.float64) @ weights_MK for column in columns.values()])
    return ClassSums(tuple(columns), tuple(chosen), sums_CK, weights_MK.sum(0).astype(np.int64))


def newest(study: Study, store: Store, name: str) -> Iterator[tuple[str, dict[int, tuple[RunFolder, Measure]]]]:
    """Of every arm that has some, the measures of this name in its runs by seed: of the validation windows that the study evaluates, all on
    as many targets or on the same pairs, at the furthest point that is measured.

    On what: as the study asks; where no run was measured so, as most were, the newest of equals. `otherwise` names who was not.
    Seeds of an arm stand together where they were measured with the same settings.
    """
    taken = _taken(study, store, name)
    wanted = _wanted(study, taken)
    for arm in study.arms:
        found = {}
        for seed in arm.seeds:
            folder, mine = taken.get((arm.name, seed), (None, []))
            if alike := [one for one in mine if _on(one) == wanted]:
                found[seed] = folder, alike[-1]
        furthest = max((measure.tokens for _, measure in found.values()), default=0)
        ends = {seed: pair for seed, pair in found.items() if pair[1].tokens == furthest}
        if ends:
            _, first = next(iter(ends.values()))
            yield arm.name, {seed: pair for seed, pair in ends.items() if pair[1].settings == first.settings}


def otherwise(study: Study, store: Store, name: str) -> list[str]:
    """The runs, as `arm, seed 1`, that were measured on other targets or pairs only than what `newest` gives."""
    taken = _taken(study, store, name)
    wanted = _wanted(study, taken)
    return [f"{arm}, seed {seed}" for (arm, seed), (_, mine) in taken.items() if mine and all(_on(one) != wanted for one in mine)]


def _taken(study: Study, store: Store, name: str) -> dict[tuple[str, int], tuple[RunFolder, list[Measure]]]:
    """By arm and seed, in the order of the study."""
    folders, found = store.runs_of(study), {}
    for arm in study.arms:
        for seed in arm.seeds:
            folder = folders.get((arm.name, seed))
            if folder is not None and folder.exists():
                mine = [one for one in folder.measures(name) if one.about.get("evaluation") in (None, folder.evaluation)]
                found[arm.name, seed] = folder, mine
    return found


def _on(measure: Measure) -> tuple[int | None, str | None]:
    """What it was taken on: about how many targets, and which pairs."""
    return measure.settings.get("targets"), measure.settings.get("content")


def _wanted(study: Study, taken: Mapping[tuple[str, int], tuple[RunFolder, list[Measure]]]) -> tuple[int | None, str | None] | None:
    every = [(key, one) for key, (_, mine) in taken.items() for one in mine]

    def worth(on: tuple[int | None, str | None]) -> tuple[bool, int, str]:
        these = [(key, one) for key, one in every if _on(one) == on]
        asked = any((one.settings.get("targets"), one.about.get("pairs")) in
                    ((study.measure.targets, None), (None, study.measure.pairs)) for _, one in these)  # fmt: skip
        return asked, len({key for key, _ in these}), max(one.taken for _, one in these)

    return max({_on(one) for _, one in every}, key=worth, default=None)


def measured_sums(study: Study, store: Store, name: str, classes: str | Iterable[str],
                  derive: Callable[[Columns], Columns] = dict) -> list[ArmSums]:  # fmt: skip
    """A measure with one row a target, by token class (`members.named_classes`), of every arm that has it, in the order of the study.

    Where the classes of the targets are not stored, `all` is the only class.
    derive: from the stored columns, [M] each by name, those that are summed.
    Raises StudyError for an unknown class, StoreError for a torn file.
    """
    asked, found = named_classes(classes), []
    for arm, pairs in newest(study, store, name):
        _, first = next(iter(pairs.values()))
        whole: ClassSums | None = None
        for folder, measure in pairs.values():
            table = measure.table()
            columns = {column: table[column].to_numpy() for column in table.column_names}
            known = store.classes(measure.settings["target_id"], folder.resolved()["data_fingerprint"])
            chosen = members(asked, known, columns.pop("target"))
            sums = class_sums(derive(columns), chosen)
            whole = sums if whole is None else whole + sums
        found.append(ArmSums(arm, tuple(pairs), first.tokens, whole, first.about))
    return found
