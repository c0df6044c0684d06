"""Depth at test time: losses by number of passes and token class, and what an exit rule of any threshold gives (measure/depths.py).

The rule: after each pass but the first, stop where the distribution over the next token has moved by less than the threshold,
KL(p_r || p_(r-1)) < threshold; at the last number of passes stop in any case. What the head costs at every pass is not counted.

Shapes, as suffixes of names: R numbers of passes, N targets.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ostinato.analysis.measured import ALL, ClassSums, Columns, measured_sums, newest
from ostinato.analysis.minimal_pairs import pair_scores
from ostinato.errors import OstinatoError
from ostinato.store import Store
from ostinato.study.records import Study

CLASSES = "R"
THRESHOLDS = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001)


@dataclass(frozen=True)
class Exit:
    """What one threshold gives over the targets of one class: passes a target and nats a target, None without one."""

    threshold: float
    passes: float | None
    nats: float | None


@dataclass(frozen=True, eq=False)
class Depths:
    """One arm's. trained: its number of passes.  sums: of `nats_1`, …, `kl_2`, … and of each threshold's rule, over targets and seeds."""

    arm: str
    seeds: tuple[int, ...]
    tokens: int
    trained: int
    thresholds: tuple[float, ...]
    sums: ClassSums

    @property
    def numbers(self) -> range:
        """The numbers of passes that were run."""
        return range(1, sum(column.startswith("nats_") for column in self.sums.columns) + 1)

    def curve(self, class_: str = ALL) -> tuple[float, ...]:
        """Nats a target by number of passes; () without a target of the class."""
        found = [self.sums.mean(f"nats_{passes}", class_) for passes in self.numbers]
        return () if None in found else tuple(found)

    def moved(self, passes: int, class_: str = ALL) -> float | None:
        """The mean KL from one pass less, in nats."""
        return self.sums.mean(f"kl_{passes}", class_)

    def exits(self, class_: str = ALL) -> list[Exit]:
        """With every threshold."""
        return [Exit(one, *(self.sums.mean(name, class_) for name in _names(one))) for one in self.thresholds]


def exit_rule(nats_RN: np.ndarray, kl_RN: np.ndarray, threshold: float) -> tuple[np.ndarray, np.ndarray]:
    """(passes int64 [N], nats [N]) with the rule.  nats_RN: of 1 … R passes.  kl_RN: from one pass less, of 2 … R passes: [R - 1, N].

    Raises OstinatoError for a threshold below 0 and for arrays that do not belong together.
    """
    nats_RN, kl_RN = np.asarray(nats_RN), np.asarray(kl_RN)
    if not threshold >= 0:
        raise OstinatoError(f"an exit threshold of {threshold}", "KL is at least 0", "give one of 0 or more, as 0.01")
    if nats_RN.ndim != 2 or kl_RN.shape != (len(nats_RN) - 1, nats_RN.shape[1]):
        raise OstinatoError(f"losses of shape {nats_RN.shape} and KL of shape {kl_RN.shape}", "every pass but the first has a KL a target",
                            "give both as they were measured")  # fmt: skip
    stops_RN = np.concatenate([kl_RN < threshold, np.ones((1, nats_RN.shape[1]), bool)])  # the last row: behind the last number
    passes_N = np.minimum(stops_RN.argmax(0) + 2, len(nats_RN))
    return passes_N, np.take_along_axis(nats_RN, passes_N[None] - 1, 0)[0]


def depths(study: Study, store: Store, classes: str | Iterable[str] = CLASSES, thresholds: Sequence[float] = THRESHOLDS) -> list[Depths]:
    """Of every arm that has been measured so, in the order of the study. Raises as `measured_sums` and `exit_rule`."""

    def with_rules(columns: Columns) -> Columns:
        nats_RN, kl_RN = (np.stack([column for name, column in columns.items() if name.startswith(kind)]) for kind in ("nats_", "kl_"))
        rules = [zip(_names(one), exit_rule(nats_RN, kl_RN, one), strict=True) for one in thresholds]
        return columns | {name: column for rule in rules for name, column in rule}

    return [Depths(one.arm, one.seeds, one.tokens, one.about["trained_passes"], tuple(thresholds), one.sums)
            for one in measured_sums(study, store, "depths", classes, with_rules)]  # fmt: skip


def pairs_at(study: Study, store: Store, found: Sequence[Depths]) -> dict[tuple[str, int], float]:
    """The macro mean accuracy on minimal pairs by (arm, passes), seeds together, where it was measured (`ostinato measure --passes`).

    Raises StoreError for a torn file.
    """
    accuracy = {}
    for passes in sorted({passes for one in found for passes in one.numbers}):
        for name in ("pairs", f"pairs@{passes}"):
            of = {one.arm: one for one in found if (one.trained == passes) is (name == "pairs")}
            for arm, runs in newest(study, store, name):
                if arm in of and passes in of[arm].numbers:
                    scores = pair_scores([measure.table() for _, measure in runs.values()])
                    accuracy |= {} if scores.macro is None else {(arm, passes): scores.macro}
    return accuracy


def _names(threshold: float) -> tuple[str, str]:
    return f"passes until {threshold!r}", f"loss until {threshold!r}"
