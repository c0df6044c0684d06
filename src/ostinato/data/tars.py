"""Documents out of tar files, laid out as WebDataset does or any other way: each .txt member is one, or the field of a .json member.

Members that share the path up to the first dot of their name, and follow each other, are one sample (webdataset: `00017.txt` and
`00017.json`). Its text is its .txt member, else the field of its .json member. A .jsonl member holds a document a line. Members of
any other kind are left out and counted by what their names end with, hidden ones passed over. Nothing but one sample is held in memory.
"""

from __future__ import annotations

import posixpath
import tarfile
from collections.abc import Iterator
from pathlib import Path

from ostinato.data.encodings import Utf8, is_utf8_name
from ostinato.data.readers import Reading, between, json_lines, json_value
from ostinato.data.unpack import JSONL, TEXT, opened
from ostinato.errors import DataError

_BLOCK = 512


def members(file: Path, packing: str | None, how: Reading) -> Iterator[bytes]:
    """The documents of a tar file. Raises DataError for one that is cut off, or holds no text at all."""
    fix, found, met = Utf8(file, how.counts, forgive=is_utf8_name(how.encoding), recodes=False), 0, how.left_out.copy()
    try:
        with opened(file, packing, how.meter) as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
            for document in _documents(file, archive, fix, how):
                found += 1
                yield document
    except tarfile.TarError as error:
        raise _cut(file, str(error)) from None
    if packing is None:
        _check_end(file)
    fix.end()
    if not found:
        seen = ", ".join(f"{count} {end}" for end, count in (how.left_out - met).most_common(5)) or "no members"
        raise DataError(
            f"{file} holds no text ({seen})",
            f"in a tar file, text is in members that end with {', '.join((*TEXT, *JSONL, '.json'))}",
            "name another file, or take this one out of the folder",
        )


def _documents(file: Path, archive: tarfile.TarFile, fix: Utf8, how: Reading) -> Iterator[bytes]:
    sample, has_text, waiting = "", False, None  # waiting: the .json member of the sample, until it is known whether it has a .txt
    for member in archive:
        archive.members = []  # the library would keep them all
        if not member.isfile():
            continue
        folder, name = posixpath.split(member.name)
        if name.startswith("."):  # as in a folder; macOS puts one with its own notes, ._name, beside every file
            continue
        stem, dot, end = name.partition(".")
        key, end = f"{folder}/{stem}", (dot + end).lower()
        if key != sample:
            if waiting and not has_text:
                yield from _json(*waiting, fix, how)
            sample, has_text, waiting = key, False, None
        where = f"{file}, member {member.name}"
        if end.endswith(TEXT):
            has_text = True
            for piece in between(archive.extractfile(member), how.separator):
                yield fix(piece, lambda at, piece=piece, name=member.name: f"member {name}, line {piece.count(10, 0, at) + 1}")
        elif end.endswith(JSONL):
            yield from json_lines(archive.extractfile(member), where, fix, how)
        elif end.endswith(".json"):
            waiting = (archive.extractfile(member).read(), where)
        else:
            how.left_out["." + end.rpartition(".")[2] if dot else name] += 1
    if waiting and not has_text:
        yield from _json(*waiting, fix, how)


def _json(content: bytes, where: str, fix: Utf8, how: Reading) -> Iterator[bytes]:
    name = where.partition(", ")[2]
    return json_value(fix(content, lambda at: f"{name}, line {content.count(10, 0, at) + 1}"), where, how, unit="member")


def _check_end(file: Path) -> None:
    """A tar file ends with blocks of zeros; one that was cut off between two members reads like a whole one without them."""
    size = file.stat().st_size
    with open(file, "rb") as handle:
        handle.seek(max(0, size - _BLOCK))
        if size % _BLOCK or handle.read().strip(b"\0"):
            raise _cut(file, "it does not end with a block of zeros")


def _cut(file: Path, why: str) -> DataError:
    fix = "fetch or write the file again: it was cut off"
    return DataError(f"{file} is no whole tar file ({why})", "a tar file is complete, to its end mark", fix)
