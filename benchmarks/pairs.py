"""Scoring minimal pairs: tokens a second of measure_pairs beside a plain forward pass of the same model over full windows.

Tokens are those that are scored: of different sentences, BOS not counted. Ours is all that scoring takes once pairs are read: encoding,
sorting by length, filling up, the forward passes, the sums, the table. The peer gives the logits of windows as long as the context, as many
tokens a pass as a training step of the shape has. Pairs are neighbouring sentences of 3 to 14 words of python-docs, as BLiMP's have, with a
tokenizer trained on it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from functools import cache

import numpy as np
import torch
from harness import SHAPES, Row, Shape, interleaved, main, medians, paired
from training import DESK, arm

from ostinato.data.corpus import find
from ostinato.data.minimal_pairs import MinimalPairs
from ostinato.data.vocabulary import Vocabulary, train
from ostinato.files import default_cache
from ostinato.measure.minimal_pairs import measure_pairs
from ostinato.measure.subject import Ours
from ostinato.model.decoder import Decoder, build
from ostinato.study.records import Data

CASES = {"desk": DESK, **SHAPES}
ROUNDS, BATCH = {"desk": 11, "a": 9, "b": 5, "c": 5}, 16_384
PAIRS = {"desk": 2000, "a": 1000, "b": 300, "c": 150}
TARGET = 0.70


@cache
def texts() -> tuple[str, ...]:
    """The documents of python-docs."""
    return tuple(document.decode() for document in find(Data(corpus="python-docs"), default_cache()).documents(Counter()))


@cache
def vocabulary(size: int) -> Vocabulary:
    """Trained on them."""
    return train(size, texts())


def pairs(count: int) -> MinimalPairs:
    """Different sentences, two by two."""
    found = dict.fromkeys(" ".join(one.split()) for text in texts() for one in re.findall(r"[A-Z][a-z]+(?:\s+[a-z,]+){2,13}\.", text))
    chosen = np.random.default_rng(1).permutation(list(found))[: 2 * count].tolist()
    good, bad = tuple(chosen[0::2]), tuple(chosen[1::2])
    each = ("sentences",) * len(good)
    return MinimalPairs("python-docs", each, each, each, good, bad, tuple(range(len(good))))


def plain(decoder: Decoder, shape: Shape, tokens: int) -> tuple[Callable[[], None], int]:
    """A forward pass over at least so many tokens in full windows, and how many they are."""
    passes = max(1, round(tokens / shape.tokens))
    rows = torch.randint(0, shape.vocab, (passes, shape.rows, shape.context), generator=torch.Generator().manual_seed(1))

    def take() -> None:
        with torch.no_grad():
            for tokens_BT in rows:
                decoder(tokens_BT)

    return take, rows.numel()


def compare(name: str, threads: int, quick: bool) -> Row:
    """Ours beside the peer."""
    torch.set_num_threads(threads)
    shape = CASES[name]
    words, some = vocabulary(shape.vocab), pairs(PAIRS[name])
    decoder = build(arm(shape), shape.vocab, shape.context, seed=1, bos=words.bos).eval()
    table = measure_pairs(Ours(decoder), some, words.encode_all, BATCH)
    scored = sum(int(table[f"{side}_tokens"].to_numpy().sum()) for side in ("good", "bad"))
    peer, tokens = plain(decoder, shape, scored)
    candidates = {"ours": lambda: measure_pairs(Ours(decoder), some, words.encode_all, BATCH), "peer": peer}
    turns = interleaved(candidates, 2 if quick else ROUNDS[name], warmup=1)
    seconds, ratio = medians(turns), paired(turns["ours"], turns["peer"]) * scored / tokens
    notes = {"sentences a second": round(2 * len(some) / seconds["ours"]), "tokens of a sentence": round(scored / 2 / len(some), 1)}
    claim = f"minimal pairs {name}, {threads} thread{'s' * (threads > 1)}"
    return Row(claim, scored / seconds["ours"], tokens / seconds["peer"], "tokens/s", ratio, TARGET, peer_name="full windows", notes=notes)


def measure(quick: bool) -> list[Row]:
    """Two threads and one."""
    return [compare(name, threads, quick) for threads in (2, 1) for name in (("desk",) if quick else CASES)]


if __name__ == "__main__":
    main(measure, __doc__)
