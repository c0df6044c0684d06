"""Minimal pairs on the page: accuracy by field, each arm beside its reference, and whether pairs order the arms as the loss does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ostinato.analysis import ArmResult
from ostinato.analysis.minimal_pairs import PairedPairs
from ostinato.analysis.pair_results import ArmPairs, Disagreement, disagreement, pair_results
from ostinato.report import numbers
from ostinato.report.figures import WIDTH, short
from ostinato.report.looks import Look
from ostinato.report.panels import arm_looks
from ostinato.report.results import tone
from ostinato.report.section import Figure, Section
from ostinato.report.svg import Canvas, Scale, padded, ticks
from ostinato.report.tables import Cell, Column, Row, Table
from ostinato.report.units import WORDS, unit_of
from ostinato.store import Store
from ostinato.study.records import Study

ALL = "all paradigms"
CHANCE = 50.0
_ROW, _LINE, _NAME = 40.0, 24.0, 118.0
_MOST = 8  # swaps in a sentence


def section(study: Study, store: Store, results: Sequence[ArmResult]) -> Section | None:
    """What the arms find of the minimal pairs that they were measured on; None where none was. Raises StoreError for a torn file."""
    pairs, others = pair_results(study, store, results)
    if not pairs:
        return None
    looks = arm_looks(study, results)
    order, arms = disagreement(pairs, results, unit_of(study)), [one for one in pairs if not one.elsewhere]
    figures = [Figure("Accuracy by field", "A dot an arm: the share of pairs whose good sentence it finds likelier.",
                      by_field("f-pairs", accuracies(arms), looks, study.reference))]  # fmt: skip
    if order:
        places = {one.arm: one.macro for one in arms if one.arm in order.losses}
        figures.append(Figure("Loss against pairs", "Best at the top on either side: arms whose lines cross change places.",
                              rank_lines("f-pair-ranks", order, places, looks)))  # fmt: skip
    notes = [f"Measured on other pairs, and not shown: {numbers.listed(others)}."] if others else []
    notes += [swaps_in_words(order)] if order and order.swaps else []
    tables = (pair_table(pairs), term_table(pairs))
    return Section("pairs", "Minimal pairs", lead(study, arms, order), tuple(figures), tables, tuple(notes))


def lead(study: Study, pairs: Sequence[ArmPairs], order: Disagreement | None) -> str:
    """The reference, the arm that differs most from what it is compared with, and whether the loss orders arms alike."""
    first = next((one for one in pairs if one.arm == study.reference), pairs[0])
    said = f"{first.arm} finds the good sentence in {numbers.percent(first.macro, 1)} of the pairs of a paradigm (chance: {CHANCE:.0f}%)"
    compared = [one for one in pairs if one.compared and one.compared.macro is not None]
    if compared:
        most = max(compared, key=lambda one: abs(one.compared.macro))
        said += f"; {most.arm} differs most from {most.against}: {most.compared.words}"
    if order and order.ranks.tau is not None:
        clear = sum(swap.clear for swap in order.swaps)
        said += f". Loss and pairs order {numbers.several(len(order.losses), 'arm')} with Kendall's τ {numbers.fixed(order.ranks.tau, 2)}"
        if order.swaps:
            said += f": {numbers.several(len(order.swaps), 'pair')} of arms change places, {clear or 'none'} of them beyond noise"
    return said + "."


def swaps_in_words(order: Disagreement) -> str:
    """Which arms change places, those beyond noise first."""
    swaps = sorted(order.swaps, key=lambda swap: not swap.clear)
    listed = [f"{swap.lower} has the lower loss (by {numbers.fixed(swap.loss)} {WORDS[order.unit]}) and {swap.higher} finds more pairs "
              f"(by {100 * swap.macro:.1f} points{'' if swap.clear else '; inside noise'})" for swap in swaps[:_MOST]]  # fmt: skip
    more = f"; and {len(swaps) - _MOST} more" if len(swaps) > _MOST else ""
    return "Arms that change places between loss and pairs: " + "; ".join(listed) + more + "."


def accuracies(pairs: Sequence[ArmPairs]) -> dict[str, dict[str, float | None]]:
    """By field, and the macro mean over all paradigms: the accuracy of each arm, in the convention bos."""
    fields = pairs[0].scores["bos"].fields
    found = {field: {one.arm: one.scores["bos"].fields[field].accuracy for one in pairs} for field in fields}
    return found | {ALL: {one.arm: one.macro for one in pairs}}


# --- figures


def by_field(name: str, rows: Mapping[str, Mapping[str, float | None]], looks: Mapping[str, Look], reference: str) -> str:
    """A row a field, a dot an arm, the reference in ink; rows: {field: {arm: accuracy from 0 to 1, or None}}. "" without an accuracy."""
    values = [100 * value for row in rows.values() for value in row.values() if value is not None]
    if not values:
        return ""
    arms = list(next(iter(rows.values())))
    named = [arm for arm in arms if looks[arm].colour is not None]
    top, bottom = 20.0, 56.0 + 18.0 * -(-len(named) // 4)
    floor = top + _ROW * len(rows)
    x = Scale(*padded([*values, CHANCE], 0.06, 1.0), _NAME, WIDTH - 10)
    canvas = Canvas(WIDTH, floor + bottom)
    for value in ticks(x.low, x.high, 6):
        canvas.line(x(value), top, x(value), floor, "grid")
        canvas.text(x(value), floor + 18, f"{value:g}%", "t num", "middle")
    canvas.line(x(CHANCE), top - 4, x(CHANCE), floor, "mark")
    canvas.text(x(CHANCE), 12, "chance", "t small", "middle")
    canvas.text((_NAME + WIDTH - 10) / 2, floor + 38, "pairs whose good sentence is likelier", "t axis-name", "middle")
    step = min(6.0, (_ROW - 14) / max(1, len(arms) - 1))
    for place, (field, row) in enumerate(rows.items()):
        middle = top + _ROW * (place + 0.5)
        if place:
            canvas.line(0, middle - _ROW / 2, WIDTH - 10, middle - _ROW / 2, "grid")
        canvas.text(0, middle + 4, short(field.replace("_", " "), 18), "t tag" if field == ALL else "t")
        for number, arm in sorted(enumerate(arms), key=lambda one: one[1] == reference):
            if row[arm] is not None:
                y = middle + (number - (len(arms) - 1) / 2) * step
                said = f"{arm}, {field}: {numbers.percent(row[arm], 1)}"
                canvas.marker(looks[arm].marker, x(100 * row[arm]), y, 4.2, looks[arm].dot, said)
    for place, arm in enumerate(named):
        px, py = 6 + 140 * (place % 4), floor + 58 + 18 * (place // 4)
        canvas.marker(looks[arm].marker, px, py - 4, 4.2, looks[arm].dot)
        canvas.text(px + 10, py, short(arm, 17), f"t tag f{looks[arm].colour}")
    said = "; ".join(f"{arm} {numbers.percent(value, 1)}" for arm, value in rows[ALL].items()) if ALL in rows else ""
    return canvas.render(name, "Accuracy of every arm by field of minimal pairs", said)


def rank_lines(name: str, order: Disagreement, accuracy: Mapping[str, float], looks: Mapping[str, Look]) -> str:
    """A line an arm from its place by loss to its place by accuracy; "" for fewer than two arms."""
    if len(order.losses) < 2:
        return ""
    left, right, top = 170.0, WIDTH - 170.0, 40.0
    canvas = Canvas(WIDTH, top + _LINE * len(order.losses) + 4)
    canvas.text(left - 12, 16, f"lowest loss, {WORDS[order.unit]}", "t axis-name", "end")
    canvas.text(right + 12, 16, "most pairs found", "t axis-name")
    ends = [{arm: top + _LINE * (place + 0.3) for place, arm in enumerate(side)} for side in (order.ranks.first, order.ranks.second)]
    for arm in sorted(order.losses, key=lambda arm: looks[arm].colour is not None):
        look, (y1, y2) = looks[arm], (side[arm] for side in ends)
        said = f"{arm}: loss {numbers.fixed(order.losses[arm])}, pairs {numbers.percent(accuracy[arm], 1)}"
        canvas.path([(left, y1), (right, y2)], look.line, said)
        kind = "t muted" if look.colour is None else f"t tag f{look.colour}"
        for x, y in ((left, y1), (right, y2)):
            canvas.marker(look.marker, x, y, 4.2, look.dot, said)
        canvas.text(left - 12, y1 + 4, f"{short(arm)}  {numbers.fixed(order.losses[arm])}", kind, "end")
        canvas.text(right + 12, y2 + 4, f"{numbers.percent(accuracy[arm], 1)}  {short(arm)}", kind)
    said = f"By loss: {', '.join(order.ranks.first)}. By pairs: {', '.join(order.ranks.second)}."
    return canvas.render(name, "The order of the arms by loss and by minimal pairs", said)


# --- tables


def pair_table(pairs: Sequence[ArmPairs]) -> Table:
    """A row an arm: both conventions, its fields, and what it finds that the arm it is compared with does not."""
    fields, first = list(pairs[0].scores["bos"].fields), pairs[0].scores["bos"]
    columns = (
        Column("arm", number=False),
        Column("all paradigms", "mean over paradigms of the pairs whose good sentence is likelier; one BOS in front, every token scored"),
        Column("first token skipped", "the same, without the log-probability of the first token", spare=1),
        *(Column(field.replace("_", " "), "over the pairs of the field", spare=3) for field in fields),
        Column("against", number=False), Column("difference", "of the means over paradigms, in points: positive is better"),
        Column("95% over paradigms", "Student's t interval of the difference; the paradigm is the unit"),
        Column("paradigms won / lost / tied"),
        Column("pairs gained / lost", "found by this arm alone, and by the other alone, over all seeds", spare=2),
        Column("McNemar p", "two-sided, exact, of the pairs gained and lost; the largest over seeds", spare=2),
        Column("half in", "how many paradigms carry half of the difference", spare=3),
        Column("in words", number=False),
    )  # fmt: skip
    rows = []
    for one in pairs:
        bos, whose = one.scores.get("bos"), "trained elsewhere" if one.elsewhere else numbers.several(len(one.by_seed), "seed")
        cells = [Cell(one.arm, one.arm, whose), _accuracy(one.macro), _accuracy(one.scores["skip_first"].macro)]
        cells += [_accuracy(bos and bos.fields[field].accuracy) for field in fields]
        kind = "floor" if one.elsewhere else "" if one.against else "reference"
        rows.append(Row((*cells, *_against(one.against, one.compared)), kind))
    count, same = (value // len(pairs[0].by_seed) for value in (first.total.pairs, first.total.identical))
    notes = (
        f"{numbers.exact(count)} pairs of {numbers.several(len(first.paradigms), 'paradigm')} from {Path(pairs[0].source).name}; "
        f"{numbers.several(same, 'pair')} of one and the same text left out; a tie is half.",
        "Log-probabilities are summed over a sentence's tokens and not divided by its length.",
    )
    return Table("pair-scores", "Minimal pairs: the share whose good sentence is likelier", columns, tuple(rows), notes)


def _against(against: str | None, compared: PairedPairs | None) -> tuple[Cell, ...]:
    if against is None or compared is None or compared.macro is None:
        words = "the reference" if against is None else "not measured as far as the other arm"
        return (Cell(against or numbers.NONE, against), *(Cell(numbers.NONE),) * 6, Cell(words, None, "", "muted"))
    interval, items = compared.interval, compared.items.values()
    gained, lost = sum(test.gained for test in items), sum(test.lost for test in items)
    each = "; ".join(f"seed {seed}: {test.gained:,} gained, {test.lost:,} lost, p {test.p:.3g}" for seed, test in compared.items.items())
    seeds = ", ".join(f"seed {seed}: {value!r}" for seed, value in compared.by_seed.items())
    half = numbers.NONE if compared.half is None else f"{compared.half} of {len(compared.differences)}"
    return (
        Cell(against, against), Cell(_points(compared.macro), compared.macro, seeds, "strong"),
        Cell("not estimable" if interval is None else numbers.interval(100 * interval.low, 100 * interval.high, 1), compared.macro),
        Cell(f"{compared.won} / {compared.lost} / {compared.tied}", compared.won - compared.lost),
        Cell(f"{gained:,} / {lost:,}", gained - lost, each), Cell(_p(compared.p), compared.p, each),
        Cell(half, compared.half), Cell(compared.words, None, "", tone(compared.words)),
    )  # fmt: skip


def term_table(pairs: Sequence[ArmPairs]) -> Table:
    """A row a term, a column an arm."""
    columns = (Column("term", number=False), Column("pairs"), *(Column(one.arm) for one in pairs))
    rows = [
        Row((Cell(term.replace("_", " "), term), Cell(numbers.exact(score.pairs // len(pairs[0].by_seed)), score.pairs),
             *(_accuracy(one.scores["bos"].terms[term].accuracy if "bos" in one.scores else None) for one in pairs)))
        for term, score in pairs[0].scores["bos"].terms.items()
    ]  # fmt: skip
    return Table("pair-terms", "Minimal pairs by term", columns, tuple(rows))


def _accuracy(value: float | None) -> Cell:
    return Cell(numbers.percent(value, 1), value, "" if value is None else repr(value))


def _points(value: float) -> str:
    return numbers.signed(100 * value, 1)


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"
