"""The log of gradients: one JSON object a measured step while a run goes on, one Parquet table when it is done.

A line is what `train.gradients` measured at one training step:

    step, tokens      as in the log of steps: the step whose gradient it is, and the tokens trained on after it
    targets           counted targets of the rows that gradients by application are of (a part of the step's batch)
    seconds           that measuring took, beside the step
    applications      [[layer, part, pass], …] in the order of the schedule
    norms             {parameter: norm of the whole step's gradient, before clipping}
    dots              {parameter: [[applications that use it], [products of their gradients: row by row below the diagonal, with it]]}
    loss, growth      at the stream before the first application and after each: see COLUMNS

The table has one row a number. A weight that several applications share has the sum of their gradients, so the norm of the sum, each
application's share of it and the angles between them all follow from `dot` (analysis/gradients.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ostinato.store.steps import read_steps
from ostinato.store.tables import read_parquet, write_parquet

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS = ("step", "tokens", "targets", "seconds", "kind", "parameter", "application", "layer", "part", "pass", "other", "value")
"""kind norm    of one parameter's gradient in the whole step, before clipping
        dot     of the gradients that a parameter gets from `application` and from `other`, which is not later, of nats per target
        loss    root mean square, over targets, of the gradient of the summed nats at the stream after `application`
        growth  ‖vᵀJ‖ / ‖v‖: v random at the stream after the last application, J its Jacobian by the stream after `application`

application -1 is the stream before the first one; null where none is meant, and so are layer, part and pass."""
_MEND = "delete it: no other number depends on it"


def gradients_table(records: Iterable[dict[str, Any]]) -> pa.Table:
    """One row a number, with COLUMNS."""
    import pyarrow as pa

    columns = list(zip(*(row for record in records for row in _rows(record)), strict=True)) or [()] * len(COLUMNS)
    words, kinds = pa.dictionary(pa.int32(), pa.string()), {"seconds": pa.float64(), "value": pa.float64()}
    kinds |= dict.fromkeys(("kind", "parameter", "part"), words)
    return pa.table({name: pa.array(column, kinds.get(name, pa.int64())) for name, column in zip(COLUMNS, columns, strict=True)})


def _rows(record: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
    head = tuple(record[name] for name in ("step", "tokens", "targets", "seconds"))
    places = {None: (None, None, None, None), -1: (-1, None, None, None)}
    places |= {index: (index, *labels) for index, labels in enumerate(record["applications"])}
    for name, value in record["norms"].items():
        yield (*head, "norm", name, *places[None], None, value)
    for name, (applications, values) in record["dots"].items():
        pairs = [(later, earlier) for place, later in enumerate(applications) for earlier in applications[: place + 1]]
        for (later, earlier), value in zip(pairs, values, strict=True):
            yield (*head, "dot", name, *places[later], earlier, value)
    for kind in ("loss", "growth"):
        for index, value in enumerate(record[kind], -1):
            yield (*head, kind, None, *places[index], None, value)


def finish(log: Path, finished: Path) -> None:
    """Turn the log into the table; doing it twice changes nothing."""
    if log.exists():
        write_parquet(finished, read_gradients(log, finished))
        log.unlink()


def keep(finished: Path, last: int) -> None:
    """Drop from the finished table what comes after step `last`."""
    if finished.exists():
        import pyarrow.compute as pc

        table = read_parquet(finished, _MEND)
        write_parquet(finished, table.filter(pc.less_equal(table["step"], last)))


def read_gradients(log: Path, finished: Path) -> pa.Table:
    """All that is there, finished and since; no rows before the first. Raises StoreError when either is torn."""
    import pyarrow as pa
    import pyarrow.compute as pc

    records = read_steps(log)
    if not finished.exists():
        return gradients_table(records)
    before = read_parquet(finished, _MEND)
    last = pc.max(before["step"]).as_py() or 0  # a process killed between the two files of `finish` leaves both
    later = gradients_table(record for record in records if record["step"] > last)
    return pa.concat_tables([before, later.cast(before.schema)]).unify_dictionaries() if later.num_rows else before
