"""The lens of every arm by token class: what the head would lose after each application (measure/lens.py)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ostinato.analysis.applications import Labels, after, first_of, pass_ends
from ostinato.analysis.measured import ClassSums, measured_sums
from ostinato.store import Store
from ostinato.study.records import Study

CLASSES = "R, k >= 8"
INPUT = "input"
"""The column that is read before the first application."""
RESOLVED = 0.5
"""Nats: targets are resolved where the lens is that near to the loss. The source reads 0.26 as resolved and 4.2 as not (its Table 4)."""


@dataclass(frozen=True, eq=False)
class Lens:
    """One arm's. labels: of its applications.  sums: of `input`, `after_0`, … over targets and seeds."""

    arm: str
    seeds: tuple[int, ...]
    tokens: int
    labels: Labels
    sums: ClassSums

    def after(self, application: int | None, class_: str) -> float | None:
        """Nats a target after this application, by its index; None: before the first. None without a target of the class."""
        return self.sums.mean(INPUT if application is None else after(application), class_)

    def curve(self, class_: str) -> tuple[float, ...]:
        """Nats a target before the first application and after each; () without a target of the class."""
        found = [self.after(None, class_), *(self.after(label["index"], class_) for label in self.labels)]
        return () if None in found else tuple(found)

    @property
    def first_pass(self) -> int:
        """The application that ends the first pass; the last one where nothing runs twice."""
        return pass_ends(self.labels)[1]

    def middle(self, layer: int | None = None) -> int:
        """The first application of this layer (the last application where it never runs), or the one in the middle of the first pass."""
        if layer is None:
            return self.first_pass // 2
        found = first_of(self.labels, layer)
        return len(self.labels) - 1 if found is None else found

    def resolves(self, class_: str, margin: float = RESOLVED) -> int | None:
        """The first application from which on the lens stays within `margin` nats of the loss; None without a target of the class."""
        curve = self.curve(class_)[1:]
        far = [place for place, nats in enumerate(curve) if abs(nats - curve[-1]) > margin]
        return (far[-1] + 1 if far else 0) if curve else None


def lenses(study: Study, store: Store, classes: str | Iterable[str] = CLASSES) -> list[Lens]:
    """Of every arm that has one, in the order of the study. Raises as `measured_sums`."""
    return [Lens(one.arm, one.seeds, one.tokens, one.about["applications"], one.sums)
            for one in measured_sums(study, store, "lens", classes)]  # fmt: skip
