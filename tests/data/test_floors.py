from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ostinato.data import rows
from ostinato.data.floors import Bigrams, count_bigrams, floor_losses, floors, training_bigrams
from ostinato.data.targets import targets
from ostinato.study.records import Evaluate, Tokenizer


def naive(packed, scored):
    """Modified Kneser-Ney by its formulas, with dictionaries: (unigram, bigram) probability functions."""
    pairs = Counter((a, b) for row in packed.tolist() for a, b in itertools.pairwise(row) if scored[b])
    kinds = int(scored.sum())
    seen, heads = Counter(), Counter()
    for (a, b), count in pairs.items():
        seen[b] += count
        heads[a] += count
    n = [sum(count == k for count in pairs.values()) for k in range(5)]
    if min(n[1:]):
        y = n[1] / (n[1] + 2 * n[2])
        d = [0, 1 - 2 * y * n[2] / n[1], 2 - 3 * y * n[3] / n[2], 3 - 4 * y * n[4] / n[3]]
        d = [0, *(min(max(value, 0.01), k - 0.01) for k, value in enumerate(d[1:], 1))]
    else:
        one = n[1] / (n[1] + 2 * n[2]) if n[1] and n[2] else 0.5
        d = [0, one, one, one]
    before = Counter(b for _, b in pairs)

    def unigram(b):
        return (seen[b] + 1) / (sum(seen.values()) + kinds)

    def bigram(a, b):
        base = (before[b] + 1) / (len(pairs) + kinds)
        if not heads[a]:
            return base
        free = sum(d[min(count, 3)] for (head, _), count in pairs.items() if head == a) / heads[a]
        count = pairs[a, b]
        return (count - d[min(count, 3)]) / heads[a] + free * base

    return unigram, bigram


@settings(max_examples=60, deadline=None)
@given(st.integers(3, 9), st.integers(1, 12), st.integers(1, 20), st.integers(0, 1000))
def test_both_floors_are_their_naive_twins_and_sum_to_one(vocab, count, context, seed):
    draw = np.random.Generator(np.random.Philox(seed))
    packed = np.minimum(draw.geometric(0.4, (count, context + 1)) - 1, vocab - 1).astype(np.uint16)
    scored = np.ones(vocab, bool)
    scored[0] = False
    bigrams = count_bigrams(packed, scored)
    unigram, bigram = naive(packed, scored)
    assert bigrams.unigram() == pytest.approx([unigram(b) if b else 0 for b in range(vocab)])
    before, after = np.repeat(np.arange(vocab), vocab - 1), np.tile(np.arange(1, vocab), vocab)
    found = bigrams.bigram()(before, after)
    assert found == pytest.approx([bigram(a, b) for a, b in zip(before, after, strict=True)])
    assert found.reshape(vocab, -1).sum(1) == pytest.approx(np.ones(vocab)) and bigrams.unigram().sum() == pytest.approx(1)
    assert found.dtype == np.float64 and (found > 0).all()


def test_counting_in_chunks_is_counting_at_once(monkeypatch):
    import sys

    packed = np.random.Generator(np.random.Philox(5)).integers(0, 30, (400, 17)).astype(np.uint16)
    scored = np.arange(30) > 0
    whole = count_bigrams(packed, scored)
    monkeypatch.setattr(sys.modules["ostinato.data.floors"], "_CHUNK", 50)
    pieces = count_bigrams(packed, scored)
    assert (pieces.codes == whole.codes).all() and (pieces.counts == whole.counts).all()
    assert whole.counts.sum() == scored[packed[:, 1:]].sum()


def test_floors_are_sums_over_targets_of_the_training_stream(contiguous):
    found = targets(contiguous, "validation", Evaluate(), 32)
    nats = floors(contiguous, found)
    unigram, bigram = naive(np.asarray(rows(contiguous, "train", 32)), contiguous.token_bytes > 0)
    stream, starts = contiguous.tokens("validation").astype(int), contiguous.doc_starts("validation")
    places = starts[found.document] + found.position
    assert nats["unigram"] == pytest.approx(np.mean([-math.log(unigram(stream[place])) for place in places]), rel=1e-12)
    some = places[::37]
    losses = floor_losses(contiguous, found)
    assert losses["bigram"][::37] == pytest.approx([-math.log(bigram(stream[place - 1], stream[place])) for place in some])
    assert losses["bigram"].dtype == np.float64 and losses["bigram"].shape == (len(found),)
    assert nats["bigram"] == losses["bigram"].sum() / len(found)
    assert 0 < nats["bigram"] < nats["unigram"] < math.log(300) + 0.5


def test_a_stream_with_structure_is_nearly_solved_by_the_bigram(tmp_path, cache, make, write_jsonl):
    corpus = write_jsonl(tmp_path / "abc.jsonl", ["abcdefghij" * 9 + "abcdefghij"[:i] for i in range(1, 11)])
    prepared = make(corpus, cache, tokenizer=Tokenizer(bpe=258), packing="contiguous")
    nats = floors(prepared, targets(prepared, "held_out", Evaluate(), 16))
    assert nats["bigram"] < 0.5 * nats["unigram"]


def test_counts_are_cached_and_a_torn_cache_is_counted_again(corpus, cache, make):
    prepared = make(corpus, cache, packing="contiguous")
    first = training_bigrams(prepared, 32)
    file = next((cache / "packed").glob("bigrams-*.npz"))
    again = training_bigrams(prepared, 32)
    assert (again.codes == first.codes).all() and (again.counts == first.counts).all()
    for content in (b"", file.read_bytes()[:-30], b"not a zip"):
        file.write_bytes(content)
        assert (training_bigrams(prepared, 32).counts == first.counts).all()
    assert training_bigrams(prepared, 16).counts.sum() != first.counts.sum()
    assert len(list((cache / "packed").glob("bigrams-*.npz"))) == 2


def test_no_text_at_all_gives_even_odds():
    nothing = Bigrams(np.zeros(0, np.int64), np.zeros(0, np.int64), np.array([False, True, True, True, True]))
    assert nothing.bigram()(np.array([0, 3]), np.array([1, 2])) == pytest.approx([0.25, 0.25])
    assert nothing.unigram()[1:] == pytest.approx([0.25] * 4)
