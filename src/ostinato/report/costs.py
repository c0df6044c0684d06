"""What each arm has cost: FLOPs, time, memory and cache, each as a number and as a multiple of the arm that it is compared with."""

from __future__ import annotations

from collections.abc import Sequence

from ostinato.analysis import ArmResult
from ostinato.report import numbers
from ostinato.report.tables import Cell, Column, Row, Table
from ostinato.report.units import only_base


def costs_table(results: Sequence[ArmResult]) -> Table:
    """One row an arm. Time and memory are those of its runs; where no memory was measured, the ledger's estimate stands, and says so."""
    base = only_base(results)
    columns = (
        Column("arm", number=False),
        Column("against", "the arm that the multiples are of", number=False, terminal=base is None, page=base is None),
        Column("training FLOPs", "FLOPs a token × tokens"),
        Column("FLOPs a token", "training, published convention", spare=2),
        Column("training time", "of all steps, without measuring; mean over runs"),
        Column("tokens a second", "median over steps, mean over runs", spare=1),
        Column("peak memory", "the most that a training step held, over runs; or the ledger's estimate"),
        Column("cache a token", "bytes that generation keeps for each token, summed over applications", spare=3),
        Column("cache besides", "bytes that generation keeps whatever the length: recurrent states and convolutions", spare=4),
    )
    rows = tuple(Row(_cells(result), "reference" if result.reference else "") for result in results)
    over = base or "the arm that each is compared with"
    notes = ["Times depend on the machine and on what else it ran: the runs' machines are under Runs."]
    if any(result.peak_bytes is None for result in results):
        notes.append("est.: the ledger's estimate of weights, gradients, optimizer and activations; nothing was measured.")
    return Table("costs", f"What training cost, and its multiples of {over}", columns, rows, tuple(notes))


def _cells(result: ArmResult) -> tuple[Cell, ...]:
    ledger, ratios = result.ledger, result.cost_ratios

    def cell(name: str, text: str, value: float | None, title: str = "") -> Cell:
        ratio = ratios.get(name)
        return Cell(text if ratio is None or value is None else f"{text} ({numbers.times(ratio)})", value, title)

    memory, key = _memory(result)
    estimated = "est. " if key == "memory_estimate" else ""
    return (
        Cell(result.name, result.name, result.arm.note),
        Cell(result.against or numbers.NONE, result.against),
        cell("flops_total", numbers.power(ledger.flops_total), ledger.flops_total, f"{numbers.exact(ledger.flops_total)} FLOPs"),
        cell(
            "flops_per_token",
            numbers.human(ledger.flops_per_token),
            ledger.flops_per_token,
            f"{numbers.exact(ledger.flops_per_token)} FLOPs",
        ),
        cell("seconds", numbers.duration(result.seconds), result.seconds, "" if result.seconds is None else f"{result.seconds!r} seconds"),
        cell("tokens_per_s", numbers.human(result.tokens_per_s), result.tokens_per_s),
        cell(key, estimated + numbers.size(memory), memory, f"{numbers.exact(memory)} bytes, {'estimated' if estimated else 'measured'}"),
        cell("cache_bytes_per_token", numbers.size(ledger.cache_bytes_per_token), ledger.cache_bytes_per_token),
        cell("cache_bytes_fixed", numbers.size(ledger.cache_bytes_fixed), ledger.cache_bytes_fixed),
    )


def cost_words(result: ArmResult) -> str:
    """3.00× the training FLOPs (1.08e12), 2.45× the training time (46 min 10 s) and 2.08× the peak memory (70.0 GiB)."""
    ledger, ratios = result.ledger, result.cost_ratios
    memory, key = _memory(result)
    kind = "memory, estimated" if key == "memory_estimate" else "peak memory"
    parts = [_times(ratios.get("flops_total"), "training FLOPs", numbers.power(ledger.flops_total))]
    if result.seconds is not None:
        speed = f", {numbers.human(result.tokens_per_s)} tokens a second" if result.tokens_per_s else ""
        parts.append(_times(ratios.get("seconds"), "training time", numbers.duration(result.seconds) + speed))
    parts.append(_times(ratios.get(key), kind, numbers.size(memory)))
    parts.append(_times(ratios.get("cache_bytes_per_token"), "cache a token", numbers.size(ledger.cache_bytes_per_token)))
    if ledger.cache_bytes_fixed:
        parts.append(_times(ratios.get("cache_bytes_fixed"), "cache at any length", numbers.size(ledger.cache_bytes_fixed)))
    return numbers.listed(parts)


def _memory(result: ArmResult) -> tuple[int, str]:
    """Bytes: measured, else the ledger's estimate; and the name of that cost."""
    return (result.ledger.memory_total, "memory_estimate") if result.peak_bytes is None else (result.peak_bytes, "peak_bytes")


def _times(ratio: float | None, what: str, value: str) -> str:
    return f"{numbers.times(ratio)} the {what} ({value})" if ratio is not None else f"{value} of {what}"
