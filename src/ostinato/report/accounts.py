"""Accounts of the gains, on the page: shares of the largest control's gain, parts against the whole, rates, frontiers, interactions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ostinato.analysis import ArmResult
from ostinato.judge.accounts import FLOPS, Accounts, accounts
from ostinato.judge.fieller import Ratio
from ostinato.judge.interactions import Interaction
from ostinato.judge.shares import Share
from ostinato.judge.value import DOCUMENTS, SEEDS, Value
from ostinato.report import account_figures as drawn
from ostinato.report import numbers
from ostinato.report.panels import arm_looks
from ostinato.report.section import Figure, Section
from ostinato.report.tables import Cell, Column, Row, Table, Tone
from ostinato.report.units import WORDS
from ostinato.store import Store
from ostinato.study.records import Study

MOST_PARTS, MOST_TABLES, MOST_RATES = 6, 12, 26


def section(study: Study, store: Store, results: Sequence[ArmResult]) -> Section | None:
    """None before the reference and another arm are finished. Raises StoreError when a stored file is torn."""
    found = accounts(study, store, results)
    if found is None:
        return None
    looks, unit = arm_looks(study, results), WORDS[found.unit]
    figures = []
    for place, one in enumerate(found.frontiers):
        svg = drawn.frontier_figure(f"f-frontier-{place}", one, looks, unit)
        figures.append(Figure(f"Loss against {one.axis}", _FRONTIER if place == 0 else "", svg))
    if found.parts:
        svg = drawn.parts_figure("f-parts", found.parts[:MOST_PARTS], looks, unit)
        figures.append(Figure("Parts against the whole", "Each part begins where the one before ended.", svg))
    rates = [one for one in found.rates if one.per_million is not None]
    if rates:
        figures.append(Figure("Gain a million parameters", _RATES, drawn.rates_figure("f-rates", rates[:MOST_RATES], unit)))
    tables = [table for table in (shares_table(found), parts_table(found), interactions_table(found)) if table.rows]
    more = [table for table in (rates_table(found), frontier_table(found)) if table.rows]
    return Section("accounts", "Accounts of the gains", _lead(found), tuple(figures), tuple(tables), tuple(_notes(found)), tuple(more))


_FRONTIER = ("Lower is better. Hollow: an arm of at most its cost (within 1%) is better by more than their noise. Line: the lowest loss "
             "at each cost. Point at a mark whose name has no room.")  # fmt: skip
_RATES = ("Filled: added to the reference. Hollow: deleted from a larger arm at equal FLOPs, where the gain is what it costs. Cross: from "
          "a size to the next. Bars: 95% over documents.")  # fmt: skip


def shares_table(found: Accounts) -> Table:
    """One row an arm; none where the whole is not told from 0, which a note says."""
    columns = (
        Column("arm", number=False), Column("gain", f"over {found.reference}, {WORDS[found.unit]}"),
        Column("share", f"of the gain of {found.whole}"), *_sets(),
        Column("training FLOPs", f"times those of {found.whole}"),
    )  # fmt: skip
    rows = [Row((Cell(one.arm, one.arm), _gain(one.share.top), *_share_cells(one.share), Cell(numbers.times(one.flops), one.flops)))
            for one in found.shares if one.share.point is not None]  # fmt: skip
    return Table("account-shares", f"Shares of the gain of {found.whole} over {found.reference}", columns, tuple(rows))


def parts_table(found: Accounts) -> Table:
    """One row a division."""
    columns = (
        Column("whole", number=False), Column("over", number=False), Column("parts", number=False), Column("gain of the whole"),
        Column("sum of the parts"), Column("share of the whole"), *_sets(), Column("in no part alone", "the whole less the sum"),
        Column("95% over documents"), Column("in words", number=False),
    )  # fmt: skip
    rows = []
    for one in found.parts:
        division = one.division
        each = [f"{arm} {numbers.signed(gain.point)}" for arm, gain in zip(division.parts, one.gains, strict=True)]
        rows.append(Row((
            Cell(division.whole, division.whole), Cell(division.base, division.base), Cell(numbers.listed(each), None), _gain(one.whole),
            _gain(one.total), *_share_cells(one.share), _gain(one.left), _interval(one.left), _sum_cell(one.left, "the whole is"),
        )))  # fmt: skip
    return Table("account-parts", f"Sums of parts against the whole, {WORDS[found.unit]}", columns, tuple(rows))


def interactions_table(found: Accounts) -> Table:
    """One row a quadruple; the largest first, where they are many."""
    columns = (
        Column("together", number=False), Column("first change", number=False), Column("second change", number=False),
        Column("gain of the first"), Column("gain of the second"), Column("gain of both"),
        Column("interaction", "gain of both, less that of each alone"), Column("95% over documents"), Column("by seed"),
        Column("second on top of first", "what the second gains there, as a share of what it gains alone"),
        Column("95% over documents"), Column("in words", number=False),
    )  # fmt: skip
    shown = found.interactions
    if len(shown) > MOST_TABLES:
        shown = tuple(sorted(shown, key=lambda one: -abs(one.value.point))[:MOST_TABLES])
    notes = (f"The {MOST_TABLES} largest of {len(found.interactions)}.",) if len(found.interactions) > MOST_TABLES else ()
    caption = f"Two changes together and apart, {WORDS[found.unit]}"
    return Table("account-interactions", caption, columns, tuple(map(_interaction_row, shown)), notes)


def _interaction_row(one: Interaction) -> Row:
    arms, value = one.arms, one.value
    first, second = (f"{arm}: {numbers.listed(keys, 3)}" for arm, keys in zip((arms.first, arms.second), arms.changed, strict=True))
    seeds = ", ".join(numbers.signed(at) for at in value.by_seed().values())
    share, documents = _share_cells(one.on_first)[:2]
    return Row((Cell(arms.both, arms.both, f"over {arms.base}"), Cell(first, arms.first), Cell(second, arms.second), *map(_gain, one.gains),
                _gain(value), _interval(value), Cell(seeds, None), share, documents, _sum_cell(value, "together they gain")))  # fmt: skip


def rates_table(found: Accounts) -> Table:
    """One row a step: a million parameters, and the FLOPs of the largest step."""
    largest = max((one.step.flops for one in found.rates), default=0.0) or 1.0
    columns = (
        Column("from → to", number=False), Column("parameters are", number=False), Column("gain", "of the larger arm over the smaller"),
        Column("parameters", "that are added or deleted"), Column("gain a million parameters"), Column("95% over documents"),
        Column("training FLOPs", "that are added"), Column(f"gain for {numbers.power(largest)} FLOPs"),
        Column("of the largest control's", f"gain an added FLOP, as a share of that of {found.whole}"),
    )  # fmt: skip
    per_flop = {one.step.arm: one.per_flop for one in found.rates if one.step.way == "added" and one.per_flop is not None}
    whole = per_flop.get(found.whole or "")
    rows = []
    for one in found.rates:
        value, flops = one.per_million, one.per_flop if one.step.way == "added" else None
        ratio = flops.point / whole.point if flops is not None and whole is not None and not whole.about_zero and whole.point > 0 else None
        step, way = one.step, drawn.WAYS[one.step.way] if one.step.params else "as many"
        rows.append(Row((
            Cell(f"{step.beside} → {step.arm}", step.arm), Cell(way), _gain(one.gain),
            Cell(numbers.human(step.params) if step.params else numbers.NONE, step.params), *_rate_cells(value),
            Cell(numbers.power(step.flops) if step.flops else numbers.NONE, step.flops),
            _gain(flops * largest if flops is not None else None), Cell(numbers.percent(ratio), ratio),
        )))  # fmt: skip
    if whole is None or whole.about_zero or whole.point <= 0:
        columns, rows = columns[:-1], [Row(row.cells[:-1]) for row in rows]
    return Table("account-rates", f"Gain for what is added or deleted, {WORDS[found.unit]}", columns, tuple(rows))


def _rate_cells(value: Value | None) -> tuple[Cell, Cell]:
    """A rate and its interval, with as many digits as the rate needs."""
    if value is None:
        return Cell(numbers.NONE), Cell(numbers.NONE)
    digits, span = drawn.rate_digits(value.point), value.interval(DOCUMENTS)
    said = Cell(numbers.interval(span.low, span.high, digits), span.low) if span else Cell(numbers.NONE)
    return Cell(drawn.rate_text(value.point), value.point, repr(value.point)), said


def frontier_table(found: Accounts) -> Table:
    """One row an arm: where it stands by each cost."""
    columns = (Column("arm", number=False), *(Column(f"by {one.axis}", number=False) for one in found.frontiers))
    by_axis = [{place.arm: place for place in one.places} for one in found.frontiers]
    arms = [place.arm for place in found.frontiers[0].places] if found.frontiers else []
    rows = [Row((Cell(arm, arm), *(_standing(places.get(arm)) for places in by_axis))) for arm in arms]
    return Table("account-frontiers", "Which arms another one beats at no more cost", columns, tuple(rows))


def _standing(place: drawn.Place | None) -> Cell:
    if place is None:
        return Cell(numbers.NONE)
    doubt = place.gain.doubt if place.gain is not None else ""
    return Cell(drawn.standing(place), None, f"not clear: {doubt}" if doubt else "", "muted" if place.by else "")


def _sets() -> tuple[Column, Column]:
    return Column("95% over documents", "of the share: Fieller's set"), Column("95% over seeds", "of the share: Fieller's set")


def _share_cells(one: Share) -> tuple[Cell, Cell, Cell]:
    """The share, and its sets over documents and over seeds."""
    if one.point is None:
        return Cell("not estimable", None, one.reason, "muted"), Cell(numbers.NONE), Cell(numbers.NONE)
    return Cell(numbers.percent(one.point), one.point, repr(one.point)), *(_set_cell(one.sets.get(kind)) for kind in (DOCUMENTS, SEEDS))


def _set_cell(ratio: Ratio | None) -> Cell:
    if ratio is None:
        return Cell(numbers.NONE)
    if not ratio.bounded:
        return Cell("not bounded", None, ratio.words, "muted")
    return Cell(f"{numbers.percent(ratio.low)} to {numbers.percent(ratio.high)}", ratio.low, ratio.words)


def _gain(value: Value | None) -> Cell:
    if value is None:
        return Cell(numbers.NONE)
    return Cell(numbers.signed(value.point), value.point, f"{value.point!r}; " + (f"not clear: {value.doubt}" if value.doubt else "clear"))


def _interval(value: Value | None) -> Cell:
    span = value.interval(DOCUMENTS) if value is not None else None
    return Cell(numbers.interval(span.low, span.high), span.low) if span else Cell(numbers.NONE)


def _sum_cell(left: Value, what: str) -> Cell:
    """More than the sum, less than it, or about it."""
    if left.about_zero:
        return Cell("about the sum", None, left.doubt)
    tone: Tone = "better" if left.point > 0 else "worse"
    said = "more" if left.point > 0 else "less"
    return Cell(f"{said} than the sum", None, f"{what} {said} than the sum" + (f"; not clear: {left.doubt}" if left.doubt else ""), tone)


def _lead(found: Accounts) -> str:
    """The shares or parts that are known, and who is dominated by training FLOPs."""
    said = []
    shares = [one for one in found.shares if one.share.point is not None]
    if shares:
        listed = [f"{one.arm} {numbers.percent(one.share.point)} for {numbers.times(one.flops)} its training FLOPs" for one in shares[:3]]
        said.append(f"Of the gain of {found.whole} over {found.reference}: {numbers.listed(listed)}.")
    for one in found.parts[:2]:
        share = f", {numbers.percent(one.share.point)} of it" if one.share.point is not None else ""
        whole = f"{one.division.whole} itself gains {numbers.signed(one.whole.point)}"
        said.append(f"{numbers.listed(one.division.parts)} sum to {numbers.signed(one.total.point)}{share}; {whole}.")
    for one in found.frontiers:
        if one.axis == FLOPS:
            beaten = len(one.dominated)
            what = f"{beaten} of {numbers.several(len(one.places), 'arm')} {'is' if beaten == 1 else 'are'}" if beaten else "No arm is"
            said.append(f"{what} beaten, by more than noise, by an arm of at most the same {FLOPS}.")
    return " ".join(said)


def _notes(found: Accounts) -> Iterator[str]:
    refused = next((one.share.reason for one in found.shares if one.share.point is None), None)
    if refused and found.whole:
        yield f"Shares of the gain of {found.whole} are not estimable: {refused}."
    elif found.whole is None:
        yield f"No shares: no arm is {found.reference} made larger, untied and trained on as many tokens."
    if found.parts or found.interactions:
        yield "More or less than the sum: by more than the noise of documents, and of seeds as in the table of results."
    if found.missing:
        yield f"Not finished, and in none of these: {numbers.listed(found.missing)}."
