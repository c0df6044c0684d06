"""Rows of context + 1 tokens out of a part's documents, packed once and cached.

contiguous: one unbroken stream; row i is tokens i*context .. i*context + context, so that every token but the first is a target once.
            A row may begin in the middle of a document. What does not fill a row at the end is left out.
best-fit:   every row begins with BOS. Of the documents in a buffer, take the largest that fits what is left of the row; when none
            fits, crop the shortest to fill it, and drop its remainder (as the trainers that seed the loop2 study do). Of documents
            equally long, the earlier. What does not fill a row at the end is left out.

A `training_share` below 1 leaves only some of the training documents: in the order of their hash until the share of the bytes is
reached, so that smaller shares are within larger ones and the same for every tokenizer. They keep the order of the text.
"""

from __future__ import annotations

import itertools
import json
from array import array
from bisect import bisect_left, insort
from pathlib import Path

import numpy as np

from ostinato.data.once import key_of, once
from ostinato.data.prepared import Prepared, check_files, checksums
from ostinato.errors import DataError
from ostinato.files import write_atomic

_VERSION = 1
_CHUNK = 1 << 22  # tokens gathered at a time


def rows(prepared: Prepared, part: str, context: int) -> np.ndarray:
    """The packed rows of a part: [N, context + 1], read-only, memory-mapped (contiguous rows overlap by one token in memory).

    Raises DataError when the part is shorter than one row.
    """
    if context < 1:
        raise DataError(f"context {context}", "a row has at least one target", "set context to 1 or more")
    width, contiguous = context + 1, prepared.data.packing == "contiguous"
    if contiguous and _whole(prepared, part):
        stream = prepared.tokens(part)
    else:
        stream = np.load(_packed(prepared, part, context) / ("stream.npy" if contiguous else "rows.npy"), mmap_mode="r")
    if (len(stream) < width) if contiguous else not len(stream):
        length = int(np.diff(prepared.doc_starts(part))[kept_documents(prepared, part)].sum())
        share = "" if _whole(prepared, part) else f" in a training_share of {prepared.data.training_share:g}"
        few = "fewer than one row" if length < width else "which best-fit packs into no row"
        raise DataError(
            f"the {part} part has {length:,} tokens{share}, {few} of {width:,}",
            "a row is context + 1 tokens",
            "give more text, a larger share for this part, or a smaller context",
        )
    return np.lib.stride_tricks.sliding_window_view(stream, width)[::context] if contiguous else stream


def kept_documents(prepared: Prepared, part: str) -> np.ndarray:
    """The documents of a part that are used, ascending: int64 [K]. All, but for a training share below 1, which takes at least one."""
    starts = prepared.doc_starts(part)
    if _whole(prepared, part):
        return np.arange(len(starts) - 1)
    stream, sizes = prepared.tokens(part), np.zeros(len(starts) - 1, np.int64)
    edges = np.unique(np.append(np.searchsorted(starts, np.arange(0, starts[-1], _CHUNK)), len(starts) - 1))  # whole documents at a time
    for first, last in itertools.pairwise(edges.tolist()):
        within = prepared.token_bytes[stream[starts[first] : starts[last]]]
        sizes[first:last] = np.add.reduceat(within, starts[first:last] - starts[first], dtype=np.int64)
    order = np.argsort(prepared.doc_digests(part), kind="stable")
    before = np.cumsum(sizes[order]) - sizes[order]
    return np.sort(order[before < prepared.data.training_share * sizes.sum()])


def _whole(prepared: Prepared, part: str) -> bool:
    return part != "train" or prepared.data.training_share == 1


def origins(prepared: Prepared, part: str, context: int) -> np.ndarray:
    """Where in the part's stream each cell of `rows` comes from: int64 [N, context + 1]."""
    count = len(rows(prepared, part, context))
    contiguous, whole = prepared.data.packing == "contiguous", _whole(prepared, part)
    places = np.arange(count)[:, None] * context + np.arange(context + 1)
    if contiguous and whole:
        return places
    sources = _sources(np.load(_packed(prepared, part, context) / "segments.npy"))
    return sources[places] if contiguous else sources.reshape(count, context + 1)


def best_fit(lengths: np.ndarray, width: int, buffer: int) -> np.ndarray:
    """(document, tokens taken) in the order in which they fill rows of `width`: int64 [S, 2]; the last row is full.

    lengths: tokens of each document, BOS included.
    """
    documents, taken = array("q"), array("q")
    waiting: list[int] = []  # length << 40 | document, sorted: the documents in the buffer
    following, room, whole = 0, width, 0
    sizes = lengths.tolist()
    while True:
        while len(waiting) < buffer and following < len(sizes):
            insort(waiting, sizes[following] << 40 | following)
            following += 1
        if not waiting:
            break
        place = bisect_left(waiting, (room + 1) << 40) - 1  # the largest that fits, of these the latest
        if place >= 0:
            place = bisect_left(waiting, waiting[place] >> 40 << 40)  # and of equally long ones the earliest
            entry = waiting.pop(place)
            length = entry >> 40
        else:
            entry = waiting.pop(0)
            length = room
        documents.append(entry & (1 << 40) - 1)
        taken.append(length)
        room -= length
        if not room:
            room, whole = width, len(documents)
    return np.stack([np.array(documents[:whole], np.int64), np.array(taken[:whole], np.int64)], 1)


def is_packed(prepared: Prepared, part: str, context: int) -> bool:
    """Whether `rows` finds its answer made already."""
    if prepared.data.packing == "contiguous" and _whole(prepared, part):
        return True
    return (_place(prepared, part, context)[1] / "manifest.json").exists()


def _place(prepared: Prepared, part: str, context: int) -> tuple[list, Path]:
    """What packed rows follow from, and the folder named for that."""
    data = prepared.data
    given: list = [_VERSION, prepared.text_fingerprint, part, context, data.buffer]
    if not _whole(prepared, part):  # the stream of a share is the same for every context
        given = [*given, data.training_share] if data.packing == "best-fit" else [_VERSION, prepared.text_fingerprint, data.training_share]
    return given, prepared.cache / "packed" / key_of(given)


def _packed(prepared: Prepared, part: str, context: int) -> Path:
    """The folder with rows.npy [N, context + 1], or stream.npy [L] of a contiguous share, and segments.npy [S, 2] = (start in the
    stream of the part, tokens); made when missing."""
    given, path = _place(prepared, part, context)

    def make(folder: Path) -> None:
        _pack(folder, prepared, part, context)
        write_atomic(folder / "manifest.json", json.dumps({"given": given, "files": checksums(folder)}))

    once(path, make)
    try:
        files = json.loads((path / "manifest.json").read_text())["files"]
    except (OSError, ValueError, KeyError) as error:
        raise DataError(
            f"{path / 'manifest.json'} cannot be read ({error})", "packed rows come with their manifest", f"rm -r {path}   then try again"
        ) from None
    check_files(path, files)
    return path


def _pack(folder: Path, prepared: Prepared, part: str, context: int) -> None:
    starts, kept = prepared.doc_starts(part), kept_documents(prepared, part)
    lengths = np.diff(starts)[kept]
    if prepared.data.packing == "contiguous":
        segments = np.stack([starts[kept], lengths], 1)
        file, shape = "stream.npy", (int(lengths.sum()),)
    else:
        picked = best_fit(lengths, context + 1, prepared.data.buffer)
        segments = np.stack([starts[kept[picked[:, 0]]], picked[:, 1]], 1)
        file, shape = "rows.npy", (int(segments[:, 1].sum()) // (context + 1), context + 1)
    np.save(folder / "segments.npy", segments)
    _gather(folder / file, shape, segments, prepared.tokens(part))


def _gather(file: Path, shape: tuple[int, ...], segments: np.ndarray, stream: np.ndarray) -> None:
    """Write the tokens of the segments, one after the other, as an array of this shape."""
    if not shape[0]:
        np.save(file, np.zeros(shape, stream.dtype))
        return
    out = np.lib.format.open_memmap(file, "w+", stream.dtype, shape)
    flat = out.reshape(-1)
    ends = np.cumsum(segments[:, 1])
    first = done = 0
    while done < len(flat):
        last = max(first + 1, int(np.searchsorted(ends, done + _CHUNK, "right")))
        upto = int(ends[last - 1])
        flat[done:upto] = stream[_sources(segments[first:last])]
        first, done = last, upto
    out.flush()


def _sources(segments: np.ndarray) -> np.ndarray:
    """The stream index of every token of consecutive segments: int64 [sum of their tokens]."""
    begins = np.cumsum(segments[:, 1]) - segments[:, 1]
    return np.repeat(segments[:, 0] - begins, segments[:, 1]) + np.arange(int(segments[:, 1].sum()))
