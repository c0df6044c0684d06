"""The table of results: a row an arm with its gain, intervals and wins, then the floors. The same cells in terminal, notebook and page."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ostinato.analysis import ArmResult, OverSeeds, Paired, results_table
from ostinato.report import numbers
from ostinato.report.page import notebook
from ostinato.report.tables import Cell, Column, Row, Table, Tone, as_text, to_rich
from ostinato.report.units import SHORT, WORDS, mixed, only_base
from ostinato.store import Store
from ostinato.study.asked import depends_on
from ostinato.study.records import Study

if TYPE_CHECKING:
    from rich.console import RenderableType

NOT_BEGUN = ("missing", "not asked")
STATE_WORDS = {"missing": "not begun", "new": "not begun", "not asked": "not run (contingent)"}


def verdict(words: str) -> str:
    """better, worse, zero or none: what the words of a comparison say."""
    kinds = {"better": "better", "worse": "worse", "about": "zero"}
    return kinds.get(words.split(" ", 1)[0], "none")


def tone(words: str) -> Tone:
    """The colour that goes with the words; the words say it too."""
    return {"better": "better", "worse": "worse"}.get(verdict(words), "muted")  # type: ignore[return-value]


def floors_of(results: Sequence[ArmResult]) -> list[tuple[str, float, list[ArmResult]]]:
    """Every different floor as (name, nats per token, the arms it belongs to); with several sets the name says the first of these arms."""
    sets: dict[tuple[tuple[str, float], ...], list[ArmResult]] = {}
    for result in results:
        if result.floors:
            sets.setdefault(tuple(result.floors.items()), []).append(result)
    found = []
    for floors, arms in sets.items():
        whose = " model" if len(sets) == 1 else f", {arms[0].name}"
        found += [(f"{name}{whose}", nats, arms) for name, nats in floors]
    return found


def results_rows(results: Sequence[ArmResult], reference: str, part: str = "validation") -> Table:
    """Every arm, measured or not, in the order of the study, and under them the floors.  part: of the text, as measured."""
    text, base, units = part.replace("_", "-"), only_base(results), mixed(results)
    whose, other = (f"{reference}'s", "reference") if base else ("the other arm's", "other arm")
    windows = "; ".join(dict.fromkeys(result.windows for result in results if result.windows)) or "nothing is measured yet"
    columns = (
        Column("arm", number=False),
        Column("seeds", "runs that are finished, of those asked for"),
        Column("nats a token", f"{text} loss: sum of nats over all targets and seeds, divided by their number"),
        Column("bits a byte", "the same sum in bits, divided by the bytes of the targets", spare=2),
        Column(
            "perplexity",
            f"exp of nats a token; comparable only under the same tokenizer and windows ({windows})",
            terminal=False,
            page=not units,
        ),
        Column(
            "gain",
            f"{whose} nats a token minus the arm's, on the same targets, mean over seeds: positive is better"
            + ("; with another tokenizer bits a byte, on the same documents" if units else ""),
        ),
        Column("95% over documents", "interval of the gain; the document is the unit", spare=0 if base else 1),
        Column("by seed", f"the gain of each seed, paired with the same seed of the {other}", terminal=False),
        Column("windows won", "rows, or blocks of targets of documents, on which the arm's loss is lower, of all", spare=3),
        Column("documents won", "documents on which the arm's loss is lower, of all", spare=1),
        Column("FLOPs", f"training FLOPs as a multiple of {whose}"),
        Column("below floors", "lower loss than every simple model of the training text on the same targets", number=False, terminal=False),
        *(() if base else (Column("against", "the arm that it is compared with", number=False),)),
        Column("against " + base if base else "in words", number=False),
    )
    rows = [Row(_cells(result, base, units), _kind(result)) for result in results]
    rows += [Row(_floor_cells(name, nats, arms, len(columns)), "floor") for name, nats, arms in floors_of(results)]
    over = base or "the arm that each is compared with"
    return Table("results", f"{text.capitalize()} loss and gain over {over}", columns, tuple(rows), tuple(_notes(results)))


def _kind(result: ArmResult) -> Any:
    return "reference" if result.reference else "missing" if result.tokens is None else ""


def _cells(result: ArmResult, base: str | None, units: bool) -> tuple[Cell, ...]:
    done, asked = len(result.seeds_in("done")), len(result.arm.seeds)
    sums, pairing, seeds = result.sums, result.pairing, result.seeds
    at = "" if result.tokens is None else f" after {numbers.exact(result.tokens)} tokens"
    early = result.tokens is not None and not result.final
    ratio = result.cost_ratios.get("flops_total", 1.0)

    def won(number: int | None, of: int | None) -> Cell:
        return Cell(numbers.NONE) if number is None or not of else Cell(f"{number:,}/{of:,}", number / of, numbers.percent(number / of, 1))

    return (
        Cell(result.name, result.name, result.arm.note),
        Cell(f"{done}/{asked}", done / asked, _states(result), "" if done == asked else "warn"),
        _measured(sums.nats_per_token, "nats a token" + at, early),
        _measured(sums.bits_per_byte, "bits a byte" + at, early),
        _measured(sums.perplexity, "perplexity" + at, early, 2),
        *gain_cells(pairing, seeds, units),
        won(pairing and pairing.windows_won, pairing and pairing.windows),
        won(pairing and pairing.documents_won, pairing and pairing.documents),
        Cell(numbers.times(ratio), ratio),
        _below(result.below_floors),
        *(() if base else (Cell(result.against or numbers.NONE, result.against),)),
        Cell(_words(result), None, seeds.caution if seeds else "", "muted" if result.reference else tone(result.words)),
    )


def gain_cells(pairing: Paired | None, seeds: OverSeeds | None, units: bool = False) -> tuple[Cell, Cell, Cell]:
    """The gain, its interval over documents, and the gain of each seed. units: each cell says its unit."""
    if pairing is None or seeds is None or seeds.mean is None:
        return (Cell(numbers.NONE),) * 3
    interval, unit = pairing.interval, f" {SHORT[pairing.unit]}" if units else ""
    each = ", ".join(f"seed {seed}: {gain!r}" for seed, gain in seeds.gains.items())
    return (
        Cell(numbers.signed(seeds.mean) + unit, seeds.mean, f"{seeds.mean!r} {WORDS[pairing.unit]}", "strong"),
        Cell("not estimable", seeds.mean, "fewer than two documents")
        if interval is None
        else Cell(numbers.interval(interval.low, interval.high) + unit, seeds.mean, f"{interval.low!r} to {interval.high!r}"),
        Cell(
            ", ".join(numbers.signed(gain) for gain in seeds.gains.values()) + unit,
            seeds.sd,
            each + ("" if seeds.sd is None else f"; standard deviation {seeds.sd!r}"),
        ),
    )


def _below(is_below: bool | None) -> Cell:
    if is_below is None:
        return Cell(numbers.NONE)
    return Cell("yes", "yes") if is_below else Cell("no", "no", "the loss is not below every floor", "warn")


def _measured(value: float | None, what: str, early: bool, digits: int = 4) -> Cell:
    if value is None:
        return Cell(numbers.NONE)
    return Cell(numbers.fixed(value, digits) + ("*" if early else ""), value, f"{value!r} {what}")


def _words(result: ArmResult) -> str:
    """What is known of the arm in words; a run that failed or was never begun is named."""
    if result.tokens is None:
        failed = result.seeds_in("failed")
        if failed:
            return "failed, nothing measured"
        if all(run.state in NOT_BEGUN for run in result.runs):
            return STATE_WORDS["not asked"] if depends_on(result.arm) else STATE_WORDS["missing"]
        return "nothing measured yet"
    if result.gain_tokens is None or result.gain_final:
        return result.words
    return f"{result.words}, at {numbers.human(result.gain_tokens)} tokens"


def _states(result: ArmResult) -> str:
    counted: dict[str, list[str]] = {}
    for run in result.runs:
        counted.setdefault(run.state, []).append(str(run.seed))
    return "; ".join(f"seed {', '.join(seeds)}: {state}" for state, seeds in counted.items())


def _floor_cells(name: str, nats: float, arms: Sequence[ArmResult], columns: int) -> tuple[Cell, ...]:
    sums, whose = arms[0].sums, numbers.listed([arm.name for arm in arms], len(arms))
    bits = nats * sums.targets / (math.log(2) * sums.bytes) if sums.bytes else None
    cells = (
        Cell(name, None, f"trained on the same text, measured on the same targets as {whose}"),
        Cell(""),
        _measured(nats, "nats a token", False),
        _measured(bits, "bits a byte", False),
        _measured(math.exp(nats), "perplexity", False, 2),
    )
    return (*cells, *[Cell("")] * (columns - len(cells) - 1), Cell("a floor"))


def _notes(results: Sequence[ArmResult]) -> Iterator[str]:
    early = [result for result in results if result.tokens is not None and not result.final]
    if early:
        yield (
            "* before the end of training: "
            + "; ".join(
                f"{result.name} at {numbers.exact(result.tokens)} of {numbers.exact(result.ledger.tokens)} tokens" for result in early
            )
            + "."
        )
    if len({result.arm.data.tokenizer for result in results}) > 1:
        yield (
            "Arms have different tokenizers: nats a token, perplexity and the floors are of each arm's own tokens and compare only arms "
            "with the same tokenizer; bits a byte compare all. A gain between tokenizers is of the documents that both scored, in bits a "
            "byte."
        )
    for result in results:
        if result.problem and result.tokens is not None and not result.reference:
            yield f"{result.name}: {result.problem}."


@dataclass(frozen=True, repr=False)
class Results:
    """The results of a study as the store has them now. Printed by rich, shown in a notebook; `rows()` gives every number exactly."""

    study: Study
    store: Store
    part: str = "validation"

    @functools.cached_property
    def arms(self) -> list[ArmResult]:
        """One record an arm; read from the store once."""
        return results_table(self.study, self.store, self.part)

    def rows(self) -> list[dict[str, Any]]:
        """One flat object an arm, plain values for JSON."""
        return [result.record() for result in self.arms]

    def table(self) -> Table:
        """What is printed and shown."""
        return results_rows(self.arms, self.study.reference, self.part)

    def __repr__(self) -> str:
        return as_text(self)

    def __rich_console__(self, console: Any, options: Any) -> Iterator[RenderableType]:
        from rich.text import Text

        from ostinato.report.sentences import answer

        table = self.table()
        yield to_rich(table, options.max_width)
        for note in table.notes:
            yield Text(note, style="dim")
        said = answer(self.study, self.arms)
        yield Text("")
        yield Text(said.lead, style="bold")
        for line in said.cautions:
            yield Text(line)

    def _repr_html_(self) -> str:
        return notebook(self.table())
