"""Megabytes a second from text files to shards, beside the tokenizers library alone on the same text with the same threads.

    python benchmarks/tokenizing.py [--quick] [--json FILE]

Ours is `prepare` with a given tokenizer, end to end, in an empty cache: find and hash the files, read, check and hash every document,
encode, count, split into parts, write, and sum up what was written. The peers are `encode_batch` and `encode_batch_fast` over the same
documents as texts in memory, in batches of the same size, the ids left where the library puts them. The texts: python-docs (gathering it is
not timed), the same as JSONL of pieces of about 4 kB, as documents of the web are, and the texts under ../shared where they are.
Ratios are ours over the peer's speed, so below 1 by what everything besides encoding takes.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections import Counter
from functools import partial
from pathlib import Path

from harness import Row, interleaved, main, medians

from ostinato.data.corpus import find
from ostinato.data.encode import BATCH_BYTES, BATCH_DOCUMENTS
from ostinato.data.prepare import prepare
from ostinato.data.vocabulary import load, train
from ostinato.files import default_cache
from ostinato.study.records import Data, Tokenizer

VOCABULARY = 4096
PEERS = ("encode_batch", "encode_batch_fast")
SHARED = Path(__file__).resolve().parents[2] / "shared" / "data" / "corpora"
MORE = {"tinyshakespeare.txt": "\n\n", "tinystories_sample.txt": "\n<|endoftext|>\n"}  # with what separates documents


def batches(texts: list[str]) -> list[list[str]]:
    """The documents in groups of the size in which ours encodes them."""
    groups: list[list[str]] = [[]]
    size = 0
    for text in texts:
        if size >= BATCH_BYTES or len(groups[-1]) >= BATCH_DOCUMENTS:
            groups.append([])
            size = 0
        groups[-1].append(text)
        size += len(text)
    return groups


def documents(data: Data, cache: Path) -> list[str]:
    """The texts of a corpus."""
    return [document.decode() for document in find(data, cache).documents(Counter())]


def pieces(data: Data, file: Path, cache: Path) -> Data:
    """The documents of `data` as a JSONL file of pieces of about 4 kB."""
    with open(file, "w", encoding="utf-8") as handle:
        for text in documents(data, cache):
            for start in range(0, len(text), 4000):
                handle.write(json.dumps({"text": text[start : start + 4000]}) + "\n")
    return Data(corpus=str(file))


def end_to_end(data: Data, place: Path, gathered: Path | None) -> None:
    """Prepare in an empty cache, but for what was gathered of python-docs."""
    shutil.rmtree(place, ignore_errors=True)
    if gathered is not None:
        shutil.copytree(gathered, place / "corpora")
    prepare(data, place)


def text(name: str, data: Data, rounds: int, folder: Path) -> list[Row]:
    """One row a peer."""
    cache = default_cache() if data.corpus == "python-docs" else folder / "found"
    texts = documents(data, cache)
    megabytes = sum(len(text.encode()) for text in texts) / 1e6
    vocabulary = train(VOCABULARY, texts)
    file = folder / "tokenizer.json"
    file.write_text(vocabulary.json, encoding="utf-8")
    engine, groups = load(file).engine, batches(texts)
    gathered = None
    if data.corpus == "python-docs":
        gathered = folder / "gathered"
        shutil.copytree(cache / "corpora", gathered, dirs_exist_ok=True)
    ours = data.model_copy(update={"tokenizer": Tokenizer(file=str(file))})
    encoders = {name: partial(_all, getattr(engine, name), groups) for name in PEERS}
    found = medians(interleaved({"ours": partial(end_to_end, ours, folder / "cache", gathered), **encoders}, rounds, 1))
    speed = {name: megabytes / seconds for name, seconds in found.items()}
    return [Row(f"tokenizing {name}, {len(texts):,} documents", speed["ours"], speed[peer], "MB/s", speed["ours"] / speed[peer],
                peer_name=peer) for peer in PEERS]  # fmt: skip


def _all(encode, groups: list[list[str]]) -> None:
    for group in groups:
        encode(group, add_special_tokens=False)


def measure(quick: bool = False) -> list[Row]:
    """Two rows a text."""
    rounds = 2 if quick else 7
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        docs = Data(corpus="python-docs")
        corpora = {"python-docs": docs, "python-docs, pieces of 4 kB": pieces(docs, folder / "pieces.jsonl", default_cache())}
        corpora |= {name: Data(corpus=str(SHARED / name), separator=mark) for name, mark in MORE.items() if (SHARED / name).exists()}
        return [row for name, data in corpora.items() for row in text(name, data, rounds, folder)]


if __name__ == "__main__":
    main(measure, __doc__)
