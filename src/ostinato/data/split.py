"""Train, validation and held-out parts by whole documents, decided by the content of the documents alone.

Documents are walked in the order of their sha256. The held-out part takes them until its share of the bytes is reached, then the
validation part, and the rest is for training. Copies of a document go where the first goes, so no text is in two parts.

A document longer than an eighth of a part is passed over while there are others, then a quarter, then half, and none may carry a part
beyond its share by a quarter: one long document would be most of a small part, and intervals over documents need many.
"""

from __future__ import annotations

import numpy as np

from ostinato.errors import DataError

PARTS = ("train", "validation", "held_out")
MEASURED = PARTS[1:]  # those that a run is measured on
RULE = (
    "documents in the order of the sha256 of their text: held_out to its share of the bytes, then validation, then train; copies together; "
    "documents longer than an eighth of a part only when the others do not fill it"
)
_LARGEST = (1 / 8, 1 / 4, 1 / 2, 5 / 4)  # of a part's share
_BEYOND = 5 / 4


def split(digests: np.ndarray, sizes: np.ndarray, validation: float, held_out: float) -> tuple[np.ndarray, int]:
    """The part of each document, uint8 [N] as an index into PARTS, and how many documents are copies of an earlier one.

    digests: uint64 [N, 2], the first 128 bits of the sha256 of each document.  sizes: bytes, int64 [N].
    Raises DataError when there are fewer than three different documents.
    """
    _, group_of, copies = np.unique(digests, axis=0, return_inverse=True, return_counts=True)  # sorted: the order of the hashes
    group_of = group_of.reshape(-1)
    group_sizes = np.bincount(group_of, weights=sizes).astype(np.int64) if len(sizes) else np.zeros(0, np.int64)
    if len(copies) < len(PARTS):
        raise DataError(
            f"the text is {len(copies)} different document{'s' * (len(copies) != 1)}",
            "train, validation and held-out parts share no document, so there are at least three",
            r'give more files, or say what separates documents within a text file, for example separator: "\n\n"',
        )
    total = int(group_sizes.sum())
    part_of = np.zeros(len(copies), np.uint8)
    for part, share, others in ((2, held_out, 2), (1, validation, 1)):
        _fill(part_of, group_sizes, part, share * total, others)
    return part_of[group_of], int((copies - 1).sum())


def _fill(part_of: np.ndarray, sizes: np.ndarray, part: int, goal: float, others: int) -> None:
    """Give `part` its documents out of those without one (0), leaving at least `others` of them."""
    taken, spare = 0, int((part_of == 0).sum()) - others
    for largest in _LARGEST:
        for group in np.flatnonzero((part_of == 0) & (sizes <= largest * goal)).tolist():
            if taken >= goal or not spare:
                return
            if taken + sizes[group] <= goal * _BEYOND:
                part_of[group] = part
                taken += int(sizes[group])
                spare -= 1
    if not taken:  # every document is longer than the part should be
        free = np.flatnonzero(part_of == 0)
        part_of[free[np.argmin(sizes[free])]] = part
