"""From text to shards: split by documents, train or load the tokenizer, encode, and write, once for all arms and studies.

The text is read three times where the tokenizer is trained (hash and measure the documents, train on the training part, encode) and
once where it is given (encode, and hash on the way); it is never held. What is done is kept in a folder of the cache until all of it is
(data/work.py), so that a preparation that was killed goes on; the result appears whole or not at all.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ostinato.data import hub
from ostinato.data import split as splitting
from ostinato.data.corpus import Corpus, Place, Progress, find, gathered, is_on_hub
from ostinato.data.encode import changed, distribute, record_of, stream
from ostinato.data.once import key_of, once
from ostinato.data.policies import RULES
from ostinato.data.prepared import MANIFEST, Prepared, checksums, open_prepared
from ostinato.data.vocabulary import Vocabulary, load, train, trained_before
from ostinato.data.work import Work, flush
from ostinato.errors import DataError
from ostinato.files import default_cache, write_atomic
from ostinato.study.derive import expanded
from ostinato.study.ready import CORPORA
from ostinato.study.records import Data

FORMAT = 1  # of the folder and of the rules that made it: another number is prepared anew
TOKENIZER_BYTES = 512 << 20  # a tokenizer is trained on about this much of the training part, whole documents picked by their hash
_SAID = 0.1


def prepare(data: Data, cache: Path | None = None, progress: Progress | None = None) -> Prepared:
    """The prepared text of `data`: found in the cache, or made there. Any number of processes may ask at once; one makes it.

    progress(stage, done, total) is called now and then.  Raises DataError for text, a tokenizer or shards that cannot be used.
    """
    cache = cache or default_cache()
    waiting = (lambda: progress("waiting for another process", 0, 1)) if progress else None
    try:
        corpus, vocabulary, given, path = _locate(data, cache, progress)
        work = cache / "work" / path.name
        once(path, lambda folder: _make(folder, work, corpus, data, vocabulary, given, progress), waiting)
    except OSError as error:  # a full disk, a cache that may not be written
        raise DataError(
            f"{error.filename or cache} cannot be written: {error.strerror or error}",
            "prepared text is kept in a cache folder",
            "make room there, or name another folder: export OSTINATO_CACHE=/a/folder",
        ) from None
    return open_prepared(path, data, cache)


def find_prepared(data: Data, cache: Path | None = None) -> Prepared | None:
    """The prepared text of `data` if it is in the cache already; nothing is made. Raises DataError as `prepare` does."""
    cache = cache or default_cache()
    if data.corpus in CORPORA and not gathered(data.corpus, cache).exists():
        return None
    if is_on_hub(data) and hub.gathered(data, cache) is None:
        return None
    path = _locate(data, cache, None)[3]
    return open_prepared(path, data, cache) if path.exists() else None


def _locate(data: Data, cache: Path, progress: Progress | None) -> tuple[Corpus, Vocabulary | None, dict[str, Any], Path]:
    """The corpus, the tokenizer if it is not to be trained, what the shards follow from, and the folder named for that."""
    corpus = find(data, cache, progress)
    vocabulary = load(expanded(data.tokenizer.file)) if data.tokenizer.file else None
    if vocabulary is None and data.tokenizer.bpe is None:
        raise DataError(
            "the study names no tokenizer",
            "a tokenizer is trained or read from a file",
            "set tokenizer: {bpe: 8192} or tokenizer: {file: tokenizer.json}",
        )
    given = {
        "format": FORMAT, "corpus": corpus.identity, "tokenizer": vocabulary.sha256 if vocabulary else data.tokenizer.bpe,
        "validation": data.validation, "held_out": data.held_out,
    }  # fmt: skip
    return corpus, vocabulary, given, cache / "prepared" / key_of(given)


def _make(
    folder: Path, work_path: Path, corpus: Corpus, data: Data, given_vocabulary: Vocabulary | None, given: dict[str, Any],
    progress: Progress | None,
) -> None:  # fmt: skip
    work = Work(work_path)
    counts: Counter[str] = Counter()
    place = Place()
    try:
        trained_on = None
        if given_vocabulary is None:
            counts.update(_scan(work, corpus, place, progress))
            part_of, counts["duplicate"] = _split(work, data)
            assert data.tokenizer.bpe
            vocabulary, trained_on = _trained(work, corpus, data.tokenizer.bpe, part_of, progress)
            again: Counter[str] = Counter()
            stream(work, corpus, vocabulary, _dtype(vocabulary), again, place, progress)
            counts["special_literal"] = again["special_literal"]
        else:
            vocabulary = given_vocabulary
            work.state["scan"] = None
            stream(work, corpus, vocabulary, _dtype(vocabulary), counts, place, progress)
            _refuse_none(work, corpus, counts)
            part_of, counts["duplicate"] = _split(work, data)
        parts = distribute(folder, work, part_of, _dtype(vocabulary))
        if not corpus.unchanged():
            raise changed(corpus.name)
    except DataError:  # the text or the tokenizer must change, so nothing of this is of use
        work.remove()
        raise
    write_atomic(folder / "tokenizer.json", vocabulary.json)
    write_atomic(folder / "token_bytes", vocabulary.token_bytes.astype("<i4").tobytes())
    files = checksums(folder)
    manifest = {
        "given": given,
        "corpus": {"name": corpus.name, "files": len(corpus.files), "bytes": corpus.bytes, "identity": corpus.identity,
                   "text_sha256": _text_sha256(work), "field": corpus.field, "separator": corpus.separator, "join": corpus.join,
                   "encoding": corpus.encoding, "most": corpus.most, "origin": corpus.origin,
                   "left_out": dict(corpus.left_out + place.how.left_out)},
        "tokenizer": {"sha256": vocabulary.sha256, "trained": vocabulary.trained, "trained_on_bytes": trained_on,
                      "prefix_bytes": vocabulary.prefix, "policies": vocabulary.policies},
        "vocab": vocabulary.size, "bos": vocabulary.bos, "dtype": _dtype(vocabulary), "split": splitting.RULE, "parts": parts,
        "policies": {"rules": RULES, "counts": {name: int(counts[name]) for name in RULES}},
        "text_fingerprint": hashlib.sha256(json.dumps({name: file["sha256"] for name, file in files.items()}).encode()).hexdigest(),
        "files": files,
    }  # fmt: skip
    write_atomic(folder / MANIFEST, json.dumps(manifest, indent=1, ensure_ascii=False))
    work.remove()


def _dtype(vocabulary: Vocabulary) -> str:
    return "<u2" if vocabulary.size <= 1 << 16 else "<u4"


def _scan(work: Work, corpus: Corpus, place: Place, progress: Progress | None) -> dict[str, int]:
    """First reading: `documents`, and what the policies met; nothing is read if it was done before."""
    if work.state["scan"] is None:
        counts: Counter[str] = Counter()
        number, said = 0, 0.0
        with work.writing("documents", 0) as file:
            for number, document in enumerate(corpus.documents(counts, place), 1):
                file.write(record_of(document))
                if progress and number % 64 == 0 and time.monotonic() - said > _SAID:
                    said = time.monotonic()
                    progress("reading the text", min(place.bytes, corpus.bytes), corpus.bytes)
            flush(file)
        work.state["scan"] = {"documents": number, "counts": dict(counts), "left_out": dict(place.how.left_out)}
        _refuse_none(work, corpus, counts)
        work.save()
    place.how.left_out = Counter(work.state["scan"]["left_out"])
    return work.state["scan"]["counts"]


def _refuse_none(work: Work, corpus: Corpus, counts: Counter[str]) -> None:
    if not work.state["scan"]["documents"]:
        raise DataError(
            f"{corpus.name} holds no text: {counts['documents']:,} documents, all empty"
            + (f", and {counts['missing']:,} rows without one (null)" if counts["missing"] else ""),
            "a corpus holds text",
            "check the file, `field` and `separator`",
        )


def _split(work: Work, data: Data) -> tuple[np.ndarray, int]:
    """The part of each document, uint8 [N], kept on disk, and how many are copies."""
    part_of = np.memmap(work.file("parts"), np.uint8, "w+", shape=(work.state["scan"]["documents"],))
    return part_of, splitting.split_into(part_of, work.digests_and_sizes, data.validation, data.held_out)


def _text_sha256(work: Work) -> str:
    digest = hashlib.sha256()
    for digests, _ in work.digests_and_sizes():
        digest.update(digests.astype("<u8").tobytes())
    return digest.hexdigest()


def _trained(work: Work, corpus: Corpus, entries: int, part_of: np.ndarray, progress: Progress | None) -> tuple[Vocabulary, int]:
    """Second reading: the tokenizer, and the bytes that it was trained on; nothing is read if it was done before."""

    def total_bytes(limit: np.uint64 | None) -> int:
        return sum(int(sizes[chosen].sum()) for chosen, sizes in _training(work, part_of, limit))

    limit, total = None, total_bytes(None)
    if total > TOKENIZER_BYTES:  # the second half of the digest, so that the choice has nothing to do with the split
        limit = np.uint64(TOKENIZER_BYTES / total * 2**64)
        total = total_bytes(limit)
    known = work.file("tokenizer.json")
    if known.exists():
        return trained_before(known.read_text(encoding="utf-8")), total

    def texts() -> Iterator[str]:
        done, said = 0, 0.0
        chosen = (one for many, _ in _training(work, part_of, limit) for one in many.tolist())
        for document in corpus.documents(Counter()):
            wanted = next(chosen, None)
            if wanted is None:
                raise changed(corpus.name)
            if wanted:
                done += len(document)
                if progress and time.monotonic() - said > _SAID:
                    said = time.monotonic()
                    progress("training the tokenizer", min(done, total), total)
                yield document.decode()

    vocabulary = train(entries, texts())
    write_atomic(known, vocabulary.json)
    return vocabulary, total


def _training(work: Work, part_of: np.ndarray, limit: np.uint64 | None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Whether the tokenizer is trained on a document, bool [n], and its bytes, int64 [n], a chunk of the corpus at a time."""
    first = 0
    for digests, sizes in work.digests_and_sizes():
        chosen = np.asarray(part_of[first : first + len(digests)]) == 0
        first += len(digests)
        yield chosen if limit is None else chosen & (digests[:, 1] < limit), sizes
