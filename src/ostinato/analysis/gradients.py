"""What each application gives to the gradient of a shared weight, over training: pure functions of `RunFolder.gradients`.

With G_a the gradient that a weight gets from application a and G = Σ_a G_a the one that training sees,

    share of a         <G_a, G> / ‖G‖²                 they add up to 1; one below 0 works against the sum
    cosine of a, b     <G_a, G_b> / (‖G_a‖ ‖G_b‖)      do two passes pull the weight the same way?

each over all shared weights together: products are summed over weights, then divided once. A weight's uses are numbered in the order of the
schedule: its first, its second. Where a whole stack runs again, a weight's use is its pass; where one layer has another's attention,
the layers are its uses. Weights that one application alone has are left out of both.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Looked:
    """One step that was looked at.  tokens: trained on after it.

    shares: of a weight's first use, its second, …; () without shared weights.  cosines: {(use, later use): cosine}, uses from 0.
    by_application: {application: its share of the gradient of the shared weights that it uses}.
    loss, growth: at the stream before the first application and after each, as store.gradients.COLUMNS has them; () where there are none.
    """

    step: int
    tokens: int
    shares: tuple[float, ...]
    cosines: Mapping[tuple[int, int], float]
    by_application: Mapping[int, float]
    loss: tuple[float, ...]
    growth: tuple[float, ...]


def course(table: pa.Table) -> tuple[Looked, ...]:
    """Every step that was looked at, in order."""
    columns = _columns(table)
    return tuple(_looked(columns, columns["step"] == step) for step in np.unique(columns["step"]))


def pooled(tables: Sequence[pa.Table], since: int = 0) -> Looked | None:
    """All steps from `since` tokens on, of all runs (of one arm): products are summed over steps and runs, streams are mean squares.

    step and tokens are the last ones. None where no step was looked at.
    """
    import pyarrow as pa

    columns = _columns(pa.concat_tables(tables).unify_dictionaries())
    here = columns["tokens"] >= since
    return _looked(columns, here) if here.any() else None


def _columns(table: pa.Table) -> dict[str, np.ndarray]:
    found = {name: table[name].to_numpy() for name in ("step", "tokens", "value")}
    found |= {name: np.asarray(table[name].to_pylist(), dtype=object) for name in ("kind", "parameter")}
    return found | {name: table[name].fill_null(-2).to_numpy() for name in ("application", "other")}


def _looked(columns: Mapping[str, np.ndarray], here: np.ndarray) -> Looked:
    kind, place, value = columns["kind"], columns["application"], columns["value"]
    dots = here & (kind == "dot")
    weights = np.unique(columns["parameter"][dots].astype(str), return_inverse=True)[1]
    shares, cosines, by_application = _shared(weights, place[dots], columns["other"][dots], value[dots])
    streams = []
    for name in ("loss", "growth"):
        mine = here & (kind == name)
        places = np.unique(place[mine])
        streams.append(tuple(math.sqrt(np.mean(np.square(value[mine & (place == one)]))) for one in places))
    last = np.argmax(np.where(here, columns["step"], -1))
    return Looked(int(columns["step"][last]), int(columns["tokens"][last]), shares, cosines, by_application, *streams)


def norms(table: pa.Table) -> dict[str, tuple[tuple[int, float], ...]]:
    """{parameter: ((tokens, norm of its gradient in the whole step, before clipping), …)}."""
    found: dict[str, list[tuple[int, float]]] = {}
    for row in table.select(["kind", "parameter", "tokens", "value"]).to_pylist():
        if row["kind"] == "norm":
            found.setdefault(row["parameter"], []).append((row["tokens"], row["value"]))
    return {name: tuple(line) for name, line in found.items()}


def _shared(
    weight: np.ndarray, later: np.ndarray, earlier: np.ndarray, dot: np.ndarray
) -> tuple[tuple[float, ...], dict[tuple[int, int], float], dict[int, float]]:
    """shares, cosines and by_application of products <G_later, G_earlier> of weights, one each for later >= earlier."""
    uses: dict[int, Any] = {}
    for name, application in zip(weight.tolist(), later.tolist(), strict=True):
        uses.setdefault(name, set()).add(application)
    uses = {name: sorted(applications) for name, applications in uses.items() if len(applications) > 1}
    if not uses:
        return (), {}, {}
    most = max(map(len, uses.values()))
    grams = np.zeros((most + 1, most, most))  # by how many uses a weight has
    gives: dict[int, float] = {}
    has: dict[int, float] = {}
    for name, applications in uses.items():
        mine = weight == name
        rows, columns = (np.searchsorted(applications, side[mine]) for side in (later, earlier))
        gram = np.zeros((len(applications), len(applications)))
        np.add.at(gram, (rows, columns), dot[mine])
        gram += np.tril(gram, -1).T
        grams[len(applications), : len(applications), : len(applications)] += gram
        for application, given in zip(applications, gram.sum(1).tolist(), strict=True):
            gives[application] = gives.get(application, 0.0) + given
            has[application] = has.get(application, 0.0) + float(gram.sum())
    whole = grams.sum(0)
    cosines = {}
    for use in range(most):
        for after in range(use + 1, most):
            both = grams[after + 1 :].sum(0)  # of the weights that have both uses
            if both[use, use] > 0 and both[after, after] > 0:
                cosines[use, after] = float(both[use, after] / math.sqrt(both[use, use] * both[after, after]))
    total = float(whole.sum())
    shares = tuple((whole.sum(1) / total).tolist()) if total > 0 else ()
    return shares, cosines, {application: given / has[application] for application, given in sorted(gives.items()) if has[application] > 0}
