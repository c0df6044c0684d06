from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ostinato.data import packing as module
from ostinato.data import rows
from ostinato.data.packing import best_fit as pack
from ostinato.data.packing import kept_documents, origins
from ostinato.errors import DataError


def naive(lengths, width, buffer):
    """The rule of best-fit, word for word, with a plain list."""
    following, waiting, out, row, room = 0, [], [], [], width
    while True:
        while len(waiting) < buffer and following < len(lengths):
            waiting.append(following)
            following += 1
        if not waiting:
            return out
        fits = [document for document in waiting if lengths[document] <= room]
        if fits:
            longest = max(lengths[document] for document in fits)
            document = min(document for document in fits if lengths[document] == longest)
            taken = longest
        else:
            shortest = min(lengths[document] for document in waiting)
            document = min(document for document in waiting if lengths[document] == shortest)
            taken = room
        waiting.remove(document)
        row.append((document, taken))
        room -= taken
        if not room:
            out, row, room = out + row, [], width


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(1, 40), max_size=60), st.integers(2, 20), st.integers(1, 12))
def test_best_fit_is_its_naive_twin(lengths, width, buffer):
    assert [tuple(entry) for entry in pack(np.array(lengths, np.int64), width, buffer).tolist()] == naive(lengths, width, buffer)


def test_best_fit_by_hand():
    # a row of 10: 7 fits best, then 3; then 12 and 11 are left, neither fits, the shorter is cropped
    assert pack(np.array([12, 3, 7, 11]), 10, 4).tolist() == [[2, 7], [1, 3], [3, 10], [0, 10]]


def test_best_fit_takes_a_million_documents_in_seconds():
    import time

    lengths = np.random.Generator(np.random.Philox(3)).integers(2, 2000, 200_000)
    began = time.process_time()
    taken = pack(lengths, 2049, 1000)
    assert time.process_time() - began < 5
    assert taken[:, 1].sum() % 2049 == 0 and taken[:, 1].sum() > 0.7 * lengths.sum()


def test_best_fit_rows_begin_with_bos_and_hold_documents_from_their_start(best_fit):
    packed = rows(best_fit, "train", 32)
    stream, starts = best_fit.tokens("train"), best_fit.doc_starts("train")
    assert (packed[:, 0] == best_fit.bos).all() and packed.shape[1] == 33 and packed.dtype == np.uint16
    where = origins(best_fit, "train", 32)
    assert (stream[where] == packed).all()
    assert len(np.unique(where)) == where.size  # no token twice
    begins = packed == best_fit.bos
    assert np.isin(where[begins], starts[:-1]).all()
    inside = ~begins.ravel()[1:]
    assert (np.diff(where.ravel())[inside] == 1).all()  # within a document, tokens follow each other


def test_rows_are_gathered_alike_in_small_chunks(best_fit, corpus, cache, make, monkeypatch):
    monkeypatch.setattr(module, "_CHUNK", 40)
    again = make(corpus, cache, packing="best-fit", buffer=16)
    assert (rows(again, "train", 32) == rows(best_fit, "train", 32)).all()


def test_contiguous_rows_make_every_token_a_target_once(contiguous):
    packed, stream = rows(contiguous, "train", 32), contiguous.tokens("train")
    used = len(packed) * 32
    assert len(stream) - 32 <= used + 1 <= len(stream)
    assert (packed[:, 1:].ravel() == stream[1 : used + 1]).all() and (packed[:, :-1].ravel() == stream[:used]).all()
    assert (stream[origins(contiguous, "train", 32)] == packed).all()
    assert not packed.flags.writeable


def test_rows_are_packed_once(best_fit, monkeypatch):
    first = rows(best_fit, "validation", 16)
    monkeypatch.setattr(module, "best_fit", lambda *_: pytest.fail("packed again"))
    assert (rows(best_fit, "validation", 16) == first).all()


def test_damaged_rows_are_noticed(corpus, cache, make):
    prepared = make(corpus, cache, packing="best-fit")
    rows(prepared, "train", 32)
    file = next((cache / "packed").glob("*/rows.npy"))
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(DataError, match=r"rows\.npy has been changed(.|\n)*rm -r"):
        rows(prepared, "train", 32)


def test_a_part_shorter_than_a_row(contiguous, best_fit):
    for prepared in (contiguous, best_fit):
        with pytest.raises(DataError, match="fewer than one row of 100,001"):
            rows(prepared, "held_out", 100_000)
        with pytest.raises(DataError, match="at least one target"):
            rows(prepared, "held_out", 0)
    with pytest.raises(DataError, match="no part 'test'"):
        rows(best_fit, "test", 8)


@pytest.mark.parametrize("packing", ["contiguous", "best-fit"])
def test_a_share_of_the_training_text_is_whole_documents_nested_and_measured_on_the_same(corpus, cache, make, packing):
    whole, half, tenth = (make(corpus, cache, packing=packing, training_share=share) for share in (1, 0.5, 0.1))
    starts, stream = whole.doc_starts("train"), whole.tokens("train")
    kept = [kept_documents(prepared, "train") for prepared in (whole, half, tenth)]
    assert set(kept[2]) < set(kept[1]) < set(kept[0]) and len(kept[0]) == len(starts) - 1
    sizes = [whole.token_bytes[stream[starts[i] : starts[i + 1]]].sum() for i in range(len(starts) - 1)]
    for prepared, share, documents in ((half, 0.5, kept[1]), (tenth, 0.1, kept[2])):
        taken, order = sum(sizes[i] for i in documents), np.argsort(whole.doc_digests("train"), kind="stable")
        last = [i for i in order if i in set(documents.tolist())][-1]
        assert taken - sizes[last] < share * sum(sizes) <= taken
        assert sorted(order[: len(documents)]) == documents.tolist()
        packed, where = rows(prepared, "train", 16), origins(prepared, "train", 16)
        assert (stream[where] == packed).all()
        assert set(np.searchsorted(starts, where.ravel(), "right") - 1) <= set(documents)
        assert (rows(prepared, "validation", 16) == rows(whole, "validation", 16)).all()
        assert prepared.text_fingerprint == whole.text_fingerprint and prepared.fingerprint != whole.fingerprint
        assert prepared.words is None and whole.words
    if packing == "contiguous":
        expected = np.concatenate([stream[starts[i] : starts[i + 1]] for i in kept[1]])
        packed = rows(half, "train", 16)
        assert (packed[:, :-1].ravel() == expected[: packed.shape[0] * 16]).all()
        assert (rows(half, "train", 24)[:, :-1].ravel()[:200] == expected[:200]).all()


def test_kept_documents_in_small_chunks(corpus, cache, make, monkeypatch):
    half = make(corpus, cache, training_share=0.5)
    expected = kept_documents(half, "train")
    monkeypatch.setattr(module, "_CHUNK", 40)
    assert (kept_documents(half, "train") == expected).all()


def test_a_share_too_small_for_a_row(corpus, cache, make):
    with pytest.raises(DataError, match=r"in a training_share of 0\.01, fewer than one row of 1,001"):
        rows(make(corpus, cache, training_share=0.01), "train", 1000)
