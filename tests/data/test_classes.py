"""Token classes against what their definitions say, place by place."""

from __future__ import annotations

import sys
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ostinato.data import rows
from ostinato.data.classes import MATCHES, classes, inputs_shown, longest_matches
from ostinato.data.targets import targets
from ostinato.study.records import Evaluate


def longest(document, place, first=0):
    """The definition: of the gram of k + 1 tokens that ends at `place`, an equal one that ends before it and begins at `first` or later."""
    found = -1
    for k in MATCHES:
        gram = document[place - k : place + 1]
        if place >= k and any(document[end - k : end + 1] == gram for end in range(first + k, place)):
            found = k
    return found


def twin(documents, firsts):
    return [longest(document, place, first) for document, begins in zip(documents, firsts, strict=True)
            for place, first in enumerate(begins)]  # fmt: skip


def flat(documents):
    return np.array([number * 64 + token for number, document in enumerate(documents) for token in document], np.int64)


texts = st.lists(st.one_of(st.lists(st.integers(0, 2), max_size=40), st.lists(st.just(0), max_size=80)), max_size=4)


@settings(max_examples=100)
@given(texts, st.integers(0, 30), st.booleans())
def test_matches_are_their_definition(documents, window, without_packing):
    firsts = [[max(0, place - window) for place in range(len(document))] for document in documents]
    starts = np.cumsum([0, *map(len, documents)])
    earliest = np.array([start + first for start, begins in zip(starts, firsts, strict=False) for first in begins], np.int64)
    with pytest.MonkeyPatch.context() as patch:
        if without_packing:  # keys that are too large to stand beside their place in one integer
            patch.setattr(sys.modules["ostinato.data.classes"], "_SIGNLESS", 0)
        whole, seen = longest_matches(flat(documents), earliest)
    assert whole.dtype == seen.dtype == np.int8 and (seen <= whole).all()
    assert whole.tolist() == twin(documents, [[0] * len(document) for document in documents])
    assert seen.tolist() == twin(documents, firsts)


def test_the_picture_in_the_docstring():
    document = [0, 1, 2, 3, 1, 2, 3, 4]
    assert longest_matches(flat([document]), np.zeros(8, np.int64))[0].tolist() == [-1, -1, -1, -1, 0, 1, 2, -1]


def test_every_length_from_one_long_copy():
    whole, _ = longest_matches(np.tile(np.arange(50), 2), np.zeros(100, np.int64))
    lengths = np.minimum(np.arange(50), 32)
    assert whole[:50].tolist() == [-1] * 50 and whole[50:].tolist() == [max(k for k in MATCHES if k <= n) for n in lengths]


def by_definition(prepared, found):
    """(match, in_view, shown) of every target, from the windows themselves."""
    stream, starts = prepared.tokens(found.part).astype(int).tolist(), prepared.doc_starts(found.part)
    shown, first = {}, {}
    for window in range(len(found.lengths)):
        tokens = found.flat[found.offsets[window] : found.offsets[window + 1]]
        which = found.flat_target[found.offsets[window] : found.offsets[window + 1]]
        for place in np.flatnonzero(which >= 0).tolist():
            target = int(which[place])
            document, position = int(found.document[target]), int(found.position[target])
            shown[target] = place
            back = 0  # inputs that are the document's own tokens, counted from the target backwards
            while back < place and back < position and tokens[place - 1 - back] == stream[starts[document] + position - 1 - back]:
                if found.row is None and place - 1 - back == 0 and position - 1 - back > 0:
                    break  # a BOS in front of a later window, whatever stood there
                back += 1
            first[target] = position - back
    result = []
    for target, (document, position) in enumerate(zip(found.document.tolist(), found.position.tolist(), strict=True)):
        text = stream[starts[document] : starts[document] + position + 1]
        result.append((longest(text, position), longest(text, position, first[target]), shown[target]))
    return np.array(result).T


@pytest.mark.parametrize(("packing", "evaluate", "context"), [
    ("contiguous", Evaluate(targets=600), 32), ("contiguous", Evaluate(stride=5, targets=600), 12),
    ("contiguous", Evaluate(windows="rows", targets=600), 40), ("best_fit", Evaluate(windows="rows", targets=600), 64),
])  # fmt: skip
def test_targets_of_every_kind_of_window(request, monkeypatch, packing, evaluate, context):
    prepared = request.getfixturevalue(packing)
    found = targets(prepared, "validation", evaluate, context)
    match, in_view, shown = by_definition(prepared, found)
    for chunk in (1 << 15, 50):  # all documents at once, and one or two at a time
        monkeypatch.setattr(sys.modules["ostinato.data.classes"], "_CHUNK", chunk)
        told = []
        made = classes(prepared, found, progress=lambda done, every, told=told: told.append((done, every)))
        assert (made.match == match).all() and (made.in_view == in_view).all() and (made.shown == shown).all()
        assert told[-1] == (len(found), len(found)) and len(told) == (1 if chunk > 50 else len(set(told)))
    assert (made.position == found.position).all() and len(made) == len(found)
    assert (in_view < match).any() or packing == "best_fit", "some matches are out of view, so that the two can differ"
    assert (in_view == match).all() or packing != "best_fit", "best-fit crops the ends of documents: what came before is in the row"


def test_bigram_repeat_is_a_match_of_one_or_more(contiguous):
    """R of the paper from sets of tokens and of pairs, without any search for matches."""
    found = targets(contiguous, "validation", Evaluate(), 64)
    made = classes(contiguous, found)
    stream, starts = contiguous.tokens("validation").astype(int).tolist(), contiguous.doc_starts("validation")
    repeat = {}
    for document in set(found.document.tolist()):
        text = stream[starts[document] : starts[document + 1]]
        tokens, pairs = {text[0]}, set()
        for position in range(1, len(text)):
            pair = (text[position - 1], text[position])
            repeat[document, position] = "bigram" if pair in pairs else "token" if text[position] in tokens else "new"
            tokens.add(text[position])
            pairs.add(pair)
    kinds = np.array([repeat[place] for place in zip(found.document.tolist(), found.position.tolist(), strict=True)])
    assert ((made.match >= 1) == (kinds == "bigram")).all() and ((made.match == 0) == (kinds == "token")).all()
    assert {"new", "token", "bigram"} == set(kinds.tolist())


def test_counts_are_of_targets_in_the_training_rows(best_fit):
    found = targets(best_fit, "validation", Evaluate(), 32)
    for context in (32, 16):
        counts = Counter(np.asarray(rows(best_fit, "train", context))[:, 1:].ravel().tolist())
        made = classes(best_fit, found, context)
        assert made.count.tolist() == [counts[token] for token in found.token.tolist()] and made.count.dtype == np.int64


def test_a_document_without_targets_and_a_part_without_documents(contiguous):
    from dataclasses import replace

    found = targets(contiguous, "validation", Evaluate(), 64)
    nothing = {name: getattr(found, name)[:0] for name in ("document", "position", "token", "bytes", "digest", "flat", "flat_target")}
    empty = replace(found, **nothing, offsets=np.zeros(1, np.int64))
    assert len(classes(contiguous, empty)) == 0 and len(inputs_shown(empty)) == 0
