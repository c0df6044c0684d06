"""The published grid with losses of a known law, as rows, as a table and as a file."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from ostinato.scaling.law import Rows, log_loss
from ostinato.scaling.table import NUMBERS, made

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "phi_fit.json").read_text(encoding="utf-8"))
TRUTH = {"E": 1.57, "A": 27.0, "alpha": 0.199, "B": 900.0, "beta": 0.369, "phi": 0.46}
"""E, alpha, beta and phi as published; A and B, which are not, between those of its fits of one r each."""


def theta_of(law):
    return np.array([np.log(law["A"]), law["alpha"], np.log(law["B"]), law["beta"], np.log(law["E"]), law["phi"]])


def grid():
    """Columns of the 116 runs: once, rec, r, D and budget, by the published formulas."""
    columns = []
    for budget, sizes in GOLDEN["iso_depth_grid"]["budgets_flops_and_s"].items():
        for s in sizes:
            d = 64 * s
            for r in (1, 2, 4, 8):
                once, rec = 4 * 12 * d * d, 16 // r * 12 * d * d + (2 * d * d if r > 1 else 0)
                per_token = 6 * (once + 32_064 * d) + 6 * r * rec + 12 * d * 2048 * 20
                columns.append((once, rec, r, float(budget) / per_token, budget))
    return columns


def losses(columns, law, noise=0.003, seed=0):
    """Nats of every row, with normal noise of log loss."""
    once, rec, r, d = (np.array([row[place] for row in columns], dtype=float) for place in range(4))
    rows = Rows.of(once, rec, r, d, np.ones(len(r)))
    clean = log_loss(rows.inside(theta_of(law)), rows)
    return np.exp(clean + noise * np.random.default_rng(seed).standard_normal(len(r)))


@pytest.fixture(scope="session")
def golden():
    return GOLDEN


@pytest.fixture(scope="session")
def truth():
    return TRUTH


@pytest.fixture(scope="session")
def published():
    """published(noise=…, seed=…, treatment=…, keep=…, **law) -> RunTable of the grid."""

    def make(noise=0.003, seed=0, treatment="", keep=lambda row: True, tokens=1.0, **law):
        columns = [(*row[:3], row[3] * (tokens if row[2] > 1 else 1.0), row[4]) for row in grid() if keep(row)]
        found = dict(zip(NUMBERS, [*zip(*(row[:4] for row in columns), strict=True)], strict=False))
        found |= {"loss": losses(columns, TRUTH | law, noise, seed), "budget": [row[4] for row in columns]}
        if treatment:
            found["treatment"] = [treatment] * len(columns)
        return made(found, [f"row {at + 1}" for at in range(len(columns))], "made")

    return make


@pytest.fixture
def write(tmp_path):
    """write(table, name=…, **renamed) -> path of a CSV file; renamed: our name -> the file's."""

    def make(table, name="table.csv", more=(), **renamed):
        records = [*table.records(), *more]
        names = list(records[0])
        with open(tmp_path / name, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow([renamed.get(one, one) for one in names])
            writer.writerows([record[one] for one in names] for record in records)
        return tmp_path / name

    return make
