"""Speed and memory as measured, beside what the ledger and a calibration foretold, and their multiples beside those of FLOPs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ostinato.analysis import ArmResult
from ostinato.analysis.speed import Rate, Speed, speeds
from ostinato.report import numbers
from ostinato.report.section import Section
from ostinato.report.tables import Cell, Column, Row, Table
from ostinato.report.units import only_base
from ostinato.store import Store
from ostinato.study.records import Study


def speed_table(results: Sequence[ArmResult], measured: Mapping[str, Speed]) -> Table:
    """One row an arm that was measured, with multiples of the arm that it is compared with."""
    base = only_base(results)
    of, known = base or "the arm that it is compared with", any(one.training or one.forward.predicted for one in measured.values())
    columns = (
        Column("arm", number=False),
        Column("FLOPs a token", f"of training by the ledger, and times those of {of}"),
        Column("training tokens a second", f"median over steps, mean over runs; in brackets the time of a token, times that of {of}"),
        Column("training foretold", "tokens a second by the calibration of the machine", page=known, terminal=known, spare=1),
        Column("forward tokens a second", "as losses are measured, head included; in brackets as for training"),
        Column("forward foretold", "tokens a second by the calibration of the machine", page=known, terminal=known, spare=2),
        Column("generated tokens a second", "one row, with a cache; in brackets as for training"),
        Column("peak memory of training", "the most that a step held, over runs"),
        Column("by the ledger", "its estimate of weights, gradients, optimizer and activations"),
        Column("peak memory forward", "the most that all tensors of a pass held, weights included", spare=4),
        Column("cache", "bytes that generation kept at its end; it must be what the ledger says", spare=3),
    )  # fmt: skip
    by_name = {result.name: result for result in results}
    rows = tuple(Row(_cells(result, measured, by_name), "reference" if result.reference else "")
                 for result in results if result.name in measured)  # fmt: skip
    return Table("speed", "Speed and memory as measured, beside what was foretold", columns, rows)


def _cells(result: ArmResult, measured: Mapping[str, Speed], by_name: Mapping[str, ArmResult]) -> tuple[Cell, ...]:
    speed, ledger = measured[result.name], result.ledger
    other = by_name.get(result.against or "")
    against = measured.get(result.against or "")

    def rate(tokens_per_s: float | None, base: float | None) -> Cell:
        if tokens_per_s is None:
            return Cell(numbers.NONE)
        ratio = f" ({numbers.times(base / tokens_per_s)})" if base else ""
        return Cell(numbers.human(tokens_per_s) + ratio, tokens_per_s, f"{tokens_per_s!r} tokens a second")

    def foretold(tokens_per_s: float | None) -> Cell:
        return Cell(numbers.human(tokens_per_s), tokens_per_s)

    flops, ratio = ledger.flops_per_token, result.cost_ratios.get("flops_per_token")
    return (
        Cell(result.name, result.name, result.arm.note),
        Cell(numbers.human(flops) + (f" ({numbers.times(ratio)})" if ratio is not None else ""), flops, f"{numbers.exact(flops)} FLOPs"),
        rate(result.tokens_per_s, other and other.tokens_per_s),
        foretold(speed.training),
        rate(speed.forward.tokens_per_s, against and against.forward.tokens_per_s),
        foretold(speed.forward.predicted),
        rate(speed.generation.tokens_per_s, against and against.generation.tokens_per_s),
        Cell(numbers.size(result.peak_bytes), result.peak_bytes, f"{numbers.exact(result.peak_bytes)} bytes"),
        Cell(numbers.size(ledger.memory_total), ledger.memory_total, f"{numbers.exact(ledger.memory_total)} bytes"),
        Cell(numbers.size(speed.forward.bytes), speed.forward.bytes, f"{numbers.exact(speed.forward.bytes)} bytes"),
        _cache(speed.generation),
    )


def _cache(rate: Rate) -> Cell:
    said = f"{numbers.exact(rate.bytes)} bytes at {rate.tokens:,} tokens; by the ledger {numbers.exact(rate.foretold)}"
    same = rate.foretold in (None, rate.bytes)
    return Cell(numbers.size(rate.bytes), rate.bytes, said) if same else Cell(f"{numbers.size(rate.bytes)} !", rate.bytes, said, "warn")


def section(study: Study, store: Store, results: Sequence[ArmResult]) -> Section | None:
    """Of every arm whose speed was measured; None without any. Raises StoreError when a stored file is torn."""
    measured = speeds(study, store)
    if not any(result.name in measured for result in results):
        return None
    table = speed_table(results, measured)
    caches = [speed.generation for speed in measured.values() if speed.generation.foretold is not None]
    equal = sum(rate.bytes == rate.foretold for rate in caches)
    says = f"The cache of generation is what the ledger foretells, to the byte, in {equal} of {len(caches)} arms." if caches else ""
    lead = f"What the ledger counts in FLOPs and bytes, in seconds and bytes on the machine that did it. {says}".strip()
    devices = numbers.listed(sorted({device for speed in measured.values() for device in speed.devices}))
    notes = [f"Measured on {devices}, beside whatever else the machine did then; training is as its runs logged it."]
    if not any(speed.training for speed in measured.values()):
        notes.append("Tokens a second are foretold on a machine that `ostinato calibrate` has measured.")
    return Section("speed", "Speed and memory", lead, (), (table,), tuple(notes))
