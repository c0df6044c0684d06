"""Which document a position belongs to, the data's half of document masking: the ids of one document do not depend on another."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ostinato.data import document_ids

BOS = 0
document = st.lists(st.integers(1, 9), max_size=6).map(lambda tokens: [BOS, *tokens])


@given(st.lists(st.integers(1, 9), max_size=4), st.lists(document, min_size=1, max_size=5))
def test_every_position_knows_its_document(begun, documents):
    row = [*begun, *(token for tokens in documents for token in tokens)]
    expected = [0] * len(begun)
    for number, tokens in enumerate(documents, 1 if begun else 0):
        expected += [number] * len(tokens)
    assert document_ids(np.array([row]), BOS).tolist() == [expected]


@given(document, document, document)
def test_changing_what_is_in_a_leaves_the_boundaries_of_b(a, b, other):
    other = (other * len(a))[: len(a)]
    other = [BOS] + [token or 1 for token in other[1:]]  # as long as A, one document
    first, second = (document_ids(np.array([tokens + b]), BOS)[0] for tokens in (a, other))
    assert (first == second).all()
    same_document = first[:, None] == first
    assert not same_document[len(a) :, : len(a)].any() and same_document[len(a) :, len(a) :].all()


def test_rows_of_a_batch_do_not_share_ids():
    tokens = np.array([[BOS, 1, 2, BOS, 3], [4, 5, BOS, BOS, 6]], np.uint16)
    assert document_ids(tokens, BOS).tolist() == [[0, 0, 0, 1, 1], [0, 0, 1, 2, 2]]
    assert (document_ids(tokens[1:], BOS) == document_ids(tokens, BOS)[1:]).all()
