"""A loss per target, and the targets it belongs to: the two tables that every comparison is a function of.

The losses of one run at one evaluation point are one Parquet file with one float32 column; its footer holds the id of the targets, the
float64 sum of the losses, the count, and the bytes of the targets, so that a table of results needs no column read. Targets are stored once
per id for the whole store.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ostinato.errors import StoreError
from ostinato.store.tables import read_columns, read_footer, read_parquet, write_parquet

if TYPE_CHECKING:
    import numpy as np

    from ostinato.data import Targets

_MEND_LOSSES = "delete it and give `ostinato run` again: the evaluation point is measured anew"
_MEND_TARGETS = "delete it and give `ostinato run` again: it is written anew"
_COLUMNS = ("document", "position", "token", "bytes")


@dataclass(frozen=True)
class LossTable:
    """losses: float32 [N] nats of each target, in the order of the targets `target_id`, after training on `tokens`."""

    losses: np.ndarray
    target_id: str
    tokens: int
    part: str


@dataclass(frozen=True)
class TargetTable:
    """document, position, token, bytes: int32 [N] each; `policy` says in words how the windows were cut.

    digest: uint64 [N], of the text of each target's document; None in a file that was written before digests were kept.
    row: int32 [N], which packed row each target is in; None where documents are measured.
    """

    id: str
    document: np.ndarray
    position: np.ndarray
    token: np.ndarray
    bytes: np.ndarray
    policy: str
    digest: np.ndarray | None = None
    row: np.ndarray | None = None


def write_losses(path: Path, part: str, tokens: int, losses: np.ndarray, targets: Targets) -> None:
    """Write one evaluation point. Raises StoreError when there is not one finite loss for each target."""
    import numpy as np
    import pyarrow as pa

    losses = np.asarray(losses)
    wanted = len(targets.token)
    if losses.shape != (wanted,):
        raise StoreError(f"losses of shape {losses.shape} for {wanted} targets ({part}, {tokens} tokens)", "one loss for each target",
                         "measure with the targets that are stored")  # fmt: skip
    bad = int(np.count_nonzero(~np.isfinite(losses)))
    if bad:
        raise StoreError(f"{bad} of {wanted} losses are not finite ({part}, {tokens} tokens)", "a stored loss is a finite number of nats",
                         "lower the learning rate, or train in float32")  # fmt: skip
    footer = {
        "part": part,
        "tokens": int(tokens),
        "target_id": targets.id,
        "sum_nats": float(losses.sum(dtype=np.float64)),
        "targets": wanted,
        "bytes": int(np.asarray(targets.bytes).sum(dtype=np.int64)),
    }
    write_parquet(path, pa.table({"loss": pa.array(losses.astype(np.float32, copy=False))}), footer)


def read_losses(path: Path) -> LossTable:
    """Raises StoreError when the file is torn, FileNotFoundError when the point is not measured."""
    footer = read_loss_footer(path)
    losses = read_parquet(path, _MEND_LOSSES)["loss"].to_numpy()
    return LossTable(losses, footer["target_id"], footer["tokens"], footer["part"])


def read_loss_footer(path: Path) -> dict[str, Any]:
    """part, tokens, target_id, sum_nats (float64), targets (count), bytes of one evaluation point."""
    return read_footer(path, _MEND_LOSSES)


def rates(sum_nats: float, targets: int, target_bytes: int) -> dict[str, float | None]:
    """nats per token, bits per byte and perplexity from sums, by one division each; None ("not estimable") where nothing was counted."""
    nats = sum_nats / targets if targets else None
    bits = sum_nats / (math.log(2) * target_bytes) if target_bytes else None
    perplexity = math.exp(nats) if nats is not None and nats < 700 else None
    return {"nats": nats, "bits_per_byte": bits, "perplexity": perplexity}


def write_targets(path: Path, targets: Targets) -> None:
    """Write the identity of the targets unless it is there already (the id is a hash of the content).

    A file without the digests of documents or the rows, as older versions wrote them, is written anew with them.
    """
    more = {"digest"} if targets.row is None else {"digest", "row"}
    if path.exists() and more <= set(read_columns(path, _MEND_TARGETS)):
        return
    import numpy as np
    import pyarrow as pa

    columns = {name: pa.array(np.asarray(getattr(targets, name), dtype=np.int32)) for name in _COLUMNS}
    columns["digest"] = pa.array(np.asarray(targets.digest, dtype=np.uint64))
    if targets.row is not None:
        columns["row"] = pa.array(targets.row)
    write_parquet(path, pa.table(columns), {"id": targets.id, "policy": targets.policy})


def read_targets(path: Path) -> TargetTable:
    """Raises StoreError when the file is torn or missing."""
    try:
        footer, table = read_footer(path, _MEND_TARGETS), read_parquet(path, _MEND_TARGETS)
    except FileNotFoundError:
        raise StoreError(f"{path} is missing", "losses are read beside the targets they belong to", _MEND_TARGETS) from None
    arrays = {name: table[name].to_numpy() for name in _COLUMNS}
    digest, row = (table[name].to_numpy() if name in table.column_names else None for name in ("digest", "row"))
    return TargetTable(id=footer["id"], policy=footer["policy"], digest=digest, row=row, **arrays)
