"""A data set on the Hugging Face hub, streamed once into the cache as shards, and read from there ever after.

`datasets` streams it (the extra `hub`); what came is kept in Parquet shards of one column, each with the place in the stream at its end, so
that a gathering that was killed or cut off goes on after its last whole shard, and one that was bounded by `most` is later extended.
The revision is the commit that the hub names; what was gathered stays at it. Without a network the answer comes at once: what this cache,
or that of huggingface_hub or of datasets, has of it, else how to fetch it elsewhere.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from dataclasses import field as default
from pathlib import Path
from typing import Any

from ostinato.data import hub_cache
from ostinato.data.layout import Layout, no_config, no_split
from ostinato.data.network import unreachable
from ostinato.data.once import key_of
from ostinato.data.policies import clean, utf8
from ostinato.data.readers import no_field
from ostinato.errors import DataError
from ostinato.files import lock, write_atomic
from ostinato.study.ready import hub_id
from ostinato.study.records import Data

SHARD_BYTES = 64 << 20  # of text: what is lost when a gathering is killed, and about what is held in memory
_ROWS = 256
_SAID = 0.2

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Fetched:
    """What there is of a data set on this machine. files: shards of one column `text`, or `found`: files that another program's cache has.

    content: what the shards follow from. origin: id, revision, configuration and split, for the manifest.
    """

    files: tuple[str, ...] = ()
    content: Any = None
    origin: dict[str, Any] = default(default_factory=dict)
    found: Layout | None = None


@dataclass
class _Source:
    """A stream that can be asked where it is; its revision, and how much there is of it, where that is known."""

    dataset: Any
    revision: str | None
    config: str | None
    bytes: int | None = None


def fetch(data: Data, cache: Path, progress: Progress | None = None) -> Fetched:
    """The data set that `data` names, streamed from the hub as far as `most` says unless it is here. Raises DataError."""
    here = gathered(data, cache)
    if here:
        return here
    name = str(hub_id(data.corpus))
    why = unreachable()
    if why:
        found = hub_cache.find(name, data.config, data.split)
        if found:
            return Fetched(origin={"id": name, **found.card}, found=found)
        if hub_cache.prepared(name):
            with hub_cache.offline():
                found = hub_cache.arrow_files(_package(name), name, data.config, data.split)
            if found:
                return Fetched(origin={"id": name, **found.card}, found=found)
        raise _no_network(data, name, why)
    package = _package(name)
    place = _place(data, cache)
    with lock(place.with_name(f"{place.name}.lock")):
        here = gathered(data, cache)
        if not here:
            _gather(place, data, name, lambda revision: _open(package, name, revision, data), progress)
    return gathered(data, cache) or _gone(place)


def gathered(data: Data, cache: Path) -> Fetched | None:
    """The shards of the data set, if what the study reads of it is in this cache; None otherwise. Needs neither network nor `datasets`."""
    place = _place(data, cache)
    state = _state(place)
    if state is None or not _enough(state, data.most):
        return None
    count, size = 0, 0
    for shard in state["shards"]:
        count, size = count + 1, size + shard["bytes"]
        if data.most is not None and size > data.most:
            break
    shards = state["shards"][:count]
    files = tuple(str(place / shard["file"]) for shard in shards)
    if not all(os.path.isfile(file) for file in files):
        return None
    origin = {key: state[key] for key in ("id", "revision", "config", "split")}
    what = data.field if state["revision"] else [shard["sha256"] for shard in shards]
    return Fetched(files, ["hub", *origin.values(), what], origin)


def _place(data: Data, cache: Path) -> Path:
    name = str(hub_id(data.corpus))
    return cache / "hub" / f"{name.replace('/', '--')}-{key_of([name, data.config, data.split, data.field])[:12]}"


def _state(place: Path) -> dict[str, Any] | None:
    with contextlib.suppress(OSError, ValueError):
        state = json.loads((place / "state.json").read_text(encoding="utf-8"))
        return state if isinstance(state, dict) and "shards" in state else None
    return None


def _enough(state: dict[str, Any], most: int | None) -> bool:
    """Whether all of it is there, or more than a study that is bounded reads."""
    return bool(state["complete"]) or (most is not None and sum(shard["bytes"] for shard in state["shards"]) > most)


# --- streaming


def _open(package: Any, name: str, revision: str | None, data: Data) -> _Source:
    """The data set as a stream. Raises DataError for an id, a configuration or a split that the hub does not have."""
    plain, _, asked = name.partition("@")
    try:
        commit = _commit(plain, revision or asked or None)
        builder = package.load_dataset_builder(plain, data.config, revision=commit or revision or asked or None)
    except package.exceptions.DatasetNotFoundError as error:
        raise DataError(
            f"{plain} cannot be had from the hub ({_first_line(error)})",
            "a data set on the hub is public, or this machine is logged in to an account that may read it",
            "check the id on huggingface.co/datasets, or log in: hf auth login",
        ) from None
    except ValueError as error:
        configs = package.get_dataset_config_names(plain, revision=revision or asked or None)
        if data.config not in configs:
            raise no_config(plain, data.config, configs) from None
        raise DataError(
            f"{plain} cannot be read ({_first_line(error)})", "a data set is readable by `datasets`", "check its page"
        ) from None
    try:
        dataset = builder.as_streaming_dataset(split=data.split)
    except ValueError:
        splits = list(builder.info.splits or builder.config.data_files or ())
        raise no_split(plain, data.split, splits) from None
    known = (builder.info.splits or {}).get(data.split)
    return _Source(dataset, commit, builder.config.name, getattr(known, "num_bytes", None) or None)


def _commit(name: str, revision: str | None) -> str | None:
    """The commit that the hub has under a revision (default: the newest)."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError

    try:
        return HfApi().dataset_info(name, revision=revision, timeout=20).sha
    except (RepositoryNotFoundError, GatedRepoError):
        return None  # `datasets` says which
    except RevisionNotFoundError:
        raise DataError(
            f"{name} has no revision {revision!r}", "a revision is a branch, a tag or a commit", f"leave @{revision} out"
        ) from None


def _gather(place: Path, data: Data, name: str, open_source: Callable[[str | None], _Source], progress: Progress | None) -> None:
    """Stream into shards, from where an earlier gathering stopped, until there is enough."""
    place.mkdir(parents=True, exist_ok=True)
    state = _state(place) or {
        "id": name, "revision": None, "config": data.config, "split": data.split, "field": data.field, "shards": [], "complete": False,
        "at": None,
    }  # fmt: skip
    for scratch in place.glob(".*.parquet"):
        scratch.unlink()
    try:
        source = open_source(state["revision"])
        state |= {"revision": source.revision or state["revision"], "config": source.config or data.config}
        if state["shards"] and state["shards"][-1]["open"]:  # it was closed early, for `most`: it is streamed again, to its full size
            state["shards"].pop()
        _pull(place, state, source, data, name, progress)
    except DataError:
        raise
    except Exception as error:  # the libraries under `datasets` have no common one for a line that broke, and what came is kept
        done = sum(shard["documents"] for shard in state["shards"])
        raise DataError(
            f"{name} broke off ({type(error).__name__}: {_first_line(error)})",
            f"a data set is streamed once; {done:,} rows of it are kept in {place}",
            "give the same command again: it goes on from there",
        ) from None


def _pull(place: Path, state: dict[str, Any], source: _Source, data: Data, name: str, progress: Progress | None) -> None:
    dataset = source.dataset.with_format("arrow")
    if state["at"] is not None:
        dataset.load_state_dict(state["at"])
    had = sum(shard["bytes"] for shard in state["shards"])
    documents = sum(shard["documents"] for shard in state["shards"])
    total, said = min(size for size in (data.most, source.bytes, 1 << 62) if size is not None), 0.0
    batches = dataset.iter(batch_size=_ROWS)
    while not _enough(state, data.most):
        file = f"{len(state['shards']):05}.parquet"
        with _Shard(place / file) as shard:
            for batch in batches:
                if data.field not in batch.column_names:
                    raise no_field(f"{name}, row {documents + 1}", data.field, batch.column_names)
                shard.add(batch.column(data.field), f"{name}, {data.field}")
                documents += batch.num_rows
                if progress and time.monotonic() - said > _SAID:
                    said = time.monotonic()
                    done = had + shard.bytes
                    progress(f"streaming {name}: {documents:,} rows, {_size(done)}{'' if total >> 62 else f' of {_size(total)}'}",
                             *((0, 1) if total >> 62 else (min(done, total), total)))  # fmt: skip
                full = shard.bytes >= SHARD_BYTES
                if full or (data.most is not None and had + shard.bytes > data.most):
                    break
            else:
                full, state["complete"] = True, True
        had += shard.bytes
        if shard.rows:
            state["shards"].append({"file": file, "documents": shard.rows, "bytes": shard.bytes, "sha256": shard.sha256, "open": not full})
        else:
            (place / file).unlink()
        if full:
            state["at"] = dataset.state_dict()
        write_atomic(place / "state.json", json.dumps(state, indent=1))


class _Shard:
    """A Parquet file while it is being written: it has its name when it is whole. `bytes` counts the text that is not dropped as empty."""

    def __init__(self, file: Path):
        self.file, self.scratch, self.rows, self.bytes = file, file.with_name(f".{file.name}"), 0, 0
        self._digest, self._counts = hashlib.sha256(), Counter()

    def __enter__(self) -> _Shard:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self._schema = pa.schema([("text", pa.large_string())])
        self._writer = pq.ParquetWriter(self.scratch, self._schema, compression="zstd", use_dictionary=False)
        return self

    def add(self, column: Any, where: str) -> None:
        """Rows of text; null stays null. Raises DataError for a column of another type."""
        import pyarrow as pa

        kind = column.type
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind) or pa.types.is_null(kind)):
            raise DataError(f"{where} holds {kind}, not text", "the field holds the text of a document", "set `field` to the one that does")
        raw = column.cast(pa.large_string()).cast(pa.large_binary())
        for value in raw.to_pylist():
            self._digest.update(b"\0" if value is None else b"\1" + len(value).to_bytes(8, "little") + value)
            document = None if value is None else clean(utf8(value, self._counts), self._counts)
            self.bytes += len(document or b"")
        self.rows += len(column)
        text = raw.cast(pa.large_string(), safe=False)
        chunks = text.chunks if isinstance(text, pa.ChunkedArray) else [text]
        self._writer.write_table(pa.table([pa.chunked_array(chunks, pa.large_string())], schema=self._schema))

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def __exit__(self, kind: Any, *_: Any) -> None:
        self._writer.close()
        if kind is None:
            with open(self.scratch, "rb") as handle:
                os.fsync(handle.fileno())
            os.replace(self.scratch, self.file)
        else:
            self.scratch.unlink(missing_ok=True)


def _package(name: str) -> Any:
    try:
        import datasets
    except ImportError:
        raise DataError(
            f"{name} is a data set on the hub, and the package `datasets` is not installed",
            "data sets are streamed from the hub by `datasets`, an extra",
            "pip install 'ostinato[hub]'",
        ) from None
    datasets.disable_progress_bars()
    return datasets


def _no_network(data: Data, name: str, why: str) -> DataError:
    plain, _, revision = name.partition("@")
    folder = plain.split("/")[1]
    keys = {"config": data.config, "split": None if data.split == "train" else data.split, "join": data.join, "field": data.field}
    shown = {key: value for key, value in keys.items() if value is not None and (key, value) != ("field", "text")}
    inside = ", ".join([f"corpus: ./{folder}", *(f"{key}: {value}" for key, value in shown.items())])
    fetched = f"hf download {plain} --repo-type dataset{f' --revision {revision}' if revision else ''} --local-dir {folder}"
    return DataError(
        f"{name} is a data set on the hub, which cannot be reached from here ({why}), and none of it is on this machine",
        "a data set is streamed from the hub, or read from a folder on this machine",
        f"where there is a network: {fetched}   then bring that folder here, and write   data: {{{inside}}}",
    )


def _gone(place: Path) -> Fetched:
    raise DataError(f"{place} is not as it was written", "nothing else writes there", f"rm -r {place}   then give the same command again")


def _size(count: int) -> str:
    return f"{count / 1e9:.2f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [""])[0][:200]
