"""Classes of targets that follow from the text alone: what came before in the same document, how common the token is, where it stands.

Match length, after "The second pass of a small looped Transformer does not decompose" (section 3): the longest k in {1, 2, 4, 8, 16, 32}
such that the k + 1 tokens that end with the target stood earlier in the same document; here also 0, the token alone, and -1, a token
that is new to the document. So R of the same section is in it: new is -1, tok-repeat is 0, bigram-repeat is k >= 1.

    document   B a b c a b c d          position 4 (a): match 0, the bigram c a is new
    match     -1-1-1-1 0 1 2-1          position 6 (c): match 2, a b c stood at 1..3

The document is as it is packed: what best-fit crops off its end comes after every target, and a document that contiguous packing cuts
into rows is one document. A match is sought in all of it; `in_view` is the longest one within what the window shows that scores the target.

The earlier place of every gram is found by sorting, not by hashing, so no two grams are ever taken for one. A gram of 2k + 1 tokens is two
grams of k + 1 that share a token, both of which occur at least twice if the long one does: each sort is of the few places that are
left from the one before, and a pair of numbers of grams with its place fits into one 64-bit integer. See docs/decisions/0160.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ostinato.claims.classes import MATCHES
from ostinato.data.floors import training_bigrams
from ostinato.data.prepared import Prepared
from ostinato.data.targets import Targets

_CHUNK = 1 << 15  # tokens matched at a time: whole documents, whose arrays stay in the cache of a core
_SIGNLESS = 63  # bits of a sorted key


@dataclass(frozen=True, eq=False)
class TokenClasses:
    """What is known of each of N targets from the text, in their order; names of classes are in `ostinato.claims.classes`.

    match, in_view: int8 [N], -1 or one of MATCHES, sought in the document and in what the window shows of it.
    count: int64 [N], how often the token is a target in the rows of the training stream.
    position: int32 [N], the place in the document's tokens (BOS is 0).  shown: int32 [N], inputs of its window that predict it, with BOS.
    """

    match: np.ndarray
    in_view: np.ndarray
    count: np.ndarray
    position: np.ndarray
    shown: np.ndarray

    def __len__(self) -> int:
        return len(self.match)

    def number(self, family: str) -> np.ndarray:
        """The number of every target that the classes of a family are ranges of: whole numbers [N]."""
        if family == "R":
            return np.minimum(self.match, 1) + 1
        if family == "view":  # 0: no match, 1: in view, 2: longer out of view, 3: out of view
            whole, seen = np.maximum(self.match, 0), np.maximum(self.in_view, 0)
            return np.where(whole == 0, 0, np.where(seen == whole, 1, np.where(seen > 0, 2, 3)))
        if family in ("k", "k in view"):
            return np.maximum(self.match if family == "k" else self.in_view, 0)
        return {"count": self.count, "position": self.position, "shown": self.shown}[family]


def classes(
    prepared: Prepared, targets: Targets, context: int | None = None, progress: Callable[[int, int], None] | None = None
) -> TokenClasses:
    """The classes of every target. context: of the training rows, by default that of the targets. progress: told of (done, N) targets."""
    shown = inputs_shown(targets)
    match, in_view = np.full(len(targets), -1, np.int8), np.full(len(targets), -1, np.int8)
    stream, starts = prepared.tokens(targets.part), prepared.doc_starts(targets.part)
    begins = np.flatnonzero(np.diff(targets.document, prepend=-1))  # the first target of each document, and behind the last one
    bounds = np.append(begins, len(targets))
    lengths = targets.position[bounds[1:] - 1].astype(np.int64) + 1  # nothing after a document's last target matters
    for first, last in pairwise(_chunks(lengths)):
        here, sizes = slice(bounds[first], bounds[last]), lengths[first:last]
        ends = np.cumsum(sizes)
        origin = starts[targets.document[begins[first:last]]]
        source = np.arange(ends[-1]) + np.repeat(origin - (ends - sizes), sizes)
        number = np.repeat(np.arange(last - first), sizes)
        start = np.repeat(ends - sizes, np.diff(bounds[first : last + 1]))  # of the document of each target, within the chunk
        place = start + targets.position[here]
        earliest = np.zeros(len(source), np.int64)
        earliest[place] = start + _first_shown(targets.position[here], shown[here], targets.row is not None)
        whole, seen = longest_matches(number * prepared.vocab + stream[source], earliest)
        match[here], in_view[here] = whole[place], seen[place]
        if progress:
            progress(int(bounds[last]), len(targets))
    count = training_bigrams(prepared, context or targets.context).seen[targets.token]
    return TokenClasses(match, in_view, count, targets.position, shown)


def longest_matches(token: np.ndarray, earliest: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The longest k of MATCHES at every place of some documents, and that of matches that begin at `earliest` or later; int8 [M], -1: none.

    token: int64 [M], equal where the token and its document are, at least 0; each document is contiguous.
    earliest: int64 [M], a place for each place.
    """
    whole, seen = np.full(len(token), -1, np.int8), np.full(len(token), -1, np.int8)
    group = np.empty(len(token), np.int64)  # of each place, the number of the gram that ends there, -1 where it occurs once
    at, key, groups = np.arange(len(token)), token, 0
    for shorter, k in pairwise((0, *MATCHES)):
        if k:
            gap = k - shorter
            at = at[at >= gap]
            at = at[group[at - gap] >= 0]
            key = group[at - gap] * groups + group[at]
        if not len(at):
            break
        again, before, once = _occurrences(key)
        here = at[again]
        whole[here] = k
        visible = here[at[before] - k >= earliest[here]]
        seen[visible] = k
        group[:] = -1
        group[at] = once
        groups = int(once.max()) + 1
        at = at[once >= 0]
    return whole, seen


def _occurrences(key: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of keys [m]: the indices of those that occurred before, the index of the last time before, and a number for each key that occurs
    at least twice (-1 for the others), numbered from 0; all int64, the last [m]."""
    bits = len(key).bit_length()
    if int(key.max()).bit_length() + bits <= _SIGNLESS:
        packed = np.sort(key << bits | np.arange(len(key)))
        order, ranked = packed & ((1 << bits) - 1), packed >> bits
    else:
        order = np.argsort(key, kind="stable")
        ranked = key[order]
    same = np.append(ranked[1:] == ranked[:-1], False)  # as the next one
    follows = np.append(False, same[:-1])
    once = np.empty(len(key), np.int64)
    once[order] = np.where(same | follows, np.cumsum(same & ~follows) - 1, -1)
    return order[follows], order[same], once


def inputs_shown(targets: Targets) -> np.ndarray:
    """How many inputs of the window that scores a target come before it: int32 [N]; 1 is BOS alone."""
    scored = targets.flat_target >= 0
    within = np.arange(len(targets.flat), dtype=np.int64) - np.repeat(targets.offsets[:-1], np.diff(targets.offsets))
    shown = np.zeros(len(targets), np.int32)
    shown[targets.flat_target[scored]] = within[scored]
    return shown


def _first_shown(position: np.ndarray, shown: np.ndarray, rows: bool) -> np.ndarray:
    """The first token of the document that the window shows as it is: a later window of a document has BOS in its place of one."""
    first = position.astype(np.int64) - shown
    return np.maximum(first, 0) if rows else first + (first > 0)


def _chunks(lengths: np.ndarray) -> list[int]:
    """Where chunks of whole documents begin, and the end: each of _CHUNK tokens or fewer, or one document."""
    edges, size = [0], 0
    for document, length in enumerate(lengths.tolist()):
        if size and size + length > _CHUNK:
            edges.append(document)
            size = 0
        size += length
    return [*edges, len(lengths)] if len(lengths) else []
