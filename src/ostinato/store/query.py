"""`query`: SQL over a store. DuckDB runs in memory over views of the Parquet and JSON files, and only statements that read are accepted.

Rows that are no file's go in as lists: pyarrow would import pandas, where it is installed, before it makes an array.
It never fetches an extension: a misspelt word must not wait for a network, and nothing is downloaded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb

from ostinato.errors import StoreError
from ostinato.store import gradients
from ostinato.store.losses import rates, read_loss_footer
from ostinato.store.measures import Measure
from ostinato.store.runs import RunFolder
from ostinato.store.steps import COLUMNS

if TYPE_CHECKING:
    import pyarrow as pa

    from ostinato.store.store import Store

_WHO = "run, arm, seed, tokens"
VIEWS = {
    "runs": "run, arm, seed, study, studies, state, tokens, tokens_total, loss, seconds, tokens_per_s, peak_bytes, error, params_total, "
    "flops_per_token, data, path, record",
    "steps": "run, arm, seed, " + ", ".join(COLUMNS),
    "gradients": "run, arm, seed, " + ", ".join(gradients.COLUMNS),
    "losses": "run, arm, seed, evaluation, part, tokens, target_id, target, loss",
    "targets": "target_id, target, document, position, token, bytes",
    "results": "study, version, arm, seed, run, part, tokens, targets, bytes, nats, bits_per_byte, perplexity, evaluation, target_id",
    "measures": f"{_WHO}, measure, target_id, targets, settings, about, taken, path",
    "pairs": f"{_WHO}, paradigm, field, term, pair, identical, good_bos, bad_bos, good_skip_first, bad_skip_first, good_tokens, bad_tokens",
    "lens": f"{_WHO}, target_id, application, layer, part, pass, class, sum, count",
    "skips": f"{_WHO}, target_id, skipped, application, layer, part, pass, class, sum, count",
    "depths": f"{_WHO}, target_id, passes, class, sum, kl, count",
    "heads": f"{_WHO}, text, application, layer, pass, head, score, sum, chance, count",
    "states": f"{_WHO}, passes, application, layer, part, pass, positions, size, update, cosine, change, distance, rank",
}
"""Of measures: of runs, and of models that were not trained here, by their digest and name; the tables of each kind one after the other,
those with one row a target as sums over a token class (`store.class_views`)."""
_TYPES = {
    **dict.fromkeys(("seed", "step", "tokens", "tokens_total", "peak_bytes", "params_total", "targets", "target", "bytes", "document",
                     "position", "token", "pair", "good_tokens", "bad_tokens", "application", "layer", "pass", "head", "count", "passes",
                     "positions", "other"), "bigint"),
    **dict.fromkeys(("loss", "seconds", "tokens_per_s", "flops_per_token", "lr", "grad_norm", "nats", "bits_per_byte", "perplexity",
                     "good_bos", "bad_bos", "good_skip_first", "bad_skip_first", "sum", "chance", "size", "update", "cosine", "change",
                     "distance", "rank", "value", "kl"), "double"),
    "identical": "boolean",
}  # fmt: skip
"""Of columns; the others are text."""
_EXPLAIN = re.compile(r"\s*explain\b\s*(?:analyze\b|\([\w\s,]*\))?", re.IGNORECASE)
_CONFIG = {"threads": 1, "autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}


class Answer(NamedTuple):
    """The names of the columns and the rows."""

    columns: list[str]
    rows: list[tuple[Any, ...]]

    def records(self) -> list[dict[str, Any]]:
        """The rows as dictionaries."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


def answer(store: Store, sql: str, held_out: bool = False) -> Answer:
    """Run one reading statement over the views. Raises StoreError, with the views and columns, for any other text."""
    connection = duckdb.connect(":memory:", config=_CONFIG)
    try:
        if not _only_reads(connection, sql):
            raise StoreError(f"query {sql!r}", "a query is one SELECT: the store is only read", _help())
        for name, build in _BUILDERS.items():
            if re.search(rf"\b{name}\b", sql, re.IGNORECASE):
                build(connection, store, held_out)
        cursor = connection.execute(sql)
        return Answer([column[0] for column in cursor.description], cursor.fetchall())
    except duckdb.Error as error:
        raise StoreError(f"query {sql!r}: {str(error).splitlines()[0]}", "SQL as DuckDB reads it, over the views below", _help()) from None
    finally:
        connection.close()


def _only_reads(connection: duckdb.DuckDBPyConnection, sql: str) -> bool:
    """Whether this is one SELECT, or the explanation of one: EXPLAIN ANALYZE does what it explains, COPY included."""
    kinds = [statement.type for statement in connection.extract_statements(sql)]
    if kinds == [duckdb.StatementType.EXPLAIN]:
        explained = _EXPLAIN.match(sql)
        return explained is not None and _only_reads(connection, sql[explained.end() :])
    return kinds == [duckdb.StatementType.SELECT]


def _help() -> str:
    return "the views and their columns:\n" + "\n".join(f"      {name} ({columns})" for name, columns in VIEWS.items())


def identity(folder: RunFolder) -> dict[str, Any]:
    """The arm, the seed and the study under which a run was first trained."""
    given = folder.given()
    return {"run": folder.name, "arm": given.get("arm"), "seed": given.get("seed"), "study": given.get("study")}


def _runs(connection: duckdb.DuckDBPyConnection, store: Store, held_out: bool) -> None:
    uses: dict[str, list[str]] = {}
    for folder in store.studies():
        for version in folder.versions():
            for fingerprint in version.runs.values():
                uses.setdefault(store.run(fingerprint).name, []).append(folder.name)
    rows = []
    for folder in store.runs():
        status, progress, record = folder.status(), folder.progress(), folder.record()
        resolved = record.get("resolved") or {}
        ledger = resolved.get("ledger") or {}
        rows.append({**identity(folder), "studies": ", ".join(sorted(set(uses.get(folder.name, [])))), "state": status["state"],
                     "tokens": progress.get("tokens"), "tokens_total": ledger.get("tokens"), "loss": progress.get("loss"),
                     "seconds": status.get("seconds"), "tokens_per_s": folder.tokens_per_s(), "peak_bytes": folder.peak_bytes(),
                     "error": status.get("error"), "params_total": ledger.get("params_total"),
                     "flops_per_token": ledger.get("flops_per_token"), "data": resolved.get("data_fingerprint"), "path": str(folder.path),
                     "record": json.dumps(record, ensure_ascii=False)})  # fmt: skip
    _rows(connection, "runs", VIEWS["runs"], rows)


def _rows(connection: duckdb.DuckDBPyConnection, table: str, names: str, rows: list[dict[str, Any]]) -> None:
    """A table of these columns; what a row lacks is null there."""
    _columns(connection, table, {name: [row.get(name) for row in rows] for name in names.split(", ")})


def _columns(connection: duckdb.DuckDBPyConnection, table: str, columns: dict[str, list[Any]]) -> None:
    chosen = ", ".join(f"unnest(?::{_TYPES.get(name, 'varchar')}[]) as \"{name}\"" for name in columns)
    connection.execute(f"create table {table} as select {chosen}", list(columns.values()))


def _log(view: str, read: Callable[[RunFolder], pa.Table]) -> Callable[[duckdb.DuckDBPyConnection, Any, bool], None]:
    """The view of one log of all runs, running or finished."""

    def build(connection: duckdb.DuckDBPyConnection, store: Store, held_out: bool) -> None:
        columns: dict[str, list[Any]] = {name: [] for name in VIEWS[view].split(", ")}
        for folder in store.runs():
            table, who = read(folder), identity(folder)
            for name, values in columns.items():
                values += table[name].to_pylist() if name in table.column_names else [who[name]] * len(table)
        _columns(connection, view, columns)

    return build


def _measured(store: Store, held_out: bool) -> list[tuple[RunFolder, dict[str, Any]]]:
    """(run, footer) of every stored evaluation point that may be shown."""
    folders = [folder.under(evaluation) for folder in (*store.runs(), *store.models()) for evaluation in folder.evaluations()]
    points = [(folder, *point) for folder in folders for point in folder.measured() if held_out or point[0] != "held_out"]
    return [(folder, read_loss_footer(folder.losses_path(part, tokens))) for folder, part, tokens in points]


def _files(connection: duckdb.DuckDBPyConnection, view: str, rows: list[dict[str, Any]]) -> None:
    """A view over Parquet files: their columns, `target` (the row in the file), and what `rows` knows of each `filename`."""
    names = VIEWS[view].split(", ")
    if not rows:
        columns = ", ".join(f"null::{'float' if name == 'loss' else _TYPES.get(name, 'varchar')} as {name}" for name in names)
        connection.execute(f"create view {view} as select {columns} where false")
        return
    _rows(connection, f"{view}_files", ", ".join(rows[0]), rows)
    columns = ", ".join("file_row_number as target" if name == "target" else name for name in names)
    listed = ", ".join("'" + row["filename"].replace("'", "''") + "'" for row in rows)
    connection.execute(
        f"create view {view} as select {columns} from read_parquet([{listed}], filename = true, file_row_number = true) as content "
        f"join {view}_files as file on file.filename = content.filename"
    )


def _losses(connection: duckdb.DuckDBPyConnection, store: Store, held_out: bool) -> None:
    rows = []
    for folder, footer in _measured(store, held_out):
        path = str(folder.losses_path(footer["part"], footer["tokens"]))
        kept = {name: footer[name] for name in ("part", "tokens", "target_id")}
        rows.append({"filename": path, "evaluation": folder.evaluation, **identity(folder), **kept})
    _files(connection, "losses", rows)


def _targets(connection: duckdb.DuckDBPyConnection, store: Store, held_out: bool) -> None:
    _files(
        connection, "targets", [{"filename": str(file), "target_id": file.stem} for file in sorted(store.targets_path.glob("*.parquet"))]
    )


def _results(connection: duckdb.DuckDBPyConnection, store: Store, held_out: bool) -> None:
    """One row for each study, version, arm, seed and evaluation point; a run that two studies share is in both."""
    points: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for folder, footer in _measured(store, held_out):
        points.setdefault((folder.name, folder.evaluation), []).append(footer)
    rows = []
    for folder in store.studies():
        for version in folder.versions():
            for (arm, seed), fingerprint in version.runs.items():
                run = store.run(fingerprint, version.evaluation(arm))
                who = {"study": folder.name, "version": version.name, "arm": arm, "seed": seed, "run": run.name}
                for footer in points.get((run.name, run.evaluation), []):
                    values = rates(footer["sum_nats"], footer["targets"], footer["bytes"])
                    rows.append({**who, "evaluation": run.evaluation, **footer, **values})
    _rows(connection, "results", VIEWS["results"], rows)


def _measured_models(store: Store) -> list[tuple[RunFolder, dict[str, Any], Measure]]:
    """(folder, whose it is, the measure) of every table of runs and of other models."""
    folders = [*store.runs(), *store.models()]
    return [(folder, {"run": who["run"], "arm": who["arm"], "seed": who["seed"], "tokens": one.tokens}, one)
            for folder in folders if (who := identity(folder)) for one in folder.measures()]  # fmt: skip


def _measures(connection: duckdb.DuckDBPyConnection, store: Store, held_out: bool) -> None:
    rows = [{**who, "measure": one.name, "target_id": one.settings.get("target_id"), "targets": one.settings.get("targets"),
             "settings": json.dumps(one.settings), "about": json.dumps(one.about), "taken": one.taken, "path": str(one.path)}
            for _, who, one in _measured_models(store)]  # fmt: skip
    _rows(connection, "measures", VIEWS["measures"], rows)


def _by_class(measure: str) -> Callable[[duckdb.DuckDBPyConnection, Any, bool], None]:
    """The view of all tables of a measure with one row a target, by token class."""

    def build(connection: duckdb.DuckDBPyConnection, store: Store, held_out: bool) -> None:
        from ostinato.store.class_views import rows  # numpy

        found = []
        for folder, who, one in _measured_models(store):
            if one.name == measure:
                target_id, data = one.settings.get("target_id"), folder.resolved().get("data_fingerprint")
                known = store.classes(target_id, data) if target_id and data else None
                found += [{**who, "target_id": target_id, **row} for row in rows(one, known)]
        _rows(connection, measure, VIEWS[measure], found)

    return build


def _tables_of(measure: str) -> Callable[[duckdb.DuckDBPyConnection, Any, bool], None]:
    """The view of all tables of one measure."""

    def build(connection: duckdb.DuckDBPyConnection, store: Store, held_out: bool) -> None:
        rows = [{"filename": str(one.path), **who} for _, who, one in _measured_models(store) if one.name == measure]
        _files(connection, measure, rows)

    return build


_BUILDERS: dict[str, Callable[[duckdb.DuckDBPyConnection, Any, bool], None]] = {
    "runs": _runs, "steps": _log("steps", RunFolder.steps), "gradients": _log("gradients", RunFolder.gradients), "losses": _losses,
    "targets": _targets, "results": _results,
    "measures": _measures, **{name: _tables_of(name) for name in ("pairs", "heads", "states")},
    **{name: _by_class(name) for name in ("lens", "skips", "depths")}}  # fmt: skip
