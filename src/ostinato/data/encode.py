"""Tokens of all documents in the order of the corpus, in one reading; and then into the parts.

While the tokenizer's threads encode one batch, the next is read and hashed and the one before is written. A tokenizer that is given needs
no other reading, since it is only afterwards that a document's part must be known. Every so much text what is done is flushed and noted.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections import Counter, deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ostinato.data.corpus import Corpus, Place, Progress
from ostinato.data.vocabulary import Vocabulary
from ostinato.data.work import DOCUMENT, ENCODED, Work, flush
from ostinato.errors import DataError
from ostinato.study.points import PARTS

BATCH_BYTES, BATCH_DOCUMENTS = 1 << 20, 4096  # what the library holds for a token is many times its text
COMMIT_BYTES = 32 << 20  # of text: what is encoded again after a kill
IN_FLIGHT = 3
_THREADS = 2  # one encodes while the results of another are taken over
_TOKENS = 1 << 22  # of the stream read at a time
_SAID = 0.1
_SPACE = np.zeros(256, bool)
_SPACE[list(b" \t\n\r\v\f")] = True


@dataclass
class _Batch:
    texts: list[bytes] = field(default_factory=list)
    records: list[bytes] = field(default_factory=list)
    size: int = 0


def stream(
    work: Work, corpus: Corpus, vocabulary: Vocabulary, dtype: str, counts: Counter[str], place: Place, progress: Progress | None
) -> None:
    """Write `encoded` and `stream`, and `documents` unless the text has been scanned before. Raises DataError when the text has changed."""
    scanned = work.state["scan"] is not None
    total = work.state["scan"]["documents"] if scanned else 0
    state = work.state["encode"]
    special: Counter[str] = Counter(state["counts"])
    done, tokens, pending, said = state["documents"], state["tokens"], 0, 0.0
    with contextlib.ExitStack() as stack:
        encoded = stack.enter_context(work.writing("encoded", done * ENCODED.itemsize))
        out = stack.enter_context(work.writing("stream", tokens * np.dtype(dtype).itemsize))
        documents = None if scanned else stack.enter_context(work.writing("documents", done * DOCUMENT.itemsize))
        known = _Known(work, total if scanned else done)
        batches = _batches(corpus, counts, place, known, done, open_end=not scanned)
        for batch, (ids, lengths) in _in_flight(batches, vocabulary):
            records, flat = _finished(batch, ids, lengths, vocabulary, special)
            out.write(flat.astype(dtype, copy=False).tobytes())
            encoded.write(records.tobytes())
            if documents:
                documents.write(b"".join(batch.records))
            done, tokens, pending = done + len(records), tokens + len(flat), pending + batch.size
            if progress and time.monotonic() - said > _SAID:
                said = time.monotonic()
                progress("encoding", *((done, total) if scanned else (min(place.bytes, corpus.bytes), corpus.bytes)))
            if pending >= COMMIT_BYTES:
                flush(encoded, out, *([documents] if documents else []))
                work.state["encode"] = {"documents": done, "tokens": tokens, "counts": dict(special)}
                work.save()
                pending = 0
        if scanned and done != total:
            raise changed(corpus.name)
        flush(encoded, out, *([documents] if documents else []))
    counts.update(special)
    if not scanned:
        work.state["scan"] = {"documents": done}
    work.state["encode"] = {"documents": done, "tokens": tokens, "counts": dict(special)}
    work.save()
    if progress and done:
        progress("encoding", done, done)


class _Known:
    """The records of documents that were read before: a text that is read again is the same."""

    def __init__(self, work: Work, count: int):
        self._chunks = work.records("documents", DOCUMENT) if count else iter(())
        self.count, self._at, self._records = count, 0, b""

    def same(self, record: bytes) -> bool:
        """Whether the next one is this."""
        if self._at == len(self._records):
            self._records, self._at = next(self._chunks, np.zeros(0, DOCUMENT)).tobytes(), 0
        expected = self._records[self._at : self._at + DOCUMENT.itemsize]
        self._at += DOCUMENT.itemsize
        return expected == record


def record_of(document: bytes) -> bytes:
    """One `DOCUMENT`."""
    return hashlib.sha256(document).digest()[:16] + len(document).to_bytes(8, "little")


def _batches(corpus: Corpus, counts: Counter[str], place: Place, known: _Known, skip: int, open_end: bool) -> Iterator[_Batch]:
    """The documents after the first `skip`. Those that are known must be what they were; open_end: there may be more than these."""
    batch = _Batch()
    for number, document in enumerate(corpus.documents(counts, place)):
        record = record_of(document)
        if not (known.same(record) if number < known.count else open_end):
            raise changed(corpus.name)
        if number < skip:
            continue
        batch.texts.append(document)
        batch.records.append(record)
        batch.size += len(document)
        if batch.size >= BATCH_BYTES or len(batch.texts) >= BATCH_DOCUMENTS:
            yield batch
            batch = _Batch()
    if batch.texts:
        yield batch


def _in_flight(batches: Iterator[_Batch], vocabulary: Vocabulary) -> Iterator[tuple[_Batch, tuple[np.ndarray, np.ndarray]]]:
    """Every batch with its ids and the number of them in each document, in order, while the next ones are encoded."""
    _ = vocabulary.engine
    with ThreadPoolExecutor(_THREADS) as pool:
        waiting: deque = deque()
        try:
            for batch in batches:
                waiting.append((batch, pool.submit(vocabulary.encode_flat, [text.decode() for text in batch.texts])))
                if len(waiting) >= IN_FLIGHT:
                    first, result = waiting.popleft()
                    yield first, result.result()
            while waiting:
                first, result = waiting.popleft()
                yield first, result.result()
        finally:
            for _, result in waiting:
                result.cancel()


def _finished(
    batch: _Batch, ids: np.ndarray, lengths: np.ndarray, vocabulary: Vocabulary, special: Counter[str]
) -> tuple[np.ndarray, np.ndarray]:
    """The `ENCODED` records of a batch, and its tokens with BOS before every document."""
    ends = np.cumsum(lengths)
    starts = ends - lengths
    if (ids == vocabulary.bos).any():
        first = int(np.searchsorted(ends, int(np.argmax(ids == vocabulary.bos)), "right"))
        raise DataError(
            f"the tokenizer turns text into its BOS (id {vocabulary.bos}): {batch.texts[first][:60]!r}",
            "no text produces BOS, which alone marks where documents begin",
            "use a tokenizer whose BOS is a special token, or train one with tokenizer: {bpe: 8192}",
        )
    text = b"".join(batch.texts)
    sizes = np.array([len(document) for document in batch.texts], np.int64)
    spelt = np.concatenate([[0], np.cumsum(vocabulary.token_bytes[ids], dtype=np.int64)])
    records = np.zeros(len(sizes), ENCODED)
    records["tokens"] = lengths + 1
    records["words"] = _words(text, np.cumsum(sizes) - sizes)
    records["inexact"] = spelt[ends] - spelt[starts] != sizes + vocabulary.prefix
    literals = vocabulary.literals_in(text)
    special["special_literal"] += sum(any(literal in document for literal in literals) for document in batch.texts) if literals else 0
    return records, np.insert(ids, starts, np.uint32(vocabulary.bos))


def _words(text: bytes, starts: np.ndarray) -> np.ndarray:
    """Runs of bytes that are not white space, in each document [N]; none of them is empty."""
    space = _SPACE[np.frombuffer(text, np.uint8)]
    begins = ~space
    begins[1:] &= space[:-1]
    begins[starts] = ~space[starts]
    return np.add.reduceat(begins, starts, dtype=np.int64)


def distribute(folder: Path, work: Work, part_of: np.ndarray, dtype: str) -> dict[str, dict[str, int]]:
    """The stream into the parts' files of a prepared folder; returns what each came to."""
    totals = {part: dict.fromkeys(("documents", "tokens", "bytes", "words", "inexact"), 0) for part in PARTS}
    first = 0
    with contextlib.ExitStack() as stack:
        files = {
            (part, kind): stack.enter_context(open(folder / f"{part}.{kind}", "wb"))
            for part in PARTS
            for kind in ("tokens", "starts", "digests")
        }
        for part in PARTS:
            files[part, "starts"].write(np.zeros(1, "<i8").tobytes())
        tokens = stack.enter_context(open(work.file("stream"), "rb"))
        for documents, encoded in zip(work.records("documents", DOCUMENT), work.records("encoded", ENCODED), strict=True):
            of = np.asarray(part_of[first : first + len(documents)])
            first += len(documents)
            for number, part in enumerate(PARTS):
                chosen, said = of == number, totals[part]
                ends = said["tokens"] + np.cumsum(encoded["tokens"][chosen])
                files[part, "starts"].write(ends.astype("<i8").tobytes())
                files[part, "digests"].write(documents["digest"][chosen, 0].astype("<u8").tobytes())
                said["documents"] += int(chosen.sum())
                said["bytes"] += int(documents["bytes"][chosen].sum())
                for name in ("tokens", "words", "inexact"):
                    said[name] += int(encoded[name][chosen].sum(dtype=np.int64))
            for start, end in _stretches(encoded["tokens"]):
                lengths = encoded["tokens"][start:end]
                piece = np.frombuffer(tokens.read(int(lengths.sum()) * np.dtype(dtype).itemsize), dtype)
                owner = np.repeat(of[start:end], lengths)
                for number, part in enumerate(PARTS):
                    files[part, "tokens"].write(piece[owner == number].tobytes())
    return totals


def _stretches(lengths: np.ndarray) -> Iterator[tuple[int, int]]:
    """Consecutive documents that together have about _TOKENS tokens, or one that has more."""
    ends, start = np.cumsum(lengths), 0
    while start < len(lengths):
        before = int(ends[start - 1]) if start else 0
        end = max(start + 1, int(np.searchsorted(ends, before + _TOKENS, "right")))
        yield start, end
        start = end


def changed(name: str) -> DataError:
    """The error for a corpus that is not what it was when it was first read."""
    return DataError(
        f"{name} changed while it was being read",
        "a corpus stays as it is while it is prepared",
        "give the same command again when nothing writes there",
    )
