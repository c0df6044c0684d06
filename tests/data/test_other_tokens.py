"""The same documents under another tokenizer: every byte is there, and what cannot be read back is refused."""

from __future__ import annotations

import numpy as np
import pytest

from ostinato.data.other_tokens import documents, with_vocabulary
from ostinato.data.targets import targets
from ostinato.data.vocabulary import Vocabulary, train
from ostinato.errors import DataError
from ostinato.study.records import Evaluate


@pytest.fixture(scope="module")
def other(small_text):
    return train(280, documents(small_text, "validation"))


def test_documents_are_those_of_the_text(small_text):
    text = (small_text.cache.parent / "text.txt").read_text().split("\n%%\n")
    found = documents(small_text, "validation")
    assert found and set(found) <= set(text)


def test_the_same_documents_and_bytes_in_other_tokens(small_text, other):
    made = with_vocabulary(small_text, "validation", other)
    assert documents(made, "validation") == documents(small_text, "validation")
    assert np.array_equal(made.doc_digests("validation"), small_text.doc_digests("validation"))
    ours, theirs = (targets(one, "validation", Evaluate(context=16), 16) for one in (small_text, made))
    assert ours.id != theirs.id and len(ours) != len(theirs) and ours.bytes.sum() == theirs.bytes.sum()
    for document in set(ours.document.tolist()):
        assert ours.bytes[ours.document == document].sum() == theirs.bytes[theirs.document == document].sum()
    assert with_vocabulary(small_text, "validation", other).path == made.path


def test_a_text_that_its_tokenizer_has_lost_is_refused(small_text, monkeypatch):
    monkeypatch.setattr(Vocabulary, "decode_bytes", lambda self, ids: b"something else")
    with pytest.raises(DataError, match="cannot be read back"):
        documents(small_text, "validation")
