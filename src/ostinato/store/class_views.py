"""Rows of the views lens, skips and depths: stored measures with one row a target, summed by token class.

One row a run, class and application (or pass, or number of passes), with sums over the measured targets and their count: means, also over
seeds, are sum(sum) / sum(count). Classes are `all`, those of R and those of k; `all` alone where the classes of the targets are not stored.

Shapes, as suffixes of names: C columns, K classes, M measured targets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ostinato.claims.classes import ALL, named_classes
from ostinato.store.measures import Measure

if TYPE_CHECKING:
    from ostinato.data.classes import TokenClasses

CLASSES = named_classes("R, k")

Row = dict[str, Any]


def rows(measure: Measure, known: TokenClasses | None) -> Iterator[Row]:
    """Of one stored measure; None where a number is of none (before the first application, with nothing skipped, of one pass).

    known: the classes of all targets.  Raises StoreError when the file is torn.
    """
    table = measure.table()
    target_M = table["target"].to_numpy()
    chosen = {ALL: np.ones(len(target_M), bool)} | ({one.name: one.of(known)[target_M] for one in CLASSES} if known is not None else {})
    columns = [name for name in table.column_names if name != "target"]
    weights_MK = np.stack([*chosen.values()], 1).astype(np.float64)
    sums_CK = np.stack([table[name].to_numpy().astype(np.float64) @ weights_MK for name in columns])
    count_K = weights_MK.sum(0).astype(int).tolist()
    for place, class_ in enumerate(chosen):
        sums = dict(zip(columns, sums_CK[:, place].tolist(), strict=True))
        for row in _ROWS[measure.name](sums, measure.about["applications"]):
            yield {"class": class_, "count": count_K[place], **row}


def _lens(sums: Mapping[str, float], labels: Sequence[Mapping[str, Any]]) -> Iterator[Row]:
    yield {"sum": sums["input"]}
    for label in labels:
        yield {**_place(label), "sum": sums[f"after_{label['index']}"]}


def _skips(sums: Mapping[str, float], labels: Sequence[Mapping[str, Any]]) -> Iterator[Row]:
    yield {"skipped": "nothing", "sum": sums["whole"]}
    for label in labels:
        yield {"skipped": "application", **_place(label), "sum": sums[f"without_{label['index']}"]}
    for number in sorted({label["pass_"] for label in labels}):
        if (name := f"without_pass_{number}") in sums:
            yield {"skipped": "pass", "pass": number, "sum": sums[name]}


def _depths(sums: Mapping[str, float], labels: Sequence[Any]) -> Iterator[Row]:
    for passes in range(1, 1 + sum(name.startswith("nats_") for name in sums)):
        yield {"passes": passes, "sum": sums[f"nats_{passes}"], "kl": sums.get(f"kl_{passes}")}


def _place(label: Mapping[str, Any]) -> Row:
    return {"application": label["index"], "layer": label["layer"], "part": label["part"], "pass": label["pass_"]}


_ROWS = {"lens": _lens, "skips": _skips, "depths": _depths}
