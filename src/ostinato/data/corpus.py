"""What `corpus:` names: a shipped corpus, a file, a folder or a data set on the hub; its files in order, its identity, its documents."""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from dataclasses import field as default
from itertools import chain
from pathlib import Path
from typing import Any

from ostinato.data import hub, python_docs
from ostinato.data.encodings import check_encoding
from ostinato.data.layout import Layout, layout
from ostinato.data.once import key_of
from ostinato.data.policies import clean
from ostinato.data.readers import Reading, documents, joined, raw_rows
from ostinato.data.unpack import ARROW, JSONL, KINDS, PARQUET, TAR, kind_of
from ostinato.errors import DataError
from ostinato.files import lock, write_atomic
from ostinato.study.derive import expanded
from ostinato.study.ready import CORPORA, READY, hub_id
from ostinato.study.records import Data

Progress = Callable[[str, int, int], None]
_SETTLED = 2 * 10**9  # ns: a file younger than this may change again within one tick of its clock, so its hash is not remembered
_NO_TEXT = (".json", ".csv", ".tsv", ".zip", ".pdf")  # read as text, they would train a model on their punctuation
_SAID = 0.2  # seconds between two words of progress


@dataclass(frozen=True)
class Corpus:
    """Files of one kind, read in this order. `identity` is the sha256 of their bytes and of how they are read.

    one_stream: where one file ends and the next begins means nothing (the shards of a data set), so that lines are joined across them.
    origin: what was chosen of a data set, for the manifest; left_out: files that are not read, by suffix.
    sha256: of the bytes alone; looks: what the files were like just before (sizes, times).
    """

    name: str
    files: tuple[str, ...]
    field: str
    separator: str | None
    identity: str
    bytes: int
    join: int | None = None
    encoding: str | None = None
    most: int | None = None
    one_stream: bool = False
    origin: dict[str, Any] = default(default_factory=dict)
    left_out: Counter[str] = default(default_factory=Counter)
    sha256: str = ""
    looks: str = ""

    def unchanged(self) -> bool:
        """Whether its files are still those that were hashed."""
        if not self.sha256:
            return True
        try:
            return key_of(_stats(self.files)) == self.looks or _hashed(self.files, None) == self.sha256
        except (OSError, DataError):
            return False

    def documents(self, counts: Counter[str], place: Place | None = None) -> Iterator[bytes]:
        """Every document as UTF-8, after the policies, always in the same order. place: is told how far it has come."""
        place = place or Place()
        how = Reading(self.field, self.separator, self.encoding, None if self.one_stream else self.join, counts)
        place.begin(how)
        taken = 0
        for document in self._documents(how, place):
            taken += len(document)
            if self.most is not None and taken > self.most:
                if taken == len(document):
                    raise DataError(
                        f"the first document has {taken:,} bytes, more than most: {self.most:,}",
                        "most is filled with whole documents",
                        f"most: {taken}, or more",
                    )
                beyond: Counter[str] = Counter()
                clean(document, beyond)
                counts.subtract(beyond)
                return
            yield document

    def _documents(self, how: Reading, place: Place) -> Iterator[bytes]:
        files = place.files(self.files)
        if not self.one_stream:
            for file in files:
                yield from documents(Path(file), how)
            return
        for text in joined(chain.from_iterable(raw_rows(Path(file), how) for file in files), self.join):
            document = clean(text, how.counts)
            if document is not None:
                yield document


class Place:
    """How far reading has come: `bytes` of the files, and members of tar files that were left out."""

    def __init__(self) -> None:
        self.done = self.size = self.number = 0
        self.how = Reading()

    def begin(self, how: Reading) -> None:
        self.done = self.size = self.number = 0
        self.how = how

    def files(self, names: tuple[str, ...]) -> Iterator[str]:
        """The names, as they are taken."""
        for number, name in enumerate(names):
            self.done, self.number, self.size = self.done + self.size, number, 0
            with contextlib.suppress(OSError):
                self.size = os.stat(name).st_size
            self.how.meter.start(None, 0)
            yield name
        self.done, self.size = self.done + self.size, 0

    @property
    def bytes(self) -> int:
        """Of all files, read so far."""
        return self.done + round(self.how.meter.share * self.size)


def remembered(data: Data, cache: Path) -> bool:
    """Whether `find` need neither gather nor hash: the text is there, and nothing about its files has changed since it was hashed."""
    if data.corpus in CORPORA:
        file = gathered(data.corpus, cache)
        return file.exists() and _memory((str(file),), cache, [])[0].exists()
    path = expanded(data.corpus)
    if is_on_hub(data):
        return hub.gathered(data, cache) is not None
    if not path.exists():
        return False
    files = layout(path, data.config, data.split, data.most is None).files if path.is_dir() else (str(path),)
    return _memory(files, cache, _reach_key(data))[0].exists()


def find(data: Data, cache: Path, progress: Progress | None = None) -> Corpus:
    """The corpus that `data` names; text that must be gathered or streamed from the hub is gathered first. Raises DataError."""
    name = data.corpus
    if name in CORPORA:
        file = _gathered(name, cache, progress)
        return _corpus(Layout((str(file),), "JSONL"), Data(corpus=name, most=data.most), cache, progress)
    if data.separator == "":
        raise DataError(
            "separator is empty",
            "a separator is the text between two documents",
            'leave it out, or write for example separator: "<|endoftext|>"',
        )
    check_encoding(data.encoding)
    path = expanded(name)
    if name not in READY:
        try:
            found = _local(path, data, cache, progress)
        except OSError as error:
            raise DataError(
                f"{error.filename or path} cannot be read: {error.strerror}",
                "a corpus is readable, and so is the folder that it lies in",
                "check its permissions",
            ) from None
        if found:
            return found
    if is_on_hub(data):
        return _streamed(data, cache, progress)
    raise _missing(name)


def _local(path: Path, data: Data, cache: Path, progress: Progress | None) -> Corpus | None:
    """A file or a folder of this machine; None where there is nothing."""
    if path.is_dir():
        return _corpus(layout(path, data.config, data.split, data.most is None), data, cache, progress)
    if path.is_file():
        if data.config is not None or data.split != "train":
            key, value = ("config", data.config) if data.config is not None else ("split", data.split)
            raise DataError(f"{path} is one file, and has no {key} {value!r}", f"a {key} is of a data set", f"leave {key} out")
        kind, packing = kind_of(path.name)
        inside = path.stem if packing else path.name
        if kind is None and (kind_of(inside)[0] or os.path.splitext(inside)[1].lower() in _NO_TEXT):
            raise DataError(
                f"{path} is not read as text",
                f"a file is text, or {', '.join((*JSONL, *PARQUET, *ARROW, *TAR))}; text, JSONL and tar files also packed",
                "unpack it, and name what was in it"
                if packing or path.suffix.lower() == ".zip"
                else f'write it as JSONL, one {{"{data.field}": "…"}} a line; if it is that already, let its name end with .jsonl',
            )
        return _corpus(Layout((str(path),), kind or "text"), data, cache, progress)
    if path.exists():  # a pipe or a device: it could be read once, or without end
        raise DataError(f"{path} is neither a file nor a folder", "text is read more than once", "write it to a file, and name that")
    return None


def is_on_hub(data: Data) -> bool:
    """Whether the corpus is a data set on the hub, and no file or folder here."""
    name = data.corpus
    return name in READY or (not expanded(name).exists() and hub_id(name) is not None and kind_of(name)[0] is None)


def _streamed(data: Data, cache: Path, progress: Progress | None) -> Corpus:
    found = hub.fetch(data, cache, progress)
    if found.found is not None:  # another program's cache has the files themselves
        files = found.found
        return _corpus(Layout(files.files, files.kind, files.left_out, {**files.card, **found.origin}), data, cache, progress)
    how = _how("Parquet", data.model_copy(update={"field": "text"}))
    identity = hashlib.sha256(json.dumps([found.content, how]).encode()).hexdigest()
    size = sum(os.stat(file).st_size for file in found.files)
    return Corpus(
        data.corpus, found.files, "text", None, identity, size, data.join, None, data.most, True, {**found.origin, "field": data.field}
    )


def _missing(name: str) -> DataError:
    near = difflib.get_close_matches(name, (*CORPORA, *READY), 1, 0.6)
    rule = f"a corpus is {', '.join((*CORPORA, *READY))}, a file or folder, or an id on the hub, owner/name"
    if near:
        return DataError(f"no corpus {name!r}", rule, f"did you mean {near[0]}?")
    return DataError(f"{name} does not exist", rule, "check the path; it counts from the study file's folder")


def gathered(name: str, cache: Path) -> Path:
    """The file of a shipped corpus, whether or not it has been gathered yet."""
    return cache / "corpora" / f"{python_docs.key(name)}.jsonl"


def _gathered(name: str, cache: Path, progress: Progress | None) -> Path:
    file = gathered(name, cache)
    if not file.exists():
        with lock(file.with_suffix(".lock")):
            if not file.exists():
                rows = python_docs.gather(name, progress)
                write_atomic(file, "".join(json.dumps({"name": title, "text": text}) + "\n" for title, text in rows))
    return file


def _how(kind: str, data: Data) -> list[Any]:
    """How the files are read, as far as their documents depend on it."""
    if kind in ("text", "Markdown"):
        how: list[Any] = ["text", data.separator]
    elif kind == "tar":
        how = [".tar", data.field, data.separator]
    else:
        how = [KINDS[kind][0], data.field]
    further = {"join": data.join, "encoding": data.encoding, "most": data.most}
    return how + [[key, value] for key, value in further.items() if value is not None]


def _reach_key(data: Data) -> list[Any]:
    """What the number of files that `most` reaches depends on, beside the files."""
    return [] if data.most is None else [data.field, data.separator, data.join, data.encoding, data.most]


def _corpus(chosen: Layout, data: Data, cache: Path, progress: Progress | None) -> Corpus:
    """Hash the files, or recall their hash while nothing about them has changed (path, size, times, inode)."""
    how = _how(chosen.kind, data)
    if KINDS[chosen.kind][0] == ".jsonl" and chosen.files[0].lower().endswith(".ndjson"):
        how[0] = ".ndjson"
    corpus = Corpus(
        data.corpus, chosen.files, data.field, data.separator, "", 0, data.join, data.encoding, data.most,
        origin=dict(chosen.card), left_out=chosen.left_out,
    )  # fmt: skip
    memory, stats = _memory(chosen.files, cache, _reach_key(data))
    known: dict[str, Any] = {}
    with contextlib.suppress(OSError, ValueError):
        known = json.loads(memory.read_text())
    if not isinstance(known, dict) or "sha256" not in known:
        count = _reach(corpus, progress) if data.most is not None and len(chosen.files) > 1 else len(chosen.files)
        known = {"sha256": _hashed(chosen.files[:count], progress), "files": count}
        if max(max(stat[2:4]) for stat in stats) < time.time_ns() - _SETTLED:
            with contextlib.suppress(OSError):  # a cache that may only be read
                write_atomic(memory, json.dumps(known | {"of": stats[:20]}))
    count = known["files"] if isinstance(known.get("files"), int) else len(chosen.files)
    identity = hashlib.sha256(json.dumps([known["sha256"], how]).encode()).hexdigest()
    size = sum(stat[1] for stat in stats[:count])
    return replace(corpus, files=corpus.files[:count], identity=identity, bytes=size, sha256=known["sha256"], looks=key_of(stats[:count]))


def _hashed(files: tuple[str, ...], progress: Progress | None) -> str:
    """sha256 over the sha256 of each file."""
    digest, said = hashlib.sha256(), 0.0
    for done, file in enumerate(files):
        if progress and time.monotonic() - said > _SAID:
            said = time.monotonic()
            progress("hashing the corpus", done, len(files))
        try:
            with open(file, "rb") as handle:
                digest.update(hashlib.file_digest(handle, "sha256").digest())
        except OSError as error:
            raise DataError(
                f"{file} cannot be read: {error.strerror}", "every file of a corpus is readable", "check its permissions"
            ) from None
    return digest.hexdigest()


def _reach(corpus: Corpus, progress: Progress | None) -> int:
    """How many of the files `most` reaches into."""
    place, taken, said = Place(), 0, 0.0
    for document in corpus.documents(Counter(), place):
        taken += len(document)
        if progress and time.monotonic() - said > _SAID:
            said = time.monotonic()
            progress("finding how far most reaches", min(taken, corpus.most or 0), corpus.most or 0)
    return place.number + 1


def _memory(files: tuple[str, ...], cache: Path, reach: list[Any]) -> tuple[Path, list[tuple[str, int, int, int, int]]]:
    """Where the hash of these files as they are now is kept, and what of them it is kept under."""
    stats = _stats(files)
    return cache / "hashes" / f"{key_of([stats, reach] if reach else stats)}.json", stats


def _stats(files: tuple[str, ...]) -> list[tuple[str, int, int, int, int]]:
    """Path, size, times and inode of each file."""
    folders: dict[str, str] = {}
    stats = []
    for file in files:
        folder, name = os.path.split(file)
        if folder not in folders:
            folders[folder] = os.path.realpath(folder)
        stat = os.stat(file)
        stats.append((os.path.join(folders[folder], name), stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino))
    return stats
