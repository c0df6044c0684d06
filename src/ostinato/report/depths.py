"""Depth at test time, on the page: loss against the number of passes, and what stopping early costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ostinato.analysis import ArmResult
from ostinato.analysis.depths import CLASSES, Depths, depths, pairs_at
from ostinato.report import figures, numbers
from ostinato.report.class_words import classes_of, of_class
from ostinato.report.panels import arm_looks
from ostinato.report.section import Figure, Section
from ostinato.report.tables import Cell, Column, Row, Table
from ostinato.store import Store
from ostinato.study.draws import drawn_passes, least, trained_to, words
from ostinato.study.records import Passes, Study


def section(study: Study, store: Store, results: Sequence[ArmResult]) -> Section | None:
    """None where no arm has been run with other numbers of passes. Raises StoreError when a stored file is torn."""
    found = depths(study, store, CLASSES)
    if not found:
        return None
    looks, draws = arm_looks(study, results), drawn_passes(study)
    marked = "as trained, or the middle of a draw" if draws else "as trained"
    passes = [figures.Curve(one.arm, looks[one.arm], tuple((float(r), nats) for r, nats in zip(one.numbers, one.curve(), strict=True)))
              for one in found]  # fmt: skip
    exits = [figures.Curve(one.arm, looks[one.arm], tuple(sorted((rule.passes, rule.nats) for rule in one.exits()))) for one in found]
    said = "; ".join(f"{one.arm} {numbers.fixed(min(one.curve()))} at {one.numbers[one.curve().index(min(one.curve()))]}" for one in found)
    drawn = (
        Figure("Loss against passes", f"The same weights with other numbers of passes; dashed: {marked}.", figures.curves(
            "f-depths", "Loss against the number of passes", f"Lowest: {said}", passes, x_label="passes",
            y_label="nats a token", marks=_trained(found, draws), top=_top(found),
        )),
        Figure("Stopping where the output no longer moves", "A point a threshold: passes a token on average, and the loss.", figures.curves(
            "f-exits", "Loss against the average number of passes with an exit rule",
            "Each token stops at the first pass that moves the output by less than a threshold.", exits,
            x_label="passes a token, on average", y_label="nats a token",
        )),
    )  # fmt: skip
    tables = (depths_table(found, pairs_at(study, store, found), draws), exits_table(found))
    shown = tuple(figure for figure in drawn if figure.svg)
    return Section("depths", "More and fewer passes at test time", _lead(found, draws), shown, tables)


def depths_table(found: Sequence[Depths], pairs: Mapping[tuple[str, int], float] | None = None,
                 draws: Mapping[str, Passes] | None = None) -> Table:  # fmt: skip
    """A row an arm and number of passes: the loss by class, how far the output moved with the last pass, and what of `pairs` there is.

    draws: of the arms whose passes are drawn, where each number that is drawn to speak of is one trained.
    """
    classes = classes_of(found)
    columns = (Column("arm", number=False), Column("passes"), *(Column(class_, of_class("nats a target", class_)) for class_ in classes),
               Column("moved", "mean KL divergence from the output of one pass less, in nats"),
               *([Column("pairs", "mean over paradigms: share of pairs with the good sentence likelier")] if pairs else ()))  # fmt: skip
    rows = []
    for one in found:
        draw = (draws or {}).get(one.arm)
        span = range(least(draw), trained_to(draw) + 1) if draw else range(one.trained, one.trained + 1)
        for place, passes in enumerate(one.numbers):
            losses = [one.curve(class_)[place] if class_ in one.sums.classes and one.curve(class_) else None for class_ in classes]
            moved = one.moved(passes) if passes > 1 else None
            trained, right = passes in span, (pairs or {}).get((one.arm, passes))
            rows.append(Row((
                Cell(one.arm, one.arm), Cell(f"{passes}{' (trained)' if trained else ''}", passes, tone="strong" if trained else ""),
                *(Cell(numbers.fixed(nats), nats) for nats in losses), Cell(numbers.fixed(moved), moved),
                *([Cell(numbers.percent(right, 1), right)] if pairs else ()),
            )))  # fmt: skip
    return Table("depths-table", "Loss with other numbers of passes", columns, tuple(rows))


def exits_table(found: Sequence[Depths]) -> Table:
    """A row an arm and threshold: passes a target and loss, by class."""
    classes = classes_of(found)
    columns = (Column("arm", number=False), Column("threshold", "stop at the first pass from the second on whose KL is below, in nats"),
               *(Column(class_, of_class("passes a target on average, and nats a target", class_)) for class_ in classes))  # fmt: skip
    rows = []
    for one in found:
        by_class = {class_: one.exits(class_) for class_ in classes if class_ in one.sums.classes}
        for place, threshold in enumerate(one.thresholds):
            rules = [by_class[class_][place] if class_ in by_class else None for class_ in classes]
            cells = (Cell(f"{rule.passes:.2f} · {numbers.fixed(rule.nats)}", rule.nats) if rule and rule.passes is not None
                     else Cell(numbers.NONE) for rule in rules)  # fmt: skip
            rows.append(Row((Cell(one.arm, one.arm), Cell(f"{threshold:g}", threshold), *cells)))
    caption = "Each token stops where its output no longer moves: passes a target · nats a target"
    return Table("exits-table", caption, columns, tuple(rows), ("At the last number of passes every token stops in any case.",))


def _trained(found: Sequence[Depths], draws: Mapping[str, Passes]) -> tuple[tuple[str, float], ...]:
    arms: dict[tuple[int, str], list[str]] = {}
    for one in found:
        arms.setdefault((one.trained, "measured" if one.arm in draws else "trained"), []).append(one.arm)
    return tuple((f"{numbers.listed(names, 2)} {how}", float(passes)) for (passes, how), names in sorted(arms.items()))


def _top(found: Sequence[Depths]) -> float | None:
    """Losses of numbers that a model was never trained with may be of any size: what is far above those as trained is cut off."""
    highest = max(max(one.curve()) for one in found)
    trained = max(one.curve()[one.trained - 1] for one in found)
    return trained + 3 if highest > trained + 3 else None


def _lead(found: Sequence[Depths], draws: Mapping[str, Passes]) -> str:
    said = []
    for one in found[:3]:
        curve = one.curve()
        more = curve[-1] - curve[one.trained - 1]
        trained = f"trained with {numbers.several(one.trained, 'pass', 'passes')}"
        if one.arm in draws:
            trained = f"measured at {one.trained} and {words(draws[one.arm])}"
        said.append(f"{one.arm}, {trained}, changes its loss by {numbers.signed(more)} nats a token with {len(curve)}"
                    + (f" and by {numbers.signed(curve[0] - curve[one.trained - 1])} with one" if one.trained > 1 else ""))  # fmt: skip
    return "; ".join(said) + "."
