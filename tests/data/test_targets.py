from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ostinato.data import rows
from ostinato.data.targets import document_windows, targets
from ostinato.errors import DataError
from ostinato.study.records import Evaluate, Tokenizer


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 200), st.integers(2, 40), st.data())
def test_windows_score_every_target_once_with_as_much_before_it_as_promised(length, context, data):
    stride = data.draw(st.integers(1, context - 1))
    windows = document_windows(length, context, stride)
    scored = [position for _, first, end in windows for position in range(first, end)]
    assert scored == list(range(1, length))
    for number, (begin, first, end) in enumerate(windows):
        assert 2 <= end - begin <= context + 1
        assert begin == 0 if number == 0 else end - begin == context + 1  # a later window is full
        assert first - begin >= (1 if number == 0 else 2)  # after BOS, at least one token of the document
        assert number == 0 or first - begin - 1 >= context - stride


def decoded(found, batch_tokens):
    """(target, inputs before it) of every scored place, out of batches."""
    out = []
    for tokens, where in found.batches(batch_tokens):
        assert tokens.dtype == where.dtype == np.int64 and tokens.shape == (where.shape[0], where.shape[1] + 1)
        assert where.size <= batch_tokens or len(where) == 1
        for row, places in zip(tokens, where, strict=True):
            for column in np.flatnonzero(places >= 0):
                assert row[column + 1] == found.token[places[column]]
                out.append((int(places[column]), row[: column + 1].tolist()))
    return out


@pytest.mark.parametrize("context,stride", [(8, 3), (32, None), (1000, 10)])
def test_document_targets_are_every_token_of_every_document_from_its_own_past(contiguous, context, stride):
    found = targets(contiguous, "validation", Evaluate(stride=stride), context)
    stream, starts = contiguous.tokens("validation").astype(int), contiguous.doc_starts("validation")
    assert len(found) == len(stream) - (len(starts) - 1)
    assert (found.token == stream[starts[found.document] + found.position]).all()
    order = np.lexsort((found.position, found.document))
    assert (order == np.arange(len(found))).all()
    seen = decoded(found, 500)
    assert sorted(place for place, _ in seen) == list(range(len(found)))
    for place, inputs in seen:
        begin, position = starts[found.document[place]], found.position[place]
        assert inputs[0] == contiguous.bos and contiguous.bos not in inputs[1:]
        past = inputs[1:]
        assert past == stream[begin + position - len(past) : begin + position].tolist()
        assert len(past) == position - 1 if position <= context else len(past) >= context - (stride or context // 2)


def test_batches_of_any_size_hold_the_same_windows_and_waste_little(contiguous):
    found = targets(contiguous, "validation", Evaluate(), 64)
    whole = sorted(decoded(found, 10**9))
    for size in (1, 64, 777):
        assert sorted(decoded(found, size)) == whole
    padded = sum(where.size for _, where in found.batches(256))
    assert padded < 1.3 * (found.offsets[-1] - len(found.lengths))
    with_all = found.windows, found.where
    assert with_all[0].shape == (len(found.lengths), 65) and with_all[0].dtype == np.int32
    assert np.sort(with_all[1][with_all[1] >= 0]).tolist() == list(range(len(found)))


@pytest.mark.parametrize("fixture", ["contiguous", "best_fit"])
def test_row_targets_are_the_packed_rows_of_training(request, fixture):
    prepared = request.getfixturevalue(fixture)
    packed = rows(prepared, "validation", 16)
    found = targets(prepared, "validation", Evaluate(windows="rows"), 16)
    assert (found.windows == packed).all()
    assert len(found) == (packed[:, 1:] != prepared.bos).sum()
    stream, starts = prepared.tokens("validation").astype(int), prepared.doc_starts("validation")
    assert (found.token == stream[starts[found.document] + found.position]).all()
    assert (np.diff(starts[found.document] + found.position) > 0).all()
    assert (found.windows[:, 1:][found.where >= 0] == found.token[found.where[found.where >= 0]]).all()
    assert prepared.bos not in found.token and (found.bytes > 0).all()
    assert all((found.row[found.where[row][found.where[row] >= 0]] == row).all() for row in range(len(packed)))
    assert targets(prepared, "validation", Evaluate(), 16).row is None


def test_bytes_are_those_of_the_text(contiguous):
    found = targets(contiguous, "held_out", Evaluate(), 32)
    assert found.bytes.sum() == contiguous.manifest["parts"]["held_out"]["bytes"]
    assert (found.bytes == contiguous.token_bytes[found.token]).all() and found.bytes.dtype == np.int32


def test_the_id_follows_targets_text_and_windows(contiguous, best_fit, corpus, cache, make):
    def of(prepared, part="validation", context=32, **evaluate):
        return targets(prepared, part, Evaluate(**evaluate), context).id

    plain = of(contiguous)
    assert of(contiguous) == plain
    assert of(best_fit) == plain  # documents on their own do not depend on packing
    assert targets(contiguous, "validation", Evaluate(context=32, batch=64, every="1k"), 99).id == plain
    others = {
        plain, of(contiguous, "held_out"), of(contiguous, context=33), of(contiguous, stride=3), of(contiguous, targets=900),
        of(contiguous, windows="rows"), of(best_fit, windows="rows"), of(make(corpus, cache, validation=0.2)),
    }  # fmt: skip
    assert len(others) == 8


def test_a_limit_takes_whole_documents_or_rows_at_random_but_always_the_same(contiguous):
    every = targets(contiguous, "validation", Evaluate(), 32)
    some = targets(contiguous, "validation", Evaluate(targets=900), 32)
    assert 500 < len(some) <= 900
    for document in np.unique(some.document):
        assert (some.document == document).sum() == (every.document == document).sum()
    assert set(np.unique(some.document)) != set(range(len(np.unique(some.document))))
    assert targets(contiguous, "validation", Evaluate(targets=900), 32).id == some.id
    few = targets(contiguous, "validation", Evaluate(targets=100, windows="rows"), 32)
    assert 64 <= len(few) <= 100 and len(few.lengths) == 3
    everything = targets(contiguous, "validation", Evaluate(targets=10**9), 32)
    assert everything.id == every.id
    for windows in ("documents", "rows"):
        with pytest.raises(DataError, match=r"no (document|row) of the validation part has so few(.|\n)*or more"):
            targets(contiguous, "validation", Evaluate(targets=1, windows=windows), 32)


@pytest.mark.parametrize("context,stride", [(1, 1), (10, 10), (10, 11)])
def test_windows_that_cannot_work_are_refused(contiguous, context, stride):
    with pytest.raises(DataError, match="evaluation windows of"):
        targets(contiguous, "validation", Evaluate(stride=stride), context)


def test_documents_have_the_same_digest_and_bytes_under_another_tokenizer(contiguous, corpus, cache, make):
    """What pairs two tokenizers: the text of a document, and that all of its bytes are scored."""
    one = targets(contiguous, "validation", Evaluate(), 32)
    other = targets(make(corpus, cache, tokenizer=Tokenizer(bpe=380), packing="contiguous"), "validation", Evaluate(), 32)
    assert one.id != other.id and len(one) > len(other)

    def sizes(found):
        digests, place = np.unique(found.digest, return_inverse=True)
        return dict(zip(digests.tolist(), np.bincount(place, found.bytes).tolist(), strict=True))

    assert sizes(one) == sizes(other) and len(sizes(one)) == len(np.unique(one.document))
