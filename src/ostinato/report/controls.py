"""Arms against their controls: pairs that cost the same training FLOPs or own as many parameters, and are not compared already.

A study's reference is one arm, but its question is often about two others (a stack run twice against untied depth of equal FLOPs).
Within each group of equal cost every arm is compared with one control: the reference, else the first arm that repeats no layer, else the
first arm. Pairs that are in the table of results already, with the reference or as the study names them (`against`), are not shown again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ostinato.analysis import ArmResult, OverSeeds, Paired, paired_over_seeds
from ostinato.ledger.compare import ABOUT
from ostinato.ledger.ledger import Ledger
from ostinato.ledger.settings import kin
from ostinato.report import numbers
from ostinato.report.results import gain_cells, tone
from ostinato.report.tables import Cell, Column, Row, Table
from ostinato.store import RunFolder, Store

AXES: dict[str, Callable[[Ledger], float]] = {
    "training FLOPs": lambda ledger: ledger.flops_total,
    "parameters": lambda ledger: ledger.params_total,
}


@dataclass(frozen=True)
class Control:
    """An arm against its control. axes: what both have in equal (within 1%) measure. tokens: trained on by both, the end of training."""

    arm: str
    control: str
    axes: tuple[str, ...]
    tokens: int
    pairing: Paired
    seeds: OverSeeds


def controls(results: Sequence[ArmResult], folders: Mapping[tuple[str, int], RunFolder], store: Store) -> list[Control]:
    """Every matched pair that is measured at the end of training with a seed in common. Raises StoreError when a stored file is torn."""
    axes: dict[tuple[str, str], list[str]] = {}
    for axis, cost in AXES.items():
        for group in _groups(results, cost):
            plain = next((one for one in group if not any(row.pass_ > 1 for row in one.ledger.applications)), group[0])
            control = next((one for one in group if one.reference), plain)
            for one in group:
                if one is not control and one.against != control.name and control.against != one.name:
                    axes.setdefault((one.name, control.name), []).append(axis)
    by_name = {result.name: result for result in results}
    found = [_compared(by_name[arm], by_name[control], tuple(shared), folders, store) for (arm, control), shared in axes.items()]
    return [one for one in found if one]


def _groups(results: Sequence[ArmResult], cost: Callable[[Ledger], float]) -> list[list[ArmResult]]:
    """Arms of about equal cost with the same tokenizer, positions and share of the training text, two or more; the reference first."""

    def alike(one: ArmResult, other: ArmResult) -> bool:
        return kin(one.arm) == kin(other.arm) and abs(cost(one.ledger) / cost(other.ledger) - 1) < ABOUT

    groups: list[list[ArmResult]] = []
    for result in sorted(results, key=lambda result: not result.reference):
        if not result.reference and not any(run.final for run in result.runs):
            continue
        near = next((group for group in groups if alike(result, group[0])), None)
        if near is None:
            groups.append([result])
        else:
            near.append(result)
    return [group for group in groups if len(group) > 1]


def _compared(
    arm: ArmResult, control: ArmResult, axes: tuple[str, ...], folders: Mapping[tuple[str, int], RunFolder], store: Store
) -> Control | None:
    ends = [{run.seed: run for run in one.runs if run.final} for one in (control, arm)]
    seeds = [seed for seed in arm.arm.seeds if seed in ends[0] and seed in ends[1]]
    both = list(zip((control, arm), ends, strict=True))
    tables = {seed: tuple(folders[side.name, seed].read_losses(arm.part, end[seed].tokens or 0) for side, end in both) for seed in seeds}
    ids = {table.target_id for pair in tables.values() for table in pair}
    if len(ids) != 1:
        return None
    pairing, over = paired_over_seeds(tables, store.targets(ids.pop()))
    return Control(arm.name, control.name, axes, ends[1][seeds[0]].tokens or 0, pairing, over)


def control_table(found: Sequence[Control]) -> Table:
    """One row a pair."""
    columns = (
        Column("arm", number=False), Column("against", number=False), Column("equal in", number=False),
        Column("gain", "the other arm's nats a token minus this arm's, mean over seeds: positive is better"),
        Column("95% over documents"), Column("by seed"), Column("windows won"), Column("documents won"),
        Column("in words", number=False),
    )  # fmt: skip
    rows = []
    for one in found:
        pairing = one.pairing
        rows.append(Row((
            Cell(one.arm, one.arm), Cell(one.control, one.control), Cell(numbers.listed(list(one.axes))),
            *gain_cells(pairing, one.seeds),
            Cell(f"{pairing.windows_won:,}/{pairing.windows:,}", pairing.windows_won / max(pairing.windows, 1)),
            Cell(f"{pairing.documents_won:,}/{pairing.documents:,}", pairing.documents_won / max(pairing.documents, 1)),
            Cell(one.seeds.words, None, one.seeds.caution, tone(one.seeds.words)),
        )))  # fmt: skip
    return Table("controls", "Arms of equal cost against each other", columns, tuple(rows))
