"""A part of a prepared text under another tokenizer: the same documents, so that a model of other tokens is scored on the same bytes.

The documents are read back from their tokens, and believed only when their sha256 is that of the text that was prepared.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np

from ostinato.data.once import key_of, once
from ostinato.data.prepared import MANIFEST, Prepared, checksums, open_prepared
from ostinato.data.vocabulary import Vocabulary
from ostinato.errors import DataError
from ostinato.files import write_atomic

_VERSION = 1
_DOCUMENTS = 1024  # encoded at a time


def with_vocabulary(prepared: Prepared, part: str, vocabulary: Vocabulary) -> Prepared:
    """The documents of `part` as tokens of `vocabulary`, from the cache or made now; the other parts are not in it.

    Raises DataError when the text cannot be read back from its tokens to the byte.
    """
    given = {"version": _VERSION, "text": prepared.text_fingerprint, "part": part, "tokenizer": vocabulary.sha256}
    path = prepared.cache / "other-tokens" / key_of(given)
    once(path, lambda folder: _make(folder, prepared, part, vocabulary))
    return open_prepared(path, prepared.data, prepared.cache)


def documents(prepared: Prepared, part: str) -> list[str]:
    """The text of every document of a part. Raises DataError when a tokenizer has lost some of it."""
    stream, starts, digests = prepared.tokens(part), prepared.doc_starts(part), prepared.doc_digests(part)
    skipped, found = prepared.vocabulary.prefix, []
    for first, last, digest in zip(starts[:-1].tolist(), starts[1:].tolist(), digests.tolist(), strict=True):
        text = prepared.vocabulary.decode_bytes(stream[first + 1 : last])[skipped:]
        if int.from_bytes(hashlib.sha256(text).digest()[:8], "big") != digest:
            raise DataError(f"a document of the {part} part cannot be read back from its tokens: the tokenizer has lost some of its text",
                            "a model of another tokenizer is scored on the same text, to the byte",
                            "train a tokenizer for the study: tokenizer: {bpe: 8192}")  # fmt: skip
        found.append(text.decode("utf-8"))
    return found


def _make(folder: Path, prepared: Prepared, part: str, vocabulary: Vocabulary) -> None:
    texts = documents(prepared, part)
    pieces, lengths = [], []
    for first in range(0, len(texts), _DOCUMENTS):
        for ids in vocabulary.encode_all(texts[first : first + _DOCUMENTS]):
            pieces += [np.array([vocabulary.bos], np.uint32), ids]
            lengths.append(1 + len(ids))
    dtype = "<u2" if vocabulary.size <= 1 << 16 else "<u4"
    flat = np.concatenate(pieces) if pieces else np.zeros(0, np.uint32)
    write_atomic(folder / f"{part}.tokens", flat.astype(dtype).tobytes())
    write_atomic(folder / f"{part}.starts", np.cumsum([0, *lengths]).astype("<i8").tobytes())
    write_atomic(folder / f"{part}.digests", prepared.doc_digests(part).astype("<u8").tobytes())
    write_atomic(folder / "tokenizer.json", vocabulary.json)
    write_atomic(folder / "token_bytes", vocabulary.token_bytes.astype("<i4").tobytes())
    files = checksums(folder)
    manifest = {
        "vocab": vocabulary.size, "bos": vocabulary.bos, "dtype": dtype, "parts": {part: {"tokens": len(flat), "documents": len(texts)}},
        "tokenizer": {"sha256": vocabulary.sha256, "trained": vocabulary.trained, "prefix_bytes": vocabulary.prefix,
                      "policies": vocabulary.policies},
        "text_fingerprint": hashlib.sha256(json.dumps({name: file["sha256"] for name, file in files.items()}).encode()).hexdigest(),
        "files": files,
    }  # fmt: skip
    write_atomic(folder / MANIFEST, json.dumps(manifest, indent=1, ensure_ascii=False))
