"""Arms that differ in one number and in nothing else: passes through the layers, share of the training text, size of the vocabulary.

A study with three of them or more has a table of what that number does: the gain at each value, and where the course crosses. Share and
vocabulary are those of both arms of a pair; passes are the arm's, against one and the same other arm.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ostinato.analysis import ArmResult
from ostinato.report import numbers
from ostinato.report.tables import Cell, Column, Row, Table
from ostinato.report.units import WORDS, factor
from ostinato.study.fingerprint import MEMORY_ONLY, canonical
from ostinato.study.records import Arm

FEWEST = 3


@dataclass(frozen=True)
class Setting:
    """A number that a study may sweep. value: of an arm, None where it has none; left_out: the keys that it is written in."""

    name: str
    value: Callable[[ArmResult], float | None]
    left_out: dict[str, set[str]]
    of_both: bool


def _passes(result: ArmResult) -> float | None:
    """How often every layer is applied, where that is one number."""
    uses = [sum(row.layer == layer for row in result.ledger.applications) for layer in range(1, len(result.arm.model.layers) + 1)]
    return uses[0] if len(set(uses)) == 1 and all(row.part == "both" for row in result.ledger.applications) else None


SETTINGS = (
    Setting("passes", _passes, {"model": {"schedule", "passes"}}, of_both=False),
    Setting("share of the training text", lambda result: result.arm.data.training_share, {"data": {"training_share"}}, of_both=True),
    Setting("vocabulary", lambda result: result.arm.data.tokenizer.bpe, {"data": {"tokenizer"}}, of_both=True),
)


def sweep_tables(results: Sequence[ArmResult], unit: str) -> list[Table]:
    """One table a sweep, gains in `unit`."""
    by_name = {result.name: result for result in results}
    tables = []
    for setting in SETTINGS:
        groups: dict[tuple[str, str], list[tuple[float, ArmResult]]] = {}
        for result in results:
            value, base = setting.value(result), by_name.get(result.against or "")
            if value is None or base is None or not result.seeds or factor(result, unit) is None:
                continue
            if setting.of_both and setting.value(base) != value:
                continue
            other = _rest(base.arm, setting) if setting.of_both else base.name
            groups.setdefault((_rest(result.arm, setting), other), []).append((value, result))
        for group in groups.values():
            if len({value for value, _ in group}) >= FEWEST:
                tables.append(_table(f"sweep-{len(tables)}", setting, sorted(group, key=lambda pair: pair[0]), unit))
    return tables


def _rest(arm: Arm, setting: Setting) -> str:
    """All of an arm but its name, what changes memory only, and the swept number."""
    left_out = setting.left_out | {"recipe": setting.left_out.get("recipe", set()) | MEMORY_ONLY}
    return canonical({part: getattr(arm, part).model_dump(mode="json", exclude=left_out.get(part)) for part in ("model", "recipe", "data")})


def _table(name: str, setting: Setting, group: Sequence[tuple[float, ArmResult]], unit: str) -> Table:
    columns = (
        Column(setting.name), Column("arm", number=False), Column("against", number=False), Column(f"gain, {WORDS[unit]}"),
        Column("95% over documents"), Column("crosses at", "tokens at which the mean gain changes its sign for good"),
        Column("first pass ends", "tokens at which the arm has seen all of its training text once"),
        Column("passes over the text", "in the whole of training"), Column("crosses", number=False),
    )  # fmt: skip
    return Table(name, f"What the {setting.name} {'do' if setting.name == 'passes' else 'does'}", columns,
                 tuple(_row(value, result, factor(result, unit) or 1.0) for value, result in group))  # fmt: skip


def _row(value: float, result: ArmResult, times: float) -> Row:
    interval, crossed, ledger = result.pairing.interval, result.crossing, result.ledger
    gain = result.seeds.mean * times
    at = crossed and crossed.tokens
    side = {"before": "before the first pass ends", "after": "after the first pass", "inside": "before or after cannot be told"}
    words = numbers.NONE if crossed is None else "no" if at is None else side.get(crossed.side or "", "yes")
    span = "not estimable" if interval is None else numbers.interval(interval.low * times, interval.high * times)
    return Row((
        Cell(f"{value:,g}" if value < 1 else numbers.exact(value), value), Cell(result.name, result.name), Cell(str(result.against)),
        Cell(numbers.signed(gain), gain, f"{gain!r}", "strong"), Cell(span), Cell(numbers.human(at), at),
        Cell(numbers.human(ledger.first_pass_ends), ledger.first_pass_ends), Cell(numbers.fixed(ledger.epochs, 2), ledger.epochs),
        Cell(words),
    ))  # fmt: skip
