"""Evaluation targets: which tokens are predicted, from which inputs, and who they are, so that losses can be paired later.

documents: each document on its own. The first window is the document's first `context` tokens, which begin with its stored BOS. A later
           window is BOS again and the `context - 1` tokens that precede its last target; it scores the `stride` targets that no earlier
           window scored (the last window fewer, with as much before them as fits). So every window has exactly one BOS, in front,
           and every target of a document is scored exactly once: 20 tokens, context 10, stride 5 make windows that score 10, 5 and 4.

               tokens   B a b c d e f g h i j k l m n o p q r s      (B is the stored BOS)
               window 1 B a b c d e f g h i|j                         scores a..j
               window 2           B f g h i j k l m n|o               scores k..o
               window 3                   B j k l m n o p q r|s       scores p..s

rows:      the packed rows of training; every token of a row but the first is a target. Best-fit rows leave out what packing crops.

Tokens without bytes (BOS and other specials) are never scored. A document of one token has no targets.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ostinato.data.packing import origins, rows
from ostinato.data.prepared import Prepared
from ostinato.errors import DataError
from ostinato.study.records import Evaluate

ROWS = "rows of"
"""How the policy of `rows` begins."""


@dataclass(frozen=True, eq=False)
class Targets:
    """N targets of a part in the order of their document and position, and the windows that predict them.

    document, position: int32 [N], the document in the part and the place in its tokens (BOS is 0).  token, bytes: int32 [N].
    digest: uint64 [N], of the document's text: the same under every tokenizer, and no part of the id.
    row: int32 [N], which packed row a target is in (windows: rows), else None; no part of the id either.
    `id` is the sha256 of these, of the text and of `policy`, which states the windows in words.
    `flat` int32 holds the windows one after the other, window w being flat[offsets[w]:offsets[w + 1]], its inputs all but the last;
    `flat_target` int64, alike, holds the index of the target that a token is, or -1 where it is not scored here.
    """

    id: str
    part: str
    policy: str
    context: int
    bos: int
    document: np.ndarray
    position: np.ndarray
    token: np.ndarray
    bytes: np.ndarray
    digest: np.ndarray
    flat: np.ndarray
    flat_target: np.ndarray
    offsets: np.ndarray
    row: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.token)

    @cached_property
    def lengths(self) -> np.ndarray:
        """Inputs of each window: int64 [W]."""
        return np.diff(self.offsets) - 1

    def batches(self, batch_tokens: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Windows of like length, longest first: (tokens int64 [b, t + 1], where int64 [b, t]) with b * t <= batch_tokens or b = 1.

        Inputs are tokens[:, :-1] and targets tokens[:, 1:]; where is the index of each target, or -1 where it is not scored.
        A shorter window is filled up at the end with BOS, not scored. Every target occurs exactly once.
        """
        order = np.argsort(-self.lengths, kind="stable")
        first = 0
        while first < len(order):
            count = max(1, batch_tokens // int(self.lengths[order[first]]))
            yield self._dense(order[first : first + count])
            first += count

    @property
    def windows(self) -> np.ndarray:
        """All windows at once: int32 [W, T + 1], filled up at the end with BOS. For small parts; `batches` wastes less."""
        return self._dense(np.arange(len(self.lengths)))[0].astype(np.int32)

    @property
    def where(self) -> np.ndarray:
        """The target that each input of `windows` predicts: int64 [W, T], -1 where none is scored."""
        return self._dense(np.arange(len(self.lengths)))[1]

    def _dense(self, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        width = int(self.lengths[chosen].max()) + 1 if len(chosen) else 1
        within = np.arange(width) < (self.lengths[chosen] + 1)[:, None]
        index = np.where(within, self.offsets[chosen][:, None] + np.arange(width), 0)
        tokens = np.where(within, self.flat[index], self.bos).astype(np.int64) if len(chosen) else np.zeros((0, width), np.int64)
        where = np.where(within, self.flat_target[index], -1) if len(chosen) else np.zeros((0, width), np.int64)
        return tokens, where[:, 1:]


def targets(prepared: Prepared, part: str, evaluate: Evaluate, context: int) -> Targets:
    """The targets of a part as `evaluate` says. context: the recipe's, used unless `evaluate` gives its own. Raises DataError."""
    context = evaluate.context or context
    if evaluate.windows == "rows":
        return _row_targets(prepared, part, evaluate, context)
    stride = evaluate.stride or max(1, context // 2)
    check_windows(context, stride)
    starts, stream = prepared.doc_starts(part), prepared.tokens(part)
    scored = prepared.token_bytes > 0
    counts = np.add.reduceat(scored[stream].astype(np.int64), starts[:-1])
    chosen = _limit(counts, np.argsort(prepared.doc_digests(part), kind="stable"), evaluate.targets, f"document of the {part} part")
    policy = (
        f"each document on its own; windows of {context} inputs, each with exactly one BOS, in front: the document's own in its first "
        f"window, one put there in later windows; {stride} new targets a window; every target once; tokens without bytes not scored"
    )
    flat: list[np.ndarray] = []
    which: list[np.ndarray] = []
    identities: list[np.ndarray] = []
    count = 0
    for document in chosen.tolist():
        tokens = np.asarray(stream[starts[document] : starts[document + 1]], np.int64)
        positions = np.flatnonzero(scored[tokens[1:]]) + 1
        index = np.full(len(tokens), -1, np.int64)
        index[positions] = count + np.arange(len(positions))
        count += len(positions)
        identities.append(np.stack([np.full(len(positions), document), positions, tokens[positions]]))
        for begin, first, end in document_windows(len(tokens), context, stride):
            window = tokens[begin:end].copy()
            window[0] = prepared.bos
            flat.append(window.astype(np.int32))
            which.append(np.where(np.arange(begin, end) >= first, index[begin:end], -1))
    identity = np.concatenate(identities, 1) if identities else np.zeros((3, 0), np.int64)
    return _targets(prepared, part, policy, context, identity, flat, which)


def document_windows(length: int, context: int, stride: int) -> list[tuple[int, int, int]]:
    """Windows over `length` tokens as (begin, first, end): tokens begin:end, of which the first becomes BOS, score first:end."""
    if length < 2:
        return []
    end = min(length, context + 1)
    windows = [(0, 1, end)]
    while end < length:
        first, end = end, min(length, end + stride)
        windows.append((end - context - 1, first, end))
    return windows


def check_windows(context: int, stride: int) -> None:
    """Raises DataError for windows that could not score every target after at least one token of its document."""
    if context < 2 or not 1 <= stride < context:
        raise DataError(
            f"evaluation windows of {context} inputs with {stride} new targets each",
            "a window has at least 2 inputs, one of them BOS, and a stride from 1 to its inputs less one",
            "set evaluate.context and evaluate.stride, for example to half the context",
        )


def _row_targets(prepared: Prepared, part: str, evaluate: Evaluate, context: int) -> Targets:
    packed, source = rows(prepared, part, context), origins(prepared, part, context)
    starts = prepared.doc_starts(part)
    scored = prepared.token_bytes > 0
    counts = scored[packed[:, 1:]].sum(1, dtype=np.int64)
    order = np.argsort(np.random.Philox(key=0).random_raw(len(packed)), kind="stable")
    chosen = _limit(counts, order, evaluate.targets, f"row of the {part} part")
    tokens, source = np.asarray(packed[chosen], np.int64), source[chosen]
    counted = scored[tokens]
    counted[:, 0] = False
    places = source[counted]
    order = np.argsort(places, kind="stable")
    index = np.full(tokens.shape, -1, np.int64)
    ranks = np.empty(len(places), np.int64)
    ranks[order] = np.arange(len(places))
    index[counted] = ranks
    places = places[order]
    document = np.searchsorted(starts, places, "right") - 1
    identity = np.stack([document, places - starts[document], tokens[counted][order]])
    buffer = f" (buffer {prepared.data.buffer})" if prepared.data.packing == "best-fit" else ""
    policy = f"{ROWS} {context} inputs, packed as in training: {prepared.data.packing}{buffer}; tokens without bytes not scored"
    found = _targets(prepared, part, policy, context, identity, list(tokens.astype(np.int32)), list(index))
    return replace(found, row=np.nonzero(counted)[0][order].astype(np.int32))


def _limit(counts: np.ndarray, order: np.ndarray, most: int | None, what: str) -> np.ndarray:
    """Which documents or rows are used, ascending: all, or in `order` those that fit into `most` targets."""
    if most is None:
        return np.arange(len(counts))
    chosen, taken = [], 0
    for candidate in order.tolist():
        if taken + counts[candidate] <= most:
            chosen.append(candidate)
            taken += int(counts[candidate])
    if not taken:
        fewest = int(min(counts[counts > 0], default=1))
        raise DataError(
            f"evaluate.targets is {most:,}, and no {what} has so few",
            "targets are limited by whole documents or rows",
            f"set evaluate.targets to {fewest:,} or more, or leave it out",
        )
    return np.sort(np.array(chosen, np.int64))


def _targets(
    prepared: Prepared, part: str, policy: str, context: int, identity: np.ndarray, flat: list[np.ndarray], which: list[np.ndarray]
) -> Targets:
    document, position, token = (np.ascontiguousarray(row, np.int32) for row in identity)
    size = prepared.token_bytes[token].astype(np.int32)
    size[position == 1] -= prepared.vocabulary.prefix  # a space that the tokenizer put there is no byte of the text
    digest = hashlib.sha256(json.dumps([prepared.text_fingerprint, part, policy]).encode())
    for array in (document, position, token, size):
        digest.update(array.astype("<i4").tobytes())
    offsets = np.concatenate([[0], np.cumsum([len(window) for window in flat], dtype=np.int64)]).astype(np.int64)
    return Targets(
        digest.hexdigest(), part, policy, context, prepared.bos, document, position, token, size, prepared.doc_digests(part)[document],
        np.concatenate(flat) if flat else np.zeros(0, np.int32), np.concatenate(which) if which else np.zeros(0, np.int64), offsets,
    )  # fmt: skip
