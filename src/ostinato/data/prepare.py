"""From text to shards: split by documents, train or load the tokenizer, encode, and write, once for all arms and studies.

Three passes over the text, none of which holds it: hash and measure the documents (24 bytes each are kept), train the tokenizer on
the training part, encode in batches on all cores and write the tokens as they come. The result appears whole or not at all.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from array import array
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ostinato.data import split as splitting
from ostinato.data.corpus import Corpus, Progress, find, gathered
from ostinato.data.once import key_of, once
from ostinato.data.policies import RULES
from ostinato.data.prepared import MANIFEST, Prepared, checksums, open_prepared
from ostinato.data.python_docs import NAMES
from ostinato.data.split import PARTS
from ostinato.data.vocabulary import Vocabulary, load, train
from ostinato.errors import DataError
from ostinato.files import write_atomic
from ostinato.study.derive import expanded
from ostinato.study.records import Data

FORMAT = 1  # of the folder and of the rules that made it: another number is prepared anew
TOKENIZER_BYTES = 512 << 20  # a tokenizer is trained on about this much of the training part, whole documents picked by their hash
_BATCH_BYTES, _BATCH_DOCUMENTS = 4 << 20, 4096


def default_cache() -> Path:
    """$OSTINATO_CACHE, or ~/.cache/ostinato."""
    return Path(os.environ.get("OSTINATO_CACHE") or Path.home() / ".cache" / "ostinato")


def prepare(data: Data, cache: Path | None = None, progress: Progress | None = None) -> Prepared:
    """The prepared text of `data`: found in the cache, or made there. Any number of processes may ask at once; one makes it.

    progress(stage, done, total) is called now and then.  Raises DataError for text, a tokenizer or shards that cannot be used.
    """
    cache = cache or default_cache()
    waiting = (lambda: progress("waiting for another process", 0, 1)) if progress else None
    try:
        corpus, vocabulary, given, path = _locate(data, cache, progress)
        once(path, lambda folder: _make(folder, corpus, data, vocabulary, given, progress), waiting)
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
    if data.corpus in NAMES and not gathered(data.corpus, cache).exists():
        return None
    path = _locate(data, cache, None)[3]
    return open_prepared(path, data, cache) if path.exists() else None


def _locate(data: Data, cache: Path, progress: Progress | None) -> tuple[Corpus, Vocabulary | None, dict[str, Any], Path]:
    """The corpus, the tokenizer if it is not to be trained, what the shards follow from, and the folder named for that."""
    corpus = find(data.corpus, data.field, data.separator, cache, progress)
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
    folder: Path, corpus: Corpus, data: Data, vocabulary: Vocabulary | None, given: dict[str, Any], progress: Progress | None
) -> None:
    counts: Counter[str] = Counter()
    digests, sizes = _scan(corpus, counts, progress)
    part_of, counts["duplicate"] = splitting.split(digests, sizes, data.validation, data.held_out)
    trained_on = None
    if vocabulary is None:
        assert data.tokenizer.bpe
        vocabulary, trained_on = _trained(corpus, data.tokenizer.bpe, digests, sizes, part_of, progress)
    dtype = "<u2" if vocabulary.size <= 1 << 16 else "<u4"
    parts = _encode(folder, corpus, vocabulary, dtype, digests, part_of, counts, progress)
    write_atomic(folder / "tokenizer.json", vocabulary.json)
    write_atomic(folder / "token_bytes", vocabulary.token_bytes.astype("<i4").tobytes())
    files = checksums(folder)
    manifest = {
        "given": given,
        "corpus": {"name": corpus.name, "files": len(corpus.files), "bytes": corpus.bytes, "identity": corpus.identity,
                   "text_sha256": hashlib.sha256(digests.tobytes()).hexdigest(), "field": corpus.field, "separator": corpus.separator},
        "tokenizer": {"sha256": vocabulary.sha256, "trained": vocabulary.trained, "trained_on_bytes": trained_on,
                      "prefix_bytes": vocabulary.prefix, "policies": vocabulary.policies},
        "vocab": vocabulary.size, "bos": vocabulary.bos, "dtype": dtype, "split": splitting.RULE, "parts": parts,
        "policies": {"rules": RULES, "counts": {name: int(counts[name]) for name in RULES}},
        "text_fingerprint": hashlib.sha256(json.dumps({name: file["sha256"] for name, file in files.items()}).encode()).hexdigest(),
        "files": files,
    }  # fmt: skip
    write_atomic(folder / MANIFEST, json.dumps(manifest, indent=1, ensure_ascii=False))


def _scan(corpus: Corpus, counts: Counter[str], progress: Progress | None) -> tuple[np.ndarray, np.ndarray]:
    """First pass: the first 128 bits of the sha256 of each document, uint64 [N, 2], and its bytes, int64 [N]."""
    digests, sizes, done = bytearray(), array("q"), 0
    for document in corpus.documents(counts):
        digests += hashlib.sha256(document).digest()[:16]
        sizes.append(len(document))
        done += len(document)
        if progress and len(sizes) % 256 == 0:
            progress("reading the text", min(done, corpus.bytes), corpus.bytes)
    if not sizes:
        raise DataError(
            f"{corpus.name} holds no text: {counts['documents']} documents, all empty",
            "a corpus holds text",
            "check the file, `field` and `separator`",
        )
    return np.frombuffer(bytes(digests), ">u8").astype(np.uint64).reshape(-1, 2), np.array(sizes, np.int64)


def _trained(
    corpus: Corpus, entries: int, digests: np.ndarray, sizes: np.ndarray, part_of: np.ndarray, progress: Progress | None
) -> tuple[Vocabulary, int]:
    """Second pass: the tokenizer, and the bytes that it was trained on."""
    chosen = part_of == 0
    total = int(sizes[chosen].sum())
    if total > TOKENIZER_BYTES:  # the second half of the digest, so that the choice has nothing to do with the split
        chosen &= digests[:, 1] < np.uint64(TOKENIZER_BYTES / total * 2**64)
        total = int(sizes[chosen].sum())

    def texts() -> Iterator[str]:
        done = 0
        for index, document in enumerate(corpus.documents(Counter())):
            if index < len(chosen) and chosen[index]:
                done += len(document)
                if progress and index % 64 == 0:
                    progress("training the tokenizer", done, total)
                yield document.decode()

    return train(entries, texts()), total


class _Shard:
    """One part while it is being written."""

    def __init__(self, tokens: BinaryIO):
        self.tokens, self.starts, self.digests = tokens, array("q", [0]), array("Q")
        self.bytes = self.words = self.inexact = 0


def _encode(
    folder: Path,
    corpus: Corpus,
    vocabulary: Vocabulary,
    dtype: str,
    digests: np.ndarray,
    part_of: np.ndarray,
    counts: Counter[str],
    progress: Progress | None,
) -> dict[str, dict[str, int]]:
    """Third pass: encode and write every part; returns what each came to."""
    total, done = len(part_of), 0
    with contextlib.ExitStack() as stack:
        shards = [_Shard(stack.enter_context(open(folder / f"{part}.tokens", "wb"))) for part in PARTS]
        for batch in _batches(corpus):
            for document, ids in zip(batch, vocabulary.encode_all([document.decode() for document in batch]), strict=True):
                if done >= total or not _same(document, digests[done]):
                    raise _changed(corpus)
                _write(shards[part_of[done]], document, ids, digests[done, 0], vocabulary, dtype, counts)
                done += 1
            if progress:
                progress("encoding", done, total)
    if done != total:
        raise _changed(corpus)
    parts = {}
    for part, shard in zip(PARTS, shards, strict=True):
        (folder / f"{part}.starts").write_bytes(np.array(shard.starts, "<i8").tobytes())
        (folder / f"{part}.digests").write_bytes(np.array(shard.digests, "<u8").tobytes())
        parts[part] = {
            "documents": len(shard.starts) - 1,
            "tokens": shard.starts[-1],
            "bytes": shard.bytes,
            "words": shard.words,
            "inexact": shard.inexact,
        }
    return parts


def _write(
    shard: _Shard, document: bytes, ids: np.ndarray, digest: np.uint64, vocabulary: Vocabulary, dtype: str, counts: Counter[str]
) -> None:
    if (ids == vocabulary.bos).any():
        raise DataError(
            f"the tokenizer turns text into its BOS (id {vocabulary.bos}): {document[:60]!r}",
            "no text produces BOS, which alone marks where documents begin",
            "use a tokenizer whose BOS is a special token, or train one with tokenizer: {bpe: 8192}",
        )
    shard.tokens.write(np.concatenate([[np.uint32(vocabulary.bos)], ids]).astype(dtype).tobytes())
    shard.starts.append(shard.starts[-1] + 1 + len(ids))
    shard.digests.append(int(digest))
    shard.bytes += len(document)
    shard.words += len(document.split())
    shard.inexact += int(vocabulary.token_bytes[ids].sum()) != len(document) + vocabulary.prefix
    counts["special_literal"] += any(literal in document for literal in vocabulary.literals)


def _batches(corpus: Corpus) -> Iterator[list[bytes]]:
    batch, size = [], 0
    for document in corpus.documents(Counter()):
        batch.append(document)
        size += len(document)
        if size >= _BATCH_BYTES or len(batch) >= _BATCH_DOCUMENTS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _same(document: bytes, digest: np.ndarray) -> bool:
    return hashlib.sha256(document).digest()[:16] == digest.astype(">u8").tobytes()


def _changed(corpus: Corpus) -> DataError:
    return DataError(
        f"{corpus.name} changed while it was being read",
        "a corpus stays as it is while it is prepared",
        "give the same command again when nothing writes there",
    )
