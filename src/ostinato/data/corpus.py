"""What `corpus:` names: a shipped corpus, a file or a folder; its files in order, its identity, and its documents."""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ostinato.data import python_docs
from ostinato.data.once import key_of
from ostinato.data.readers import JSONL, PARQUET, TEXT, documents
from ostinato.errors import DataError
from ostinato.files import lock, write_atomic
from ostinato.study.derive import expanded
from ostinato.study.ready import HUB_ID

Progress = Callable[[str, int, int], None]
_SETTLED = 2 * 10**9  # ns: a file younger than this may change again within one tick of its clock, so its hash is not remembered


@dataclass(frozen=True)
class Corpus:
    """Files of one kind, read in this order. `identity` is the sha256 of their bytes and of how they are read."""

    name: str
    files: tuple[Path, ...]
    field: str
    separator: str | None
    identity: str
    bytes: int

    def documents(self, counts: Counter[str]) -> Iterator[bytes]:
        """Every document as UTF-8, after the policies, always in the same order."""
        for file in self.files:
            yield from documents(file, self.field, self.separator, counts)


def remembered(name: str, cache: Path) -> bool:
    """Whether `find` need neither gather nor hash: the text is there, and nothing about its files has changed since it was hashed."""
    if name in python_docs.NAMES:
        file = gathered(name, cache)
        return file.exists() and _memory((file,), cache)[0].exists()
    path = expanded(name)
    return path.exists() and _memory(_folder(path) if path.is_dir() else (path,), cache)[0].exists()


def find(name: str, field: str, separator: str | None, cache: Path, progress: Progress | None = None) -> Corpus:
    """The corpus of that name; text that must be gathered is gathered first. Raises DataError."""
    if name in python_docs.NAMES:
        file = _gathered(name, cache, progress)
        return _corpus(name, (file,), "text", None, cache, progress)
    if separator == "":
        raise DataError(
            "separator is empty",
            "a separator is the text between two documents",
            'leave it out, or write for example separator: "<|endoftext|>"',
        )
    path = expanded(name)
    if path.is_dir():
        return _corpus(name, _folder(path), field, separator, cache, progress)
    if path.is_file():
        return _corpus(name, (path,), field, separator, cache, progress)
    if path.exists():  # a pipe or a device: it could be read once, or without end
        raise DataError(f"{path} is neither a file nor a folder", "text is read more than once", "write it to a file, and name that")
    raise _missing(name, field)


def _folder(folder: Path) -> tuple[Path, ...]:
    found: dict[str, list[Path]] = {"Parquet": [], "JSONL": [], "text": []}
    kinds = {suffix: kind for kind, suffixes in (("Parquet", PARQUET), ("JSONL", JSONL), ("text", TEXT)) for suffix in suffixes}
    others: Counter[str] = Counter()
    for file in sorted(folder.rglob("*"), key=lambda path: path.relative_to(folder).parts):
        if any(part.startswith(".") for part in file.relative_to(folder).parts) or not file.is_file():
            continue
        kind = kinds.get(file.suffix.lower())
        if kind:
            found[kind].append(file)
        else:
            others[file.suffix or file.name] += 1
    there = {kind: files for kind, files in found.items() if files}
    if not there:
        seen = ", ".join(f"{count} {suffix}" for suffix, count in others.most_common(5)) or "nothing"
        raise DataError(
            f"{folder} holds no text ({seen})",
            f"a folder holds {' or '.join((*TEXT, *JSONL, *PARQUET))} files",
            "name another folder, or one file",
        )
    if len(there) > 1:
        seen = ", ".join(f"{len(files)} {kind}" for kind, files in there.items())
        raise DataError(
            f"{folder} holds files of several kinds ({seen})",
            "a folder is read as one kind",
            "move one kind to a folder of its own, and name that",
        )
    return tuple(next(iter(there.values())))


def _missing(name: str, field: str) -> DataError:
    near = difflib.get_close_matches(name, python_docs.NAMES, 1, 0.6)
    if near:
        return DataError(f"no corpus {name!r}", "a corpus is python-docs, python-docs-plus, a file or a folder", f"did you mean {near[0]}?")
    if HUB_ID.fullmatch(name) and not name.startswith((".", "~")) and Path(name).suffix.lower() not in (*TEXT, *JSONL, *PARQUET):
        folder = name.split("/")[1]
        return DataError(
            f"{name} is not a file or folder here; it reads like the id of a data set on a hub",
            "ostinato downloads nothing: a corpus is a file or folder on this machine",
            f"hf download {name} --repo-type dataset --local-dir {folder}   then   data: {{corpus: {folder}, field: {field}}}",
        )
    return DataError(
        f"{name} does not exist",
        "a corpus is python-docs, python-docs-plus, a file or a folder",
        "check the path; it counts from the study file's folder",
    )


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


def _corpus(name: str, files: tuple[Path, ...], field: str, separator: str | None, cache: Path, progress: Progress | None) -> Corpus:
    """Hash the files, or recall their hash while nothing about them has changed (path, size, times, inode)."""
    memory, stats = _memory(files, cache)
    content = None
    with contextlib.suppress(OSError, ValueError, KeyError):
        content = json.loads(memory.read_text())["sha256"]
    if content is None:
        digest = hashlib.sha256()
        for done, file in enumerate(files):
            if progress:
                progress("hashing the corpus", done, len(files))
            try:
                with open(file, "rb") as handle:
                    digest.update(hashlib.file_digest(handle, "sha256").digest())
            except OSError as error:
                raise DataError(
                    f"{file} cannot be read: {error.strerror}", "every file of a corpus is readable", "check its permissions"
                ) from None
        content = digest.hexdigest()
        if max(max(stat[2:4]) for stat in stats) < time.time_ns() - _SETTLED:
            with contextlib.suppress(OSError):  # a cache that may only be read
                write_atomic(memory, json.dumps({"sha256": content, "files": stats}))
    text = files[0].suffix.lower() not in (*JSONL, *PARQUET)
    how = ["text", separator] if text else [files[0].suffix.lower(), field]
    identity = hashlib.sha256(json.dumps([content, how]).encode()).hexdigest()
    return Corpus(name, files, field, separator, identity, sum(stat[1] for stat in stats))


def _memory(files: tuple[Path, ...], cache: Path) -> tuple[Path, list[tuple[str, int, int, int, int]]]:
    """Where the hash of these files as they are now is kept, and what of them it is kept under."""
    stats = [(str(file.resolve()), *_stat(file)) for file in files]
    return cache / "hashes" / f"{key_of(stats)}.json", stats


def _stat(file: Path) -> tuple[int, int, int, int]:
    stat = file.stat()
    return stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino
