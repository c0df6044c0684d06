"""A study whose arms are a grid of widths, passes and budgets, as one compact table: what a law of recurrence knows of every arm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ostinato.ledger.ledger import Ledger
from ostinato.ledger.plan import Plan
from ostinato.report import numbers
from ostinato.report.tables import Cell, Column, Row, Table
from ostinato.study.numbers import decimal

if TYPE_CHECKING:
    from ostinato.scaling.study import Size

LEAST_WIDTHS = 3
SIZES = ("N_once, N_rec: unique parameters of the layers that run once, and of those that run r times; embedding, head and norms apart. "
         "At r = 1 every layer runs once.")  # fmt: skip
BY_TOKENS = "Training FLOPs: forward and backward, each query with the keys that it may see. D in a name is a budget of tokens."


@dataclass(frozen=True)
class Grid:
    """sizes: what the law sees of each arm, None where it has no word for it.  budgets: FLOPs that each arm's name gives it (` C1e18`), by
    the `trainer` convention; empty where not every name does."""

    plan: Plan
    sizes: dict[str, Size | None]
    budgets: dict[str, float]

    def flops(self, ledger: Ledger) -> float:
        """Of a run, counted as the budgets are."""
        return ledger.flops_total_trainer if self.budgets else ledger.flops_total

    @property
    def convention(self) -> str:
        """What the FLOPs of the table are, and what those of the table of costs are."""
        if not self.budgets:
            return BY_TOKENS
        ledgers = self.plan.ledgers
        off = max(abs(ledger.flops_total_trainer / self.budgets[ledger.name] - 1) for ledger in ledgers)
        less = [1 - ledger.flops_total / ledger.flops_total_trainer for ledger in ledgers]
        return ("Training FLOPs: forward and backward, each query with all keys of the context, seen or not, which is how a budget C in "
                f"a name is counted (every run is within {100 * off:.1g}% of its own); the table of costs counts only the keys that a "
                f"query may see, and so {numbers.percent(min(less))} to {numbers.percent(max(less))} less.")  # fmt: skip

    @property
    def notes(self) -> tuple[str, ...]:
        return SIZES, self.convention

    def row(self, arm: str) -> dict[str, float | None]:
        """N_once, N_rec and r of an arm, for JSON."""
        size = self.sizes[arm]
        return {name: size and getattr(size, name) for name in ("N_once", "N_rec", "r")}


def grid(plan: Plan) -> Grid | None:
    """None where the arms of the study are no grid. Of a study of one or two widths that is known without a look at its layers."""
    if len({arm.model.d_model for arm in plan.study.arms}) < LEAST_WIDTHS:
        return None
    from ostinato.scaling.study import size_of, varies  # brings numpy, which a plan of a few arms does without

    if not varies(plan.study):
        return None
    budgets = {arm.name: _budget(arm.name) for arm in plan.study.arms}
    return Grid(plan, {arm.name: size_of(arm) for arm in plan.study.arms}, budgets if all(budgets.values()) else {})


def _budget(name: str) -> float | None:
    """4.64e17 of `d384 r1 C4.64e17`, None of another name."""
    letter, number = (last := name.rpartition(" ")[2])[:1], last[1:]
    try:
        return float(decimal(number)) if letter == "C" else None
    except ValueError:
        return None


def grid_table(grid: Grid) -> Table:
    """One row an arm."""
    study = grid.plan.study
    columns = (
        Column("arm", number=False),
        Column("N_once", "unique parameters of the layers that run once, embedding and head apart"),
        Column("N_rec", "unique parameters of the layers that run r times, injection included"),
        Column("r", "passes through the repeated layers"),
        Column("tokens", "training tokens, in whole steps"),
        Column("steps", "optimizer steps"),
        Column("training FLOPs", "forward and backward, " + ("as budgets are counted" if grid.budgets else "published convention")),
    )
    rows = tuple(Row(_cells(grid, ledger), "reference" if ledger.name == study.reference else "") for ledger in grid.plan.ledgers)
    size = f", size {study.size}" if study.size else ""
    return Table("grid", f"The grid ({study.name}{size})", columns, rows, grid.notes)


def _cells(grid: Grid, ledger: Ledger) -> tuple[Cell, ...]:
    size, flops = grid.sizes[ledger.name], grid.flops(ledger)
    once, again, r = (size.N_once, size.N_rec, size.r) if size else (None, None, None)
    return (
        Cell(ledger.name, ledger.name, ledger.arm.note),
        Cell(numbers.human(once), once, numbers.exact(once)),
        Cell(numbers.human(again), again, numbers.exact(again)),
        Cell(numbers.depth(r), r),
        Cell(numbers.human(ledger.tokens), ledger.tokens, numbers.exact(ledger.tokens)),
        Cell(numbers.exact(ledger.steps), ledger.steps, f"{numbers.exact(ledger.tokens_per_step)} tokens a step"),
        Cell(numbers.power(flops), flops, f"{numbers.exact(flops)} FLOPs"),
    )
