"""Megabytes a second from text files to shards, beside the tokenizers library alone on the same text with the same threads.

    python benchmarks/tokenize_speed.py [--rounds 7] [--corpus PATH] [--json tokenize_speed.json]

The texts are python-docs and every --corpus, as it is and once more as JSONL of pieces of 4 kB.

Ours is `prepare` with a given tokenizer, end to end, in an empty cache: find and hash the files, read, check and hash every document,
encode, count, split into parts, write, and sum up what was written. The peer is `encode_batch` (and the faster `encode_batch_fast`)
over the same documents as texts in memory, in batches of the same size, the ids left where the library puts them. All take turns within
one run. Shown: the median of the rounds in MB/s; ours as a share of each peer, by the median over rounds of the ratio within a round; and
the same of processor seconds, which other programs on the machine disturb less. Gathering python-docs is not timed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from ostinato.data.prepare import prepare
from ostinato.data.corpus import find
from ostinato.data.encode import BATCH_BYTES, BATCH_DOCUMENTS
from ostinato.data.vocabulary import load, train
from ostinato.files import default_cache
from ostinato.study.records import Data, Tokenizer

VOCABULARY = 4096


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


def pieces(data: Data, file: Path, cache: Path) -> Data:
    """The documents of `data` as a JSONL file of pieces of about 4 kB, as documents of the web are."""
    with open(file, "w", encoding="utf-8") as handle:
        for document in find(data, cache).documents(Counter()):
            text = document.decode()
            for start in range(0, len(text), 4000):
                handle.write(json.dumps({"text": text[start : start + 4000]}) + "\n")
    return Data(corpus=str(file))


def clocks() -> tuple[float, float]:
    """Now, and the processor time that this process has used."""
    return time.perf_counter(), time.process_time()


def share(row: dict, peer: str, clock: int) -> float:
    """How fast ours is, as a share of the peer."""
    return statistics.median(theirs[clock] / own[clock] for own, theirs in zip(row["seconds"]["ours"], row["seconds"][peer], strict=True))


def measure(data: Data, rounds: int, folder: Path) -> dict:
    """(seconds, processor seconds) of every round: ours, encode_batch, encode_batch_fast."""
    cache = default_cache() if data.corpus == "python-docs" else folder / "found"
    corpus = find(data, cache)
    texts = [document.decode() for document in corpus.documents(Counter())]
    size = sum(len(text.encode()) for text in texts)
    vocabulary = train(VOCABULARY, texts)
    file = folder / "tokenizer.json"
    file.write_text(vocabulary.json, encoding="utf-8")
    engine = load(file).engine
    groups = batches(texts)
    ours = data.model_copy(update={"tokenizer": Tokenizer(file=str(file))})

    def end_to_end() -> None:
        place = folder / "cache"
        shutil.rmtree(place, ignore_errors=True)
        if data.corpus == "python-docs":  # what was gathered is there
            shutil.copytree(cache / "corpora", place / "corpora")
        nonlocal began
        began = clocks()
        prepare(ours, place)

    began = clocks()
    contenders: dict[str, Callable[[], None]] = {
        "ours": end_to_end,
        "encode_batch": lambda: [engine.encode_batch(group, add_special_tokens=False) for group in groups] and None,
        "encode_batch_fast": lambda: [engine.encode_batch_fast(group, add_special_tokens=False) for group in groups] and None,
    }
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in contenders}
    for turn in range(rounds + 1):
        for name, run in contenders.items():
            began = clocks()
            run()
            now = clocks()
            if turn:  # the first round warms the caches of the machine
                seconds[name].append((now[0] - began[0], now[1] - began[1]))
    return {"documents": len(texts), "megabytes": size / 1e6, "seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--corpus", action="append", help="a further file or folder; may be repeated")
    parser.add_argument("--json", type=Path, default=Path("tokenize_speed.json"))
    given = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        corpora = {"python-docs": Data(corpus="python-docs")}
        for number, path in enumerate(map(Path, given.corpus or ())):
            data = corpora[path.name] = Data(corpus=str(path.absolute()))
            corpora[f"{path.name}, JSONL of 4 kB"] = pieces(data, folder / f"{number}.jsonl", folder / "found")
        for name, data in corpora.items():
            found[name] = measure(data, given.rounds, folder)
    print(f"{os.cpu_count()} cores, TOKENIZERS_PARALLELISM={os.environ.get('TOKENIZERS_PARALLELISM', '')}, vocabulary {VOCABULARY}, MB/s\n")
    heads = f"{'text':28}{'MB':>7}{'documents':>11}{'ours':>8}{'encode_batch':>14}{'_fast':>8}"
    print(f"{heads}{'of it':>8}{'of _fast':>10}{'by CPU: of it':>15}{'of _fast':>10}")
    for name, row in found.items():
        speed = {key: row["megabytes"] / statistics.median(wall for wall, _ in times) for key, times in row["seconds"].items()}
        shares = [share(row, peer, clock) for clock in (0, 1) for peer in ("encode_batch", "encode_batch_fast")]
        print(f"{name[:27]:28}{row['megabytes']:7.2f}{row['documents']:11,}{speed['ours']:8.2f}{speed['encode_batch']:14.2f}"
              f"{speed['encode_batch_fast']:8.2f}{shares[0]:8.0%}{shares[1]:10.0%}{shares[2]:15.0%}{shares[3]:10.0%}")  # fmt: skip
    given.json.write_text(
        json.dumps({"machine": platform.platform(), "cores": os.cpu_count(), "vocabulary": VOCABULARY, "texts": found}, indent=1)
    )
    print(f"\nseconds of every round in {given.json}")


if __name__ == "__main__":
    main()
