"""Minimal pairs: the log-probability of every sentence, from one forward pass in two conventions (Warstadt et al., BLiMP, 2020).

    bos          one BOS in front, and every token of the sentence is scored
    skip_first   the same, but the first token is not scored

Log-probabilities are summed and not divided by the length; nothing is scored after the last token. Pipelines without a BOS score all tokens
but the first, too, but show the model no BOS: our models have seen no text without one. A model that has no BOS is scored so.

Sentences of like length share a batch, the longest first, filled up at the end, where a causal model looks at nothing; sentences that are
the same tokens are scored once, so that they tie exactly.

Shapes, as suffixes of names: S different sentences, B those of a pass, T inputs, N pairs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import torch

from ostinato.data.minimal_pairs import MinimalPairs, read_once
from ostinato.errors import DataError
from ostinato.measure.context import Context, Progress, Taken
from ostinato.measure.halving import halving
from ostinato.measure.subject import Subject

Encode = Callable[[Sequence[str]], Sequence[np.ndarray]]
"""From texts to the ids of each, without BOS or other specials."""
CPU_TOKENS = 2048
"""Of one forward pass on a CPU at most: the streams of a pass of short sentences then stay in its caches; decision 0163."""
ALIKE = 0.8
"""The shortest sentence of a pass has this share of the longest one's tokens, or more: less is filled up where sentences are few."""


def take(subject: Subject, context: Context) -> Taken:
    """The measure `pairs` of the study's pairs. Raises DataError as `read_once` and `measure_pairs` do."""
    if context.measure.pairs is None or context.vocabulary is None:
        raise DataError("no minimal pairs are named", "pairs are scored with the model's tokenizer", "pairs: blimp, or a folder of them")
    pairs = read_once(context.measure.pairs)
    table = measure_pairs(subject, pairs, context.vocabulary.encode_all, context.batch, context.progress)
    return Taken(table, {"source": pairs.source, "bos": subject.bos is not None}, {"content": pairs.id[:16]})


def measure_pairs(subject: Subject, pairs: MinimalPairs, encode: Encode, batch_tokens: int, progress: Progress | None = None) -> pa.Table:
    """One row a pair: paradigm, field, term, pair, identical (the same text); float64 nats good_bos, bad_bos, good_skip_first,
    bad_skip_first, the log-probabilities (0 or less; those of `bos` null without a BOS); good_tokens, bad_tokens, without BOS.

    batch_tokens: of one forward pass at most (one sentence at least), on a CPU no more than CPU_TOKENS, halved where memory runs out; sums
    do not depend on it beyond 1e-6.
    progress(done, all): tokens.  Raises DataError for ids that the model does not know and for sentences longer than it reads,
    TrainingError where one sentence does not fit.
    """
    texts = list(dict.fromkeys((*pairs.good, *pairs.bad)))
    which, sentences = _different(encode(texts))
    place = dict(zip(texts, which, strict=True))
    _check(texts, which, sentences, subject)
    found_S2, lengths_S = _score(subject, sentences, batch_tokens, progress), np.array([len(ids) for ids in sentences])
    columns = {name: pa.array(getattr(pairs, name)).dictionary_encode() for name in ("paradigm", "field", "term")}
    columns |= {"pair": pa.array(pairs.pair, pa.int32()), "identical": pa.array(pairs.identical)}
    sides = {name: np.array([place[text] for text in getattr(pairs, name)], np.int64) for name in ("good", "bad")}
    for number, convention in enumerate(("bos", "skip_first")):
        for side, where_N in sides.items():
            values_N = found_S2[where_N, number]
            columns[f"{side}_{convention}"] = pa.array(values_N, pa.float64(), mask=np.isnan(values_N) if subject.bos is None else None)
    columns |= {f"{side}_tokens": pa.array(lengths_S[where_N], pa.int32()) for side, where_N in sides.items()}
    return pa.table(columns)


def _different(encoded: Sequence[np.ndarray]) -> tuple[list[int], list[np.ndarray]]:
    """Which sentence each text is, and the different ones."""
    sentences: dict[bytes, int] = {}
    which = [sentences.setdefault(np.asarray(ids, np.int64).tobytes(), len(sentences)) for ids in encoded]
    return which, [np.frombuffer(ids, np.int64) for ids in sentences]


def _check(texts: Sequence[str], which: Sequence[int], sentences: Sequence[np.ndarray], subject: Subject) -> None:
    highest = max((int(ids.max()) for ids in sentences if len(ids)), default=0)
    if highest >= subject.vocab:
        what = f"a sentence has token {highest:,}, and {subject.name} has a vocabulary of {subject.vocab:,}"
        raise DataError(what, "sentences are read with the tokenizer of the model", "name the tokenizer that it was trained with")
    shown = int(subject.bos is not None)
    long = [text for text, at in zip(texts, which, strict=True) if len(sentences[at]) + shown - 1 > (subject.context or math.inf)]
    if long:
        what = f"{len(long):,} sentences are longer than the {subject.context:,} positions of {subject.name}, one of them {long[0][:60]!r}…"
        raise DataError(what, "a sentence is scored whole", "leave their pairs out of the folder; arms are compared on the same pairs")


def _score(subject: Subject, sentences: Sequence[np.ndarray], batch_tokens: int, progress: Progress | None) -> np.ndarray:
    """Log-probabilities [S, 2] of every sentence: with its first token, and without; NaN with it where there is no BOS to see before it."""
    lengths_S, shown = np.array([len(ids) for ids in sentences]), int(subject.bos is not None)
    flat, starts_S, inputs_S = np.concatenate(sentences), np.cumsum(lengths_S) - lengths_S, np.maximum(lengths_S + shown - 1, 0)
    order = np.argsort(-inputs_S, kind="stable")[: np.count_nonzero(inputs_S)]
    starts, inputs, total = starts_S[order], inputs_S[order], int(inputs_S.sum())  # of those with something to score, the longest first
    found_S2 = np.zeros((len(sentences), 2))
    found_S2[:, 0] = 0 if shown else np.nan
    at, done, fits = 0, 0, min(batch_tokens, CPU_TOKENS) if subject.device.type == "cpu" else batch_tokens
    while at < len(order):
        width = int(inputs[at])
        alike = int(np.count_nonzero(inputs[at : at + fits] >= ALIKE * width))
        rows = min(max(1, fits // width), alike)

        def work(count: int, at: int = at) -> np.ndarray:
            arrays = _batch(flat, starts[at : at + count], inputs[at : at + count], subject.bos)
            with torch.no_grad():
                nats_BT = subject.losses(*(torch.from_numpy(array).to(subject.device) for array in arrays))
                return -torch.stack([nats_BT[:, shown:].sum(1), nats_BT[:, 0]]).double().cpu().numpy()

        (rest_B, first_B), taken = halving(rows, work, subject.device, "scoring minimal pairs", "take a device with more memory")
        fits = taken * width if taken < rows else fits
        found_S2[order[at : at + taken], 1] = rest_B
        if shown:
            found_S2[order[at : at + taken], 0] = rest_B + first_B
        done, at = done + int(inputs[at : at + taken].sum()), at + taken
        if progress:
            progress(done, total)
    return found_S2


def _batch(flat: np.ndarray, starts_B: np.ndarray, inputs_B: np.ndarray, bos: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets, int64 [B, T], of sentences that begin at `starts` of `flat`; beyond a sentence 0 and -1 (not scored)."""
    shown, width = int(bos is not None), int(inputs_B[0])
    index_BT = starts_B[:, None] + np.arange(1 - shown, width + 1 - shown)
    wanted_BT = np.where(np.arange(width) < inputs_B[:, None], flat[np.minimum(index_BT, len(flat) - 1)], -1)
    before_B1 = flat[starts_B, None] if bos is None else np.full((len(starts_B), 1), bos)
    return np.concatenate([before_B1, np.maximum(wanted_BT[:, :-1], 0)], 1), wanted_BT
