"""A tokenizer out of a Hugging Face folder: for planning and for preparing it is the same one, with the BOS that the folder names."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tokenizers import ByteLevelBPETokenizer

from ostinato.data.vocabulary import load
from ostinato.errors import DataError, StudyError
from ostinato.study.derive import vocab
from ostinato.study.records import Tokenizer

STORIES = Path(__file__).parents[2].parent / "shared" / "data" / "models" / "stories260K"
TEXTS = ["the layer runs again and again", "naïve café 🐕 (twice)", "x1 2024 <|endoftext|> -- !?"] * 20


@pytest.fixture(scope="module")
def engine():
    engine = ByteLevelBPETokenizer()
    engine.train_from_iterator(TEXTS, vocab_size=300, special_tokens=["<pad>", "<|endoftext|>"], show_progress=False)
    return engine


def put(folder: Path, name: str, content: dict) -> None:
    (folder / name).write_text(json.dumps(content), encoding="utf-8")


def both(folder: Path):
    """The vocabulary, after planning and preparing have agreed on its size."""
    vocabulary = load(folder)
    assert vocab(Tokenizer(file=str(folder))) == vocabulary.size
    return vocabulary


@pytest.mark.parametrize("declared", ["<pad>", {"content": "<pad>", "lstrip": False}, {"__type": "AddedToken", "content": "<pad>"}])
@pytest.mark.parametrize("file", ["tokenizer_config.json", "special_tokens_map.json"])
def test_bos_is_the_one_that_the_folder_names(tmp_path, engine, file, declared):
    engine.save(str(tmp_path / "tokenizer.json"))
    put(tmp_path, file, {"bos_token": declared, "eos_token": "<|endoftext|>"})
    vocabulary = both(tmp_path)
    assert vocabulary.bos == engine.token_to_id("<pad>") and "folder names" in vocabulary.policies["bos"]
    assert load(tmp_path / "tokenizer.json").bos == engine.token_to_id("<|endoftext|>")  # the file alone does not say


def test_bos_by_its_number_or_by_the_rule_for_files_or_added(tmp_path, engine):
    engine.save(str(tmp_path / "tokenizer.json"))
    put(tmp_path, "tokenizer_config.json", {"bos_token": None})
    assert both(tmp_path).bos == engine.token_to_id("<|endoftext|>")
    put(tmp_path, "config.json", {"bos_token_id": engine.token_to_id("<pad>")})
    assert both(tmp_path).bos == engine.token_to_id("<pad>")
    put(tmp_path, "tokenizer_config.json", {"bos_token": "<new>"})
    vocabulary = both(tmp_path)
    assert vocabulary.bos == engine.get_vocab_size() == vocabulary.size - 1 and vocabulary.token_bytes[vocabulary.bos] == 0


def test_vocab_and_merges_make_the_tokenizer_that_wrote_them(tmp_path, engine):
    engine.save_model(str(tmp_path))
    put(tmp_path, "special_tokens_map.json", {"bos_token": {"content": "<|endoftext|>"}, "pad_token": "<pad>"})
    put(tmp_path, "tokenizer_config.json", {"tokenizer_class": "GPT2Tokenizer"})
    vocabulary = both(tmp_path)
    assert vocabulary.bos == engine.token_to_id("<|endoftext|>") and vocabulary.size == engine.get_vocab_size()
    for text in (*TEXTS[:2], "a new word,\n  and spaces"):
        ids = vocabulary.encode(text)
        assert ids == engine.encode(text).ids and vocabulary.decode(ids) == text
    assert vocabulary.bos not in vocabulary.encode(TEXTS[2]) and vocabulary.decode(vocabulary.encode(TEXTS[2])) == TEXTS[2]
    put(tmp_path, "tokenizer_config.json", {"tokenizer_class": "Qwen2Tokenizer"})
    for attempt, kind in ((load, DataError), (lambda path: vocab(Tokenizer(file=str(path))), StudyError)):
        with pytest.raises(kind, match="Qwen2Tokenizer") as error:
            attempt(tmp_path)
        assert "AutoTokenizer" in error.value.fix and str(tmp_path) in error.value.fix


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("tokenizer.model", "x", ["SentencePiece", "save_pretrained"]),
        ("vocab.txt", "[CLS]", ["holds no tokenizer (vocab.txt)"]),
        ("tokenizer.json", "{", ["not JSON"]),
        ("tokenizer.json", "[]", ["no vocabulary"]),
    ],
)
def test_a_folder_without_a_tokenizer_that_can_be_read(tmp_path, name, content, words):
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError) as error:
        load(tmp_path)
    assert all(word in str(error.value) for word in words) and error.value.fix
    with pytest.raises(StudyError):
        vocab(Tokenizer(file=str(tmp_path)))


@pytest.mark.skipif(not STORIES.exists(), reason="needs ../shared/data/models/stories260K")
def test_a_real_folder_plans_without_torch_and_is_the_tokenizer_in_it(tmp_path):
    assert both(STORIES).sha256 == load(STORIES / "tokenizer.json").sha256 and both(STORIES).bos == 1
    study = tmp_path / "study.yaml"
    study.write_text(f"data: {{tokenizer: {{file: {STORIES}}}}}\nmodel: {{layers: 2, d_model: 32, heads: 2}}\narms: {{plain: {{}}}}\n")
    script = (
        "import sys; from ostinato import api; plan = api.Study.load(sys.argv[1]).plan(); "
        "assert plan.rows()[0]['vocab'] == 512; sys.exit(bool({'torch', 'transformers', 'datasets'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script, str(study)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
