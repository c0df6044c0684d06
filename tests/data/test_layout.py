"""Folders laid out as on the hub, as `save_to_disk` writes them, or any other way; the library itself is the twin where it can be."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ostinato.data.corpus import find
from ostinato.data.prepare import prepare
from ostinato.errors import DataError
from ostinato.study.records import Data, Tokenizer

CARD = """---
license: mit
configs:
- config_name: default
  default: true
  data_files:
  - split: train
    path: data/train-*
  - split: dev
    path: [data/dev-*.parquet]
- config_name: sample-1
  data_files:
  - split: train
    path: sample/**/*.parquet
---
# Text
"""


def rows(folder: Path, name: str, texts: list[str | None]) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": list(range(len(texts))), "text": pa.array(texts, pa.string())}), folder / name)


@pytest.fixture
def folder(tmp_path) -> Path:
    """Two files of train, one of dev, one of test, a configuration with a folder of its own, and a card."""
    place = tmp_path / "set"
    rows(place, "data/train-00000-of-00002.parquet", ["a", "b"])
    rows(place, "data/train-00001-of-00002.parquet", ["c", None, "d"])
    rows(place, "data/dev-00000-of-00001.parquet", ["e"])
    rows(place, "data/test-00000-of-00001.parquet", ["f"])
    rows(place, "sample/deep/x.parquet", ["g", "h"])
    (place / "README.md").write_text(CARD)
    return place


def texts(corpus: Path, cache: Path, **keys) -> list[str]:
    return [document.decode() for document in find(Data(corpus=str(corpus), **keys), cache).documents(Counter())]


def said(corpus: Path, cache: Path, **keys) -> str:
    with pytest.raises(DataError) as error:
        texts(corpus, cache, **keys)
    assert error.value.rule and error.value.fix
    return str(error.value)


def test_only_the_split_that_was_asked_for_is_read(folder, cache):
    assert texts(folder, cache) == ["a", "b", "c", "d"]
    assert texts(folder, cache, split="dev") == ["e"]
    assert texts(folder, cache, config="sample-1") == ["g", "h"]
    (folder / "README.md").unlink()
    assert texts(folder, cache) == ["a", "b", "c", "d"] and texts(folder, cache, split="test") == ["f"]
    assert find(Data(corpus=str(folder)), cache).origin == {"split": "train"}


@pytest.mark.parametrize("keys", [{}, {"split": "dev"}, {"config": "sample-1"}])
def test_it_is_what_the_library_reads(folder, cache, keys, monkeypatch):
    datasets = pytest.importorskip("datasets", reason="needs the extra `hub`")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(cache / "hf"))
    for streaming in (False, True):
        theirs = datasets.load_dataset(
            str(folder), keys.get("config"), split=keys.get("split", "train"), streaming=streaming, cache_dir=str(cache / "hf")
        )
        assert texts(folder, cache, **keys) == [row["text"] for row in theirs if row["text"] is not None]


def test_what_is_not_there_is_told_with_what_is(folder, cache):
    assert "its splits are train, dev" in said(folder, cache, split="deb") and "split: dev" in said(folder, cache, split="deb")
    assert "default, sample-1" in said(folder, cache, config="sample-10") and "config: sample-1" in said(folder, cache, config="sample-10")
    for file in (folder / "data").glob("train*"):
        file.unlink()
    assert "data/train-*, which its card names" in said(folder, cache)
    (folder / "README.md").write_text("---\nconfigs: [1\n---\n")
    assert "cannot be understood" in said(folder, cache)
    (folder / "README.md").unlink()
    assert "its splits are dev, test" in said(folder, cache)
    assert "no configuration 'x'" in said(folder, cache, config="x")


def test_files_that_are_all_called_by_a_split(tmp_path, cache):
    for name, text in (("train.jsonl", "a"), ("valid.jsonl", "b"), ("more/test.jsonl", "c")):
        (tmp_path / "set" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "set" / name).write_text(json.dumps({"text": text}) + "\n")
    assert texts(tmp_path / "set", cache) == ["a"] and texts(tmp_path / "set", cache, split="validation") == ["b"]
    (tmp_path / "set" / "more.jsonl").write_text('{"text": "d"}\n')  # one that is not: a folder of files, as any
    assert texts(tmp_path / "set", cache) == ["c", "d", "a", "b"]


def test_what_save_to_disk_wrote(tmp_path, cache):
    datasets = pytest.importorskip("datasets", reason="needs the extra `hub`")
    first = datasets.Dataset.from_dict({"text": [f"{number} words" for number in range(600)], "n": list(range(600))})
    second = datasets.Dataset.from_dict({"text": ["other"], "n": [1]})
    first.save_to_disk(str(tmp_path / "one"), num_shards=3)
    datasets.DatasetDict(train=first.select(range(10, 500)), test=second).save_to_disk(str(tmp_path / "both"))
    assert texts(tmp_path / "one", cache) == first["text"][:]
    assert texts(tmp_path / "both", cache) == first["text"][10:500] and texts(tmp_path / "both", cache, split="test") == ["other"]
    assert "its splits are train, test" in said(tmp_path / "both", cache, split="dev")
    assert "'text', 'n'" in said(tmp_path / "one", cache, field="body") and "int64, not text" in said(tmp_path / "one", cache, field="n")
    shard = tmp_path / "one" / "data-00001-of-00003.arrow"
    whole = shard.read_bytes()
    for cut in (len(whole) // 2, len(whole) - 8):
        shard.write_bytes(whole[:cut])
        assert "data-00001-of-00003.arrow, from row" in said(tmp_path / "one", cache)
    shard.unlink()
    assert "data-00001-of-00003.arrow is not there" in said(tmp_path / "one", cache)


def test_links_to_folders_are_followed_once_and_links_to_nothing_are_named(tmp_path, cache):
    place = tmp_path / "texts"
    place.mkdir()
    (tmp_path / "else").mkdir()
    (place / "a.txt").write_text("a")
    (tmp_path / "else" / "b.txt").write_text("b")
    (place / "more").symlink_to(tmp_path / "else")
    (place / "again").symlink_to(place)
    (tmp_path / "else" / "back").symlink_to(place)
    assert texts(place, cache) == ["a", "b"]
    (place / "loop.txt").symlink_to(place / "loop.txt")
    assert "loop.txt is a link to nothing" in said(place, cache)
    (tmp_path / "self").symlink_to(tmp_path / "self")
    assert "does not exist" in said(tmp_path / "self", cache)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_may_not_be_read_is_named(tmp_path, cache):
    (tmp_path / "texts" / "closed").mkdir(parents=True)
    (tmp_path / "texts" / "a.txt").write_text("a")
    (tmp_path / "texts" / "closed").chmod(0)
    assert "closed cannot be read" in said(tmp_path / "texts", cache)


def test_a_folder_of_markdown_is_text_and_beside_text_it_is_left_out(tmp_path, cache):
    place = tmp_path / "notes"
    place.mkdir()
    for name in ("README.md", "a.md", "b.md"):
        (place / name).write_text(name)
    assert texts(place, cache) == ["a.md", "b.md"]
    (place / "c.txt").write_text("c")
    assert texts(place, cache) == ["c"] and find(Data(corpus=str(place)), cache).left_out == {".md": 3}


def test_most_reads_whole_documents_from_the_start_and_hashes_only_what_it_reaches(tmp_path, cache):
    place = tmp_path / "texts"
    place.mkdir()
    for number in range(10):
        (place / f"{number}.txt").write_text("x" * 10)
    found = find(Data(corpus=str(place), most=35), cache)
    assert len(list(found.documents(Counter()))) == 3 and len(found.files) == 4
    (place / "7.txt").write_text("y" * 10)
    assert find(Data(corpus=str(place), most=35), cache).identity == found.identity != find(Data(corpus=str(place)), cache).identity
    counts: Counter[str] = Counter()
    assert len(list(find(Data(corpus=str(place), most=100), cache).documents(counts))) == counts["documents"] == 10
    counts = Counter()
    list(found.documents(counts))
    assert counts["documents"] == 3 and "more than most" in said(place, cache, most=4)


def test_the_manifest_says_what_was_chosen_and_what_was_left_out(folder, cache):
    rows(folder, "data/train-00000-of-00002.parquet", [f"document {number} of the training split" for number in range(60)])
    (folder / "data" / "notes.csv").write_text("1,2")
    prepared = prepare(Data(corpus=str(folder), tokenizer=Tokenizer(bpe=258), validation=0.1, held_out=0.1), cache)
    said = prepared.manifest["corpus"]
    assert said["origin"] == {"config": "default", "split": "train"} and said["left_out"] == {".csv": 1} and said["files"] == 2


def test_many_small_files_are_found_again_without_reading_them(tmp_path, cache, monkeypatch):
    from ostinato.data import corpus as module

    monkeypatch.setattr(module, "_SETTLED", -(10**12))
    place = tmp_path / "many"
    for number in range(1500):
        folder = place / f"{number % 30:02}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number:05}.txt").write_text(f"document {number}")
    first = find(Data(corpus=str(place)), cache)
    assert len(first.files) == 1500 and len(set(texts(place, cache))) == 1500
    monkeypatch.setattr(module, "_hashed", lambda *_: pytest.fail("hashed again"))
    assert find(Data(corpus=str(place)), cache).identity == first.identity
