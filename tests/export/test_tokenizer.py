"""A tokenizer of somebody else's, with byte fallback and a dummy space: an export's gives the ids of the run and its BOS."""

from __future__ import annotations

from pathlib import Path

import pytest

from ostinato.data.vocabulary import load
from ostinato.export.tokenizer import tokenizer_files
from ostinato.files import as_json

STORIES = Path(__file__).parents[3] / "shared" / "data" / "models" / "stories260K"


@pytest.mark.skipif(not STORIES.is_dir(), reason="needs ../shared/data/models/stories260K")
def test_byte_fallback(tmp_path):
    transformers = pytest.importorskip("transformers")
    vocabulary = load(STORIES)
    for name, content in tokenizer_files(vocabulary, 64).items():
        (tmp_path / name).write_text(as_json(content), encoding="utf-8")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert tokenizer.bos_token_id == vocabulary.bos == 1
    for text in ("Once upon a time", "  two  spaces\n\tx", "naïve 日本 👍", "<s> is spelt, and </s>", ""):
        ids = tokenizer(text).input_ids
        assert ids == [1, *vocabulary.encode(text)] and tokenizer.decode(ids, skip_special_tokens=True) == text
