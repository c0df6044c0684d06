"""Cells of a table of runs: the rows of one budget and one r, which are left out together and drawn together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ostinato.scaling.table import RunTable

GROUPS = 6


@dataclass(frozen=True)
class Cells:
    """of_row: the cell of each row, (n,).  names: of the cells.  by: what a budget is here, in words."""

    of_row: np.ndarray
    names: tuple[str, ...]
    by: str

    def __len__(self) -> int:
        return len(self.names)

    def draws(self, count: int, seed: int) -> np.ndarray:
        """How often each cell is drawn in each of `count` resamples, (count, cells)."""
        draw = np.random.Generator(np.random.Philox(seed))
        chosen = draw.integers(0, len(self), (count, len(self)))
        return np.stack([np.bincount(one, minlength=len(self)) for one in chosen]).astype(float)


def cells(table: RunTable) -> Cells:
    """By the column `budget`, where every row has one; else by training FLOPs or D, where few values of them return (within 2%); else by
    six groups of training FLOPs."""
    if all(table.budget):
        budgets, by = list(table.budget), "budget"
    else:
        by, values = fewest({"training FLOPs": table.flops, "D": table.D})
        budgets = [f"{by} {value:.4g}" for value in values]
        if len(set(budgets)) > len(table) / 4:
            order = np.argsort(np.argsort(table.flops, kind="stable"), kind="stable")
            groups = min(GROUPS, max(len(table) // 4, 1))
            budgets, by = [f"FLOPs {at + 1} of {groups}" for at in order * groups // len(table)], f"{groups} groups of training FLOPs"
    labels = [f"{budget}, r {r:g}" for budget, r in zip(budgets, table.r, strict=True)]
    names = tuple(dict.fromkeys(labels))
    place = {name: at for at, name in enumerate(names)}
    return Cells(np.array([place[label] for label in labels]), names, by)


def fewest(columns: Mapping[str, np.ndarray]) -> tuple[str, list[float]]:
    """The column that has the fewest groups of values near each other, and its groups (`near`)."""
    sets = {name: near(values) for name, values in columns.items()}
    name = min(sets, key=lambda one: len(set(sets[one])))
    return name, sets[name]


def near(values: np.ndarray) -> list[float]:
    """Each value, or the first of those at most 2% below it that begins a group."""
    first: list[float] = []
    found = {}
    for value in sorted(set(values.tolist())):
        if not first or value > first[-1] * 1.02:
            first.append(value)
        found[value] = first[-1]
    return [found[value] for value in values.tolist()]
