"""What applications and passes are worth: how much more a target costs without them, by token class (measure/skips.py)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ostinato.analysis.applications import Labels, called, without, without_pass
from ostinato.analysis.measured import ALL, ClassSums, measured_sums
from ostinato.store import Store
from ostinato.study.records import Study

CLASSES = "R"
WHOLE = "whole"
"""The column of the loss with nothing skipped."""


@dataclass(frozen=True, eq=False)
class Skips:
    """One arm's. labels: of its applications.  sums: of `whole`, `without_0`, …, `without_pass_1`, … over targets and seeds."""

    arm: str
    seeds: tuple[int, ...]
    tokens: int
    labels: Labels
    sums: ClassSums

    def worth(self, column: str, class_: str = ALL) -> float | None:
        """Nats a target that the model loses without it; below 0 where it is better without. None without a target of the class."""
        without, whole = self.sums.mean(column, class_), self.sums.mean(WHOLE, class_)
        return None if without is None or whole is None else without - whole

    @property
    def applications(self) -> dict[str, str]:
        """What is skipped alone: the column, and how the application is called."""
        return {without(label["index"]): called(label) for label in self.labels}

    @property
    def passes(self) -> dict[str, str]:
        """Alike of whole passes; {} where there is one."""
        numbers = sorted({label["pass_"] for label in self.labels})
        return {without_pass(number): f"pass {number}" for number in numbers} if len(numbers) > 1 else {}


def skips(study: Study, store: Store, classes: str | Iterable[str] = CLASSES) -> list[Skips]:
    """Of every arm that has been measured so, in the order of the study. Raises as `measured_sums`."""
    return [Skips(one.arm, one.seeds, one.tokens, one.about["applications"], one.sums)
            for one in measured_sums(study, store, "skips", classes)]  # fmt: skip
