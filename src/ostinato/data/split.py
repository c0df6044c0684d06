"""Train, validation and held-out parts by whole documents, decided by the content of the documents alone.

Documents are walked in the order of their sha256. The held-out part takes them until its share of the bytes is reached, then the
validation part, and the rest is for training. Copies of a document go where the first goes, so no text is in two parts.

A document longer than an eighth of a part is passed over while there are others, then a quarter, then half, and none may carry a part
beyond its share by a quarter: one long document would be most of a small part, and intervals over documents need many.

The order of the hashes is made a stretch at a time, out of all documents that lie in it, so that memory does not grow with their number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from ostinato.errors import DataError
from ostinato.study.points import PARTS

RULE = (
    "documents in the order of the sha256 of their text: held_out to its share of the bytes, then validation, then train; copies together; "
    "documents longer than an eighth of a part only when the others do not fill it"
)
STRETCH = 1 << 20  # documents in memory at a time
_LARGEST = (1 / 8, 1 / 4, 1 / 2, 5 / 4)  # of a part's share
_BEYOND = 5 / 4

Chunks = Callable[[], Iterator[tuple[np.ndarray, np.ndarray]]]
"""Every call walks all documents: digests, uint64 [n, 2], the first 128 bits of the sha256, and sizes in bytes, int64 [n]."""


def split(digests: np.ndarray, sizes: np.ndarray, validation: float, held_out: float) -> tuple[np.ndarray, int]:
    """The part of each document, uint8 [N] as an index into PARTS, and how many documents are copies of an earlier one.

    digests: uint64 [N, 2]; sizes: int64 [N].  Raises DataError when there are fewer than three different documents.
    """
    part_of = np.zeros(len(sizes), np.uint8)
    return part_of, split_into(part_of, lambda: iter([(digests, sizes)]), validation, held_out)


def split_into(part_of: np.ndarray, chunks: Chunks, validation: float, held_out: float) -> int:
    """As `split`, of documents that are read in chunks, into `part_of`, uint8 [N] of zeros; returns the number of copies."""
    walk = _Walk(chunks, len(part_of))
    if walk.groups < len(PARTS):
        raise DataError(
            f"the text is {walk.groups} different document{'s' * (walk.groups != 1)}",
            "train, validation and held-out parts share no document, so there are at least three",
            r'give more files, or say what separates documents within a text file, for example separator: "\n\n"',
        )
    for part, share, others in ((2, held_out, 2), (1, validation, 1)):
        walk.fill(part, share * walk.bytes, others)
    walk.write(part_of)
    return len(part_of) - walk.groups


@dataclass
class _Stretch:
    """The different documents whose hash lies in one stretch, in the order of the hashes.

    members: places of the documents, int64 [n], and their group, int64 [n]; sizes: of the groups, copies added up, int64 [G].
    """

    members: np.ndarray
    group_of: np.ndarray
    sizes: np.ndarray


class _Walk:
    """All different documents in the order of their hashes, stretch by stretch, and the part that each has been given."""

    def __init__(self, chunks: Chunks, count: int):
        self.chunks = chunks
        self.bits = max(0, (count - 1).bit_length() - (STRETCH.bit_length() - 1))
        self.parts: dict[int, np.ndarray] = {}
        self._last: tuple[int, _Stretch] | None = None
        self.groups = self.bytes = self.given = 0
        for number in range(1 << self.bits):
            sizes = self.stretch(number).sizes
            self.groups, self.bytes = self.groups + len(sizes), self.bytes + int(sizes.sum())

    def stretch(self, number: int) -> _Stretch:
        """The stretch of hashes that begin with these bits."""
        if self._last and self._last[0] == number:
            return self._last[1]
        self._last = None
        found, first = [], 0
        for digests, sizes in self.chunks():
            inside = np.flatnonzero(digests[:, 0] >> np.uint64(64 - self.bits) == number) if self.bits else np.arange(len(sizes))
            found.append((inside + first, digests[inside], np.asarray(sizes)[inside]))
            first += len(sizes)
        members = np.concatenate([part[0] for part in found] or [np.zeros(0, np.int64)])
        digests = np.concatenate([part[1] for part in found] or [np.zeros((0, 2), np.uint64)])
        sizes = np.concatenate([part[2] for part in found] or [np.zeros(0, np.int64)])
        order = np.lexsort((digests[:, 1], digests[:, 0]))
        digests = digests[order]
        new = np.ones(len(order), bool)
        new[1:] = (digests[1:] != digests[:-1]).any(axis=1)
        group_of = np.cumsum(new) - 1
        group_sizes = np.add.reduceat(sizes[order], np.flatnonzero(new)) if len(order) else np.zeros(0, np.int64)
        self._last = number, _Stretch(members[order], group_of, group_sizes.astype(np.int64))
        return self._last[1]

    def free(self, number: int) -> np.ndarray:
        """Which groups of a stretch have no part yet: bool [G]."""
        sizes = self.stretch(number).sizes
        return self.parts[number] == 0 if number in self.parts else np.ones(len(sizes), bool)

    def give(self, number: int, group: int, part: int) -> None:
        self.parts.setdefault(number, np.zeros(len(self.stretch(number).sizes), np.uint8))[group] = part
        self.given += 1

    def fill(self, part: int, goal: float, others: int) -> None:
        """Give `part` its documents out of those without one, leaving at least `others` of them."""
        taken, spare = 0, self.groups - self.given - others
        for largest in _LARGEST:
            for number in range(1 << self.bits):
                if taken >= goal or not spare:
                    return
                sizes = self.stretch(number).sizes
                for group in np.flatnonzero(self.free(number) & (sizes <= largest * goal)).tolist():
                    if taken >= goal or not spare:
                        return
                    if taken + sizes[group] <= goal * _BEYOND:
                        self.give(number, group, part)
                        taken += int(sizes[group])
                        spare -= 1
        if not taken:  # every document is longer than the part should be
            self.give(*self._smallest(), part)

    def _smallest(self) -> tuple[int, int]:
        best: tuple[int, int, int] | None = None
        for number in range(1 << self.bits):
            free = np.flatnonzero(self.free(number))
            if len(free):
                sizes = self.stretch(number).sizes[free]
                place = int(np.argmin(sizes))
                if best is None or sizes[place] < best[0]:
                    best = int(sizes[place]), number, int(free[place])
        assert best
        return best[1:]

    def write(self, part_of: np.ndarray) -> None:
        """Every document's part; those of the training part stay 0."""
        for number in sorted(self.parts):
            stretch = self.stretch(number)
            part_of[stretch.members] = self.parts[number][stretch.group_of]
