"""Noise, on the page: what seeds, documents and machines leave open of every gain, and what more seeds would settle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ostinato.analysis import ArmResult
from ostinato.analysis.words import NATS
from ostinato.judge.noise import ImplementationNoise
from ostinato.judge.power import detectable
from ostinato.judge.rank_stability import Ranking
from ostinato.judge.study_noise import ArmNoise, StudyNoise, study_noise
from ostinato.report import numbers
from ostinato.report.gain_figures import Gain, forest
from ostinato.report.looks import Look
from ostinato.report.panels import arm_looks
from ostinato.report.results import verdict
from ostinato.report.section import Figure, Section
from ostinato.report.tables import Cell, Column, Row, Table
from ostinato.store import Store
from ostinato.study.records import Study


def section(study: Study, store: Store, results: Sequence[ArmResult]) -> Section | None:
    """None where no two arms are compared yet. Raises StoreError when a stored file is torn."""
    found = study_noise(study, store, results)
    if not found.arms:
        return None
    tables = (noise_table(found.arms), *([ranking_table(found.ranking)] if found.ranking else []))
    notes = _notes(found)
    if found.ranking and any(verdict(result.words) == "zero" for result in results):
        notes.append("Two arms can be told apart here and be about equal above: there an arm has the noise of its own seeds, here that of "
                     "all arms' seeds together, which is known better.")  # fmt: skip
    return Section("noise", "How much of this is noise?", _lead(found), _figures(study, found, arm_looks(study, results)), tables,
                   tuple(notes))  # fmt: skip


def noise_table(arms: Sequence[ArmNoise]) -> Table:
    """A row an arm that is compared."""
    columns = (
        Column("arm", number=False), Column("gain", "over the arm that it is compared with"),
        Column("95% over documents", "of losses averaged over seeds, Student's t with documents as the unit"),
        Column("95% BCa", "by a bootstrap of documents, 40 or more: beside the interval before, for skewed gains"),
        Column("95% over seeds", "Student's t, paired by seed"),
        Column("sign flips of seeds", "exact p, and the smallest that so many seeds can give"),
        Column("sign flips of documents", "p, drawn where there are many"),
        Column("windows won", "exact sign test, ties left out"),
        Column("detectable", "the smallest true gain that these seeds find in 80% of studies"),
        Column("seeds needed", "that would settle a gain as large as this in 80% of studies"),
    )  # fmt: skip
    return Table("noise-table", "Every gain and its noise", columns, tuple(Row(tuple(_cells(arm))) for arm in arms))


def _cells(arm: ArmNoise) -> list[Cell]:
    def cell(name: str, text: str | None, value: float | None = None) -> Cell:
        return Cell(numbers.NONE, None, arm.reasons.get(name, ""), "muted") if text is None else Cell(text, value)

    def ends(name: str) -> Cell:
        interval = getattr(arm, name)
        return cell(name, interval and numbers.interval(interval.low, interval.high), interval and interval.low)

    def p(name: str) -> Cell:
        flip = getattr(arm, name)
        return cell(name, flip and f"{flip.p:.2g}" + (f" (least {flip.smallest:.2g})" if flip.smallest > 0.001 else ""), flip and flip.p)

    unit = "" if arm.unit == NATS else f" {arm.unit}"
    return [
        Cell(arm.arm, arm.arm, f"against {arm.against}"), Cell(numbers.signed(arm.gain) + unit, arm.gain), ends("interval_documents"),
        ends("bca"), ends("interval_seeds") if arm.interval_seeds else Cell(numbers.NONE, None, "one seed", "muted"), p("flip_seeds"),
        p("flip_documents"),
        cell("windows", arm.windows and f"{arm.windows.won} : {arm.windows.lost}, p {arm.windows.p:.2g}", arm.windows and arm.windows.p),
        cell("detectable", None if arm.detectable is None else numbers.fixed(arm.detectable), arm.detectable),
        cell("seeds_needed", None if arm.seeds_needed is None else str(arm.seeds_needed), arm.seeds_needed),
    ]  # fmt: skip


def ranking_table(ranking: Ranking) -> Table:
    """A row a pair of neighbours, the best first."""
    columns = (
        Column("better", number=False), Column("next", number=False), Column("difference", "of nats a token"),
        Column("p over seeds", "Student's t with the noise pooled over arms"), Column("p over documents"),
        Column("adjusted p", "the larger of both, after Holm over all neighbours"), Column("told apart", number=False),
    )  # fmt: skip
    rows = [
        Row((Cell(pair.better, pair.better), Cell(pair.worse, pair.worse), Cell(numbers.fixed(pair.difference), pair.difference),
             *(Cell(numbers.NONE if p is None else f"{p:.2g}", p, pair.reason) for p in (pair.p_seeds, pair.p_documents, pair.p)),
             Cell("distinguishable" if pair.distinguishable else "not distinguishable", tone="" if pair.distinguishable else "muted")))
        for pair in ranking.neighbours
    ]  # fmt: skip
    return Table("ranking-table", "Neighbours in the ranking of arms", columns, tuple(rows))


def _figures(study: Study, found: StudyNoise, looks: Mapping[str, Look]) -> tuple[Figure, ...]:
    """Gains in nats a token; where none is, in the unit of those that there are."""
    drawn = [arm for arm in found.arms if arm.unit == NATS] or list(found.arms)
    bands = [arm.detectable for arm in drawn if arm.detectable is not None]
    band = max(bands, default=None)
    bases = {arm.against for arm in drawn}
    gains = [Gain(arm.arm, looks[arm.arm], arm.gain, *((arm.interval_documents.low, arm.interval_documents.high)
                  if arm.interval_documents else (None, None)), tuple(arm.seeds.values()), against=arm.against if len(bases) > 1 else "",
                  over_seeds=arm.interval_seeds and (arm.interval_seeds.low, arm.interval_seeds.high)) for arm in drawn]  # fmt: skip
    note = "The bar through the mark is the 95% interval over documents, the bar below it that over seeds; open dots are seeds."
    note += " A true gain inside the shaded band is missed by these seeds in more than one study of five." if band else ""
    svg = forest("f-noise", "Gains with their intervals over documents and over seeds", note, gains,
                 reference=bases.pop() if len(bases) == 1 else "the arm named", unit=drawn[0].unit, noise=band,
                 band=f"detectable with these seeds: {numbers.fixed(band)}" if band else "")  # fmt: skip
    return (Figure("Every gain, its noise, and what these seeds can find", note, svg),)


def _lead(found: StudyNoise) -> str:
    seeds = max(len(arm.seeds) for arm in found.arms)
    if found.seeds is None:
        return f"The noise of seeds is not known: {found.reasons['seeds']}."
    said = (f"Another seed changes a gain by {numbers.fixed(found.seeds.gain)} nats a token (one standard deviation, pooled over arms, "
            f"{numbers.several(found.seeds.freedom, 'degree')} of freedom)")  # fmt: skip
    if seeds < 2:
        return said + ". With one seed no gain can be told from it."
    smallest = detectable(found.seeds.gain / seeds**0.5, seeds - 1)
    return f"{said}. With {seeds} seeds a true gain of {numbers.fixed(smallest)} is found in four studies of five."


def _notes(found: StudyNoise) -> list[str]:
    notes = [_implementation(found.implementation) if found.implementation else f"Implementation: {found.reasons['implementation']}."]
    ranking = found.ranking
    if ranking is None:
        return [*notes, f"Ranking: {found.reasons['ranking']}."]
    again = [f"{numbers.percent(share)} {where}" for share, where in
             ((ranking.same_by_seeds, "of studies with other seeds"), (ranking.same_by_documents, "of samples of documents"))
             if share is not None]  # fmt: skip
    if again:
        notes.append(f"The whole order of {len(ranking.order)} arms would come out again in {numbers.listed(again)}.")
    return notes + [f"{words}." for words in ranking.words if "not distinguishable" in words][:8]


def _implementation(noise: ImplementationNoise) -> str:
    runs = numbers.several(len(noise.repeats), "run")
    if not noise.largest:
        return f"Implementation: {runs} made again agree to the same bits."
    where = f" They differ in {numbers.listed(noise.sources)}." if noise.sources else ""
    freedom = numbers.several(noise.freedom, "degree")
    return (f"Implementation: {runs} made again; the same seed computed otherwise changes a loss by {noise.sd:.2g} nats a token (one "
            f"standard deviation, {freedom} of freedom), by {noise.largest:.2g} at most.{where}")  # fmt: skip
