from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ostinato.data import vocabulary as module
from ostinato.data.vocabulary import load, train
from ostinato.errors import DataError
from ostinato.study.bos import find_bos, size

STORIES = Path(__file__).parents[2].parent / "shared" / "data" / "models" / "stories260K" / "tokenizer.json"
TEXT = ["The layer runs again, and again. Numbers: 2024, 17; it's naïve café 🐕🐕!\n\n    indented\n"] * 3 + [
    "other words, other text " * 20
]


@pytest.fixture(scope="module")
def trained():
    return train(300, TEXT)


@pytest.fixture(scope="module")
def plain_json(trained):
    """A byte-level tokenizer.json that has no token like a BOS."""
    source = json.loads(trained.json)
    vocab = [token for token, _ in sorted(source["model"]["vocab"].items(), key=lambda item: item[1]) if token != "<|bos|>"]
    source["model"]["vocab"] = {token: i for i, token in enumerate(vocab)}
    source["added_tokens"] = []
    return source


def write(tmp_path, source) -> Path:
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(source), encoding="utf-8")
    return path


def test_the_vocabulary_has_exactly_the_size_that_was_asked_for(trained):
    assert trained.size == 300 == len(trained.token_bytes) and trained.bos == 0
    assert trained.token_bytes[0] == 0 and (trained.token_bytes[1:] > 0).all()
    assert sorted(text for text in trained.token_texts if len(text) == 1) == [bytes([i]) for i in range(256)]


def test_a_text_too_small_for_the_vocabulary_says_what_it_yields():
    with pytest.raises(DataError, match=r"yields a vocabulary of 2\d\d entries, not 5,000(.|\n)*bpe: 2\d\d"):
        train(5000, ["abc abc abd"])


def test_training_twice_gives_the_same_tokenizer(trained):
    assert train(300, TEXT).sha256 == trained.sha256 == train(300, iter(TEXT)).sha256
    assert train(300, [*TEXT, "abcabcabc " * 500]).sha256 != trained.sha256


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=80))
def test_any_text_comes_back_exactly_and_its_tokens_have_its_bytes(text):
    vocabulary = _shared()
    ids = vocabulary.encode(text)
    assert vocabulary.decode(ids) == text
    assert vocabulary.token_bytes[ids].sum() == len(text.encode())
    assert vocabulary.bos not in ids


_made: list = []


def _shared():
    if not _made:
        _made.append(train(300, TEXT))
    return _made[0]


def test_a_byte_of_a_command_line_that_is_not_utf8_is_read_as_in_a_corpus(trained):
    assert trained.decode(trained.encode("a\udcffb")) == "a\ufffdb"


def test_a_long_text_cut_into_pieces_encodes_as_in_one_piece(trained, monkeypatch):
    text = "word, !!\n\n\n   x\r\n\r\n  -- it's 12345\n" * 200 + "no line end " * 300 + "\n" + " " * 200 + "\n" + "\n" * 100 + "end"
    whole = trained.engine.encode(text, add_special_tokens=False).ids
    monkeypatch.setattr(module, "LONG", 50)
    assert len(list(module._pieces(text))) > 100
    assert trained.encode(text) == whole
    several = trained.encode_all([text, "", "short", text])
    assert [part.tolist() for part in several] == [whole, [], trained.encode("short"), whole]


def test_numbers_are_split_into_at_most_two_digits(trained):
    assert max(len(token) for token in trained.token_texts if token.strip().isdigit()) <= 2


def test_an_existing_tokenizer_without_bos_gets_one(tmp_path, plain_json, trained):
    vocabulary = load(write(tmp_path, plain_json))
    assert vocabulary.bos == 299 and vocabulary.size == 300 == size(plain_json) and "added" in vocabulary.policies["bos"]
    text = TEXT[0]
    assert [i + 1 for i in vocabulary.encode(text)] == trained.encode(text)
    assert vocabulary.token_bytes[299] == 0


@pytest.mark.parametrize("name", ["<s>", "<|endoftext|>", "<|begin_of_text|>"])
def test_an_existing_bos_is_found(tmp_path, plain_json, name):
    source = {
        **plain_json,
        "added_tokens": [
            {"id": 299, "content": name, "single_word": False, "lstrip": False, "rstrip": False, "normalized": True, "special": False}
        ],
    }
    vocabulary = load(write(tmp_path, source))
    assert vocabulary.bos == 299 and vocabulary.size == size(source) == 300 and "found" in vocabulary.policies["bos"]
    text = f"the literal {name} is text"
    ids = vocabulary.encode(text)
    assert vocabulary.bos not in ids and vocabulary.decode(ids) == text


def test_a_tokenizer_that_adds_bos_does_not_double_it(tmp_path, plain_json):
    source = json.loads(json.dumps(plain_json))
    source["added_tokens"] = [
        {"id": 299, "content": "<begin>", "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    ]
    source["post_processor"] = {
        "type": "Sequence",
        "processors": [
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
            {
                "type": "TemplateProcessing",
                "single": [{"SpecialToken": {"id": "<begin>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                "special_tokens": {"<begin>": {"id": "<begin>", "ids": [299], "tokens": ["<begin>"]}},
            },
        ],
    }
    assert find_bos(source)[0] == "<begin>"
    vocabulary = load(write(tmp_path, source))
    assert vocabulary.engine.encode("again").ids[0] == 299  # the library, left to itself, adds one
    assert vocabulary.bos == 299 and 299 not in vocabulary.encode("again")


def test_truncation_padding_and_dropout_of_the_file_are_switched_off(tmp_path, plain_json):
    source = json.loads(json.dumps(plain_json))
    source["truncation"] = {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0}
    source["padding"] = {
        "strategy": {"Fixed": 50},
        "direction": "Right",
        "pad_to_multiple_of": None,
        "pad_id": 0,
        "pad_type_id": 0,
        "pad_token": "!",
    }
    source["model"]["dropout"] = 0.5
    vocabulary = load(write(tmp_path, source))
    text = "again and again and again"
    assert len({tuple(vocabulary.encode(text)) for _ in range(5)}) == 1
    assert vocabulary.decode(vocabulary.encode(text)) == text


@pytest.mark.parametrize(
    ("content", "word"),
    [
        ("{", "not JSON"),
        ("[]", "no vocabulary"),
        ('{"vocab": {}}', "no vocabulary"),
        (
            '{"model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}, "pre_tokenizer": {"type": "Whitespace"}}',
            "bytes of every token",
        ),
        ('{"model": {"type": "BPE", "byte_fallback": true, "vocab": {"a": 0}}}', "cannot be loaded"),
    ],
)
def test_a_file_that_is_no_usable_tokenizer(tmp_path, content, word):
    path = tmp_path / "tokenizer.json"
    path.write_text(content)
    with pytest.raises(DataError, match=word):
        load(path)
    with pytest.raises(DataError, match="cannot be read"):
        load(tmp_path / "gone.json")


@pytest.mark.skipif(not STORIES.exists(), reason="needs ../shared/data/models/stories260K")
def test_a_tokenizer_with_byte_fallback_and_a_dummy_space():
    vocabulary = load(STORIES)
    assert (vocabulary.bos, vocabulary.size, vocabulary.prefix) == (1, 512, 1)
    text = "Once upon a time 🐕\n<s> there"
    ids = vocabulary.encode(text)
    assert ids[0] != 1 and 1 not in ids
    assert vocabulary.decode(ids) == " " + text
    assert vocabulary.token_bytes[ids].sum() == len(text.encode()) + 1
    assert (vocabulary.token_bytes[:3] == 0).all() and (vocabulary.token_bytes[3:259] == 1).all()
    assert vocabulary.token_bytes.dtype == np.int32
