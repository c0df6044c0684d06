"""Arms with different tokenizers: compared by document, in bits per byte, or refused in words."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostinato.analysis import BITS, documents_over_seeds, grouping, over_clusters, paired_documents, paired_over_seeds, shared
from ostinato.errors import StoreError
from ostinato.store import LossTable, TargetTable


def cut(rng, sizes, digests, order=None):
    """Targets of documents of these sizes in bytes, each cut into tokens at random."""
    documents, lengths = [], []
    for document in order if order is not None else range(len(sizes)):
        left = sizes[document]
        while left:
            lengths.append(min(left, int(rng.integers(1, 6))))
            documents.append(document)
            left -= lengths[-1]
    where = np.asarray(documents, np.int32)
    zeros = np.zeros(len(where), np.int32)
    return TargetTable("t" * 64, where, zeros, zeros, np.asarray(lengths, np.int32), "each document alone", digests[where])


@st.composite
def two_sides(draw):
    """Two tokenizations of documents, some of them copies, with losses of each, and which documents each side scored."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    count = draw(st.integers(1, 9))
    digests = np.asarray(draw(st.lists(st.integers(0, 12), min_size=count, max_size=count)), np.uint64) * np.uint64(2**58 + 1)
    text = {digest: int(rng.integers(1, 40)) for digest in np.unique(digests)}
    sizes = [text[digest] for digest in digests]
    sides = []
    for _ in range(2):
        scored = draw(st.lists(st.sampled_from(range(count)), min_size=1, max_size=count, unique=True))
        targets = cut(rng, sizes, digests, sorted(scored))
        sides.append((targets, rng.gamma(2.0, 1.5, len(targets.document)).astype(np.float32)))
    return sides


def by_hand(side):
    """{(digest, which copy): [nats, bytes]}, one target after the other."""
    targets, losses = side
    seen, names, found = {}, {}, {}
    for document, digest, nats, size in zip(targets.document, targets.digest, losses, targets.bytes, strict=True):
        if document not in names:
            names[document] = (int(digest), seen.setdefault(int(digest), 0))
            seen[int(digest)] += 1
        entry = found.setdefault(names[document], [0.0, 0])
        entry[0] += float(nats)
        entry[1] += int(size)
    return found


@given(two_sides())
def test_brute_force(sides):
    hands = [by_hand(side) for side in sides]
    common = sorted(hands[0].keys() & hands[1].keys())
    sums = [grouping(targets).sums(losses) for targets, losses in sides]
    if not common:
        with pytest.raises(StoreError, match="no document is scored in both"):
            shared(*sums)
        return
    found = paired_documents(*shared(*sums))
    gains = [hands[0][key][0] - hands[1][key][0] for key in common]
    sizes = [math.log(2) * hands[1][key][1] for key in common]
    assert found.gain == pytest.approx(math.fsum(gains) / math.fsum(sizes), abs=1e-12) and found.gain == found.gain_bits_per_byte
    assert (found.documents, found.documents_won, found.unit) == (len(common), sum(gain > 0 for gain in gains), BITS)
    assert found.windows == 0 and found.targets == sum(key in common for key in _names(sides[1]))
    wanted = over_clusters(np.asarray(gains), np.asarray(sizes))
    assert (found.interval is None) == (wanted is None)
    if wanted:
        assert found.interval.low == pytest.approx(wanted.low, abs=1e-12) and found.interval.high == pytest.approx(wanted.high, abs=1e-12)


def _names(side):
    targets, _ = side
    seen, names = {}, {}
    for document, digest in zip(targets.document, targets.digest, strict=True):
        if document not in names:
            names[document] = (int(digest), seen.setdefault(int(digest), 0))
            seen[int(digest)] += 1
    return [names[document] for document in targets.document]


@given(st.integers(0, 2**32), st.integers(2, 12), st.integers(1, 3))
def test_with_one_tokenizer_it_is_the_bits_per_byte_of_the_comparison_by_token(seed, count, seeds):
    rng = np.random.default_rng(seed)
    digests = rng.integers(0, 2**63, count).astype(np.uint64)
    targets = cut(rng, rng.integers(1, 60, count), digests)
    size = len(targets.document)
    tables = {
        number: tuple(LossTable(rng.gamma(2, 1.5, size).astype(np.float32), targets.id, 1, "validation") for _ in range(2))
        for number in range(seeds)
    }
    tokens, by_seed = paired_over_seeds(tables, targets)
    documents, by_seed_bits = documents_over_seeds(tables, (grouping(targets),) * 2)
    assert documents.gain == pytest.approx(tokens.gain_bits_per_byte, abs=1e-12)
    for end in ("low", "high", "error", "freedom"):
        both = [getattr(interval, end) for interval in (documents.interval, tokens.interval_bits_per_byte)]
        assert both[0] == pytest.approx(both[1], abs=1e-9)
    assert (documents.documents, documents.documents_won) == (tokens.documents, tokens.documents_won)
    each = size / (math.log(2) * targets.bytes.sum())
    assert by_seed_bits.gains == pytest.approx({number: gain * each for number, gain in by_seed.gains.items()}, abs=1e-12)
    assert by_seed_bits.unit == BITS and "bits a byte" in by_seed_bits.words


@given(two_sides(), st.integers(0, 2**32))
def test_the_order_of_documents_does_not_matter(sides, seed):
    rng = np.random.default_rng(seed)

    def turned(targets, losses):
        """The same documents in another order, under other numbers."""
        numbers = rng.permutation(targets.document.max() + 1).astype(np.int32)
        document = numbers[targets.document]
        order = np.argsort(document, kind="stable")
        zeros, digest = np.zeros(len(order), np.int32), targets.digest[order]
        return TargetTable(targets.id, document[order], zeros, zeros, targets.bytes[order], "", digest), losses[order]

    if len(np.unique(sides[0][0].digest)) < len(np.unique(sides[0][0].document)):
        return  # which of two equal documents is which follows from their order
    if len(np.unique(sides[1][0].digest)) < len(np.unique(sides[1][0].document)):
        return
    one = [grouping(targets).sums(losses) for targets, losses in sides]
    other = [grouping(targets).sums(losses) for targets, losses in (turned(*side) for side in sides)]
    try:
        found = paired_documents(*shared(*one))
    except StoreError:
        with pytest.raises(StoreError):
            shared(*other)
        return
    again = paired_documents(*shared(*other))
    assert again.gain == pytest.approx(found.gain, abs=1e-12) and again.documents_won == found.documents_won


def targets_of(bytes_=(3, 3, 4), digest=(1, 1, 2), policy="each document alone"):
    count = len(bytes_)
    zeros = np.zeros(count, np.int32)
    made = None if digest is None else np.asarray(digest, np.uint64)
    return TargetTable("t" * 64, np.asarray([0, 0, 1], np.int32), zeros, zeros, np.asarray(bytes_, np.int32), policy, made)


@pytest.mark.parametrize(
    ("targets", "words"),
    [
        (targets_of(policy="rows of 128 inputs, packed"), "parts of documents.*windows: documents"),
        (targets_of(digest=None), "measured before.*ostinato run"),
        (targets_of(digest=(8, 8, 9)), "no document is scored in both"),
        (targets_of(bytes_=(3, 2, 4)), "1 of 2 documents differ in their bytes .6 against 5"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_words(targets, words):
    with pytest.raises(StoreError) as caught:
        shared(grouping(targets_of()).sums(np.ones(3)), grouping(targets).sums(np.ones(3)))
    assert re.search(words, str(caught.value), re.DOTALL)


def test_losses_of_other_targets_are_refused():
    with pytest.raises(StoreError, match="one loss for each target"):
        grouping(targets_of()).sums(np.ones(4))
