"""Targets a second whose token classes are found, all together, beside a set of seen tuples for each match length.

    python benchmarks/classes.py [--quick] [--json FILE]

Ours is `classes`, end to end: which inputs each window shows, the longest match in the document and in view, counts, places; one thread.
The counts of the training stream are made before (the floors need them). The peer is what one writes first, and exact: for every match
length a set of the tuples that the document had before; it does not look at windows. The texts: a made one with the repeats of prose, at
two lengths of documents, the books under ../shared where they are, and the worst case, one token over and over.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from harness import Row, interleaved, main, medians

from ostinato.data.classes import MATCHES, classes
from ostinato.data.floors import training_bigrams
from ostinato.data.prepare import prepare
from ostinato.data.prepared import Prepared
from ostinato.data.targets import Targets, targets
from ostinato.study.records import Data, Evaluate, Tokenizer

ASKED = 1e6  # targets a second
ROUNDS = 5
CONTEXT = 512
BOOKS = Path(__file__).resolve().parents[2] / "shared" / "data" / "corpora" / "gutenberg"


def prose(tokens: int, document: int, seed: int = 0) -> list[str]:
    """Made documents of words as common as words are (Zipf), a tenth of them copies of what was said before in the document."""
    draw = np.random.default_rng(seed)
    words = np.minimum(draw.zipf(1.3, tokens), 4000)
    for _ in range(tokens // 120):
        length = int(draw.geometric(1 / 12))
        source = int(draw.integers(0, max(1, tokens - length)))
        put = min(tokens - length, source + int(draw.integers(1, document)))
        words[put : put + length] = words[source : source + length].copy()
    spelled = np.array(["".join(letters) for letters in itertools.product("aeiourstlnmdkpgbv", repeat=3)])[words]
    return [" ".join(spelled[first : first + document]) for first in range(0, tokens, document)]


def prepared(texts: list[str], entries: int, folder: Path) -> tuple[Prepared, Targets]:
    """Half of the documents are validation text."""
    folder.mkdir(parents=True)
    (folder / "text.txt").write_text("\n%%\n".join(texts), encoding="utf-8")
    data = Data(corpus=str(folder / "text.txt"), separator="\n%%\n", tokenizer=Tokenizer(bpe=entries), packing="contiguous",
                validation=0.49, held_out=0.02)  # fmt: skip
    made = prepare(data, folder / "cache")
    training_bigrams(made, CONTEXT)
    return made, targets(made, "validation", Evaluate(), CONTEXT)


def peer(made: Prepared, found: Targets) -> Callable[[], np.ndarray]:
    """The longest match of every target in its document, with sets of tuples."""
    stream, starts = made.tokens(found.part), made.doc_starts(found.part)

    def take() -> np.ndarray:
        best = np.full(len(found), -1, np.int8)
        first = 0
        for document in np.unique(found.document).tolist():
            text = stream[starts[document] : starts[document + 1]].tolist()
            last = first + int(np.searchsorted(found.document[first:], document, "right"))
            at = dict(zip(found.position[first:last].tolist(), range(first, last), strict=True))
            for k in MATCHES:
                seen: set[tuple[int, ...]] = set()
                for place in range(k, len(text)):
                    gram = tuple(text[place - k : place + 1])
                    if gram in seen and place in at:
                        best[at[place]] = k
                    seen.add(gram)
            first = last
        return best

    return take


def compare(claim: str, texts: list[str], entries: int, rounds: int, folder: Path) -> Row:
    """Both on one text; the peer on a text that is long once."""
    made, found = prepared(texts, entries, folder)
    timed = medians(interleaved({"ours": lambda: classes(made, found)}, rounds, warmup=1))
    other, kinds = peer(made, found), classes(made, found).match
    assert (other() == kinds).all()
    slow = medians(interleaved({"peer": other}, 1, warmup=0))
    ours, theirs = len(found) / timed["ours"], len(found) / slow["peer"]
    shares = ", ".join(f"{k}: {np.mean(kinds == k):.3f}" for k in (-1, *MATCHES))
    return Row(claim, ours, theirs, "targets/s", ours, ASKED, peer_name="sets of tuples",
               notes={"targets": f"{len(found):,}", "times the peer": f"{ours / theirs:.1f}", "share of each match": shares})  # fmt: skip


def measure(quick: bool) -> list[Row]:
    """Every text."""
    size, rounds = (100_000, 2) if quick else (600_000, ROUNDS)
    texts = {
        "classes, documents of 1,000 words": (prose(size, 1_000), 2048),
        "classes, ten long documents": (prose(size, size // 10), 2048),
        "classes, one token over and over": ([f"{number} " + "a " * (size // 10) for number in range(20)], 258),
    }
    if BOOKS.is_dir():
        files = sorted(BOOKS.glob("*.txt"))[: 4 if quick else None]
        texts["classes, books"] = [file.read_text(encoding="utf-8", errors="replace") for file in files], 4096
    with tempfile.TemporaryDirectory() as folder:
        return [compare(claim, listed, entries, rounds, Path(folder) / str(index))
                for index, (claim, (listed, entries)) in enumerate(texts.items())]  # fmt: skip


if __name__ == "__main__":
    main(measure, __doc__)
