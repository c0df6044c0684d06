from __future__ import annotations

import os
import time
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ostinato.data import corpus as module
from ostinato.errors import DataError
from ostinato.study.records import Data


def find(name, field, separator, cache, **keys):
    return module.find(Data(corpus=name, field=field, separator=separator, **keys), cache)


def test_a_folder_is_read_in_the_order_of_names_through_subfolders(tmp_path, cache):
    folder = tmp_path / "texts"
    (folder / "b").mkdir(parents=True)
    (folder / ".git").mkdir()
    for name, text in (("c.txt", "third"), ("a.txt", "first"), ("b/z.txt", "second"), (".git/x.txt", "no"), ("README.md", "no")):
        (folder / name).write_text(text)
    corpus = find(str(folder), "text", None, cache)
    assert list(corpus.documents(Counter())) == [b"first", b"second", b"third"]


def test_identity_follows_the_content_and_how_it_is_read_not_the_path(tmp_path, cache):
    one, two = tmp_path / "one.txt", tmp_path / "two.txt"
    one.write_text("a|b|c")
    two.write_text("a|b|c")
    same = find(str(one), "text", None, cache).identity
    assert find(str(two), "text", None, cache).identity == same
    assert find(str(two), "other", None, cache).identity == same  # a text file has no fields
    assert find(str(two), "text", "|", cache).identity != same
    assert not (cache / "hashes").exists()  # files just written may change again within one tick of their clock
    two.write_text("a|b|d")  # as many bytes, a moment later
    assert find(str(two), "text", None, cache).identity != same


def test_a_hash_is_remembered_until_the_file_changes(tmp_path, cache, monkeypatch):
    monkeypatch.setattr(module, "_SETTLED", -(10**12))  # as if the file had been written long ago
    path = tmp_path / "a.txt"
    path.write_text("a|b|c")
    first = find(str(path), "text", None, cache).identity
    assert len(list((cache / "hashes").iterdir())) == 1
    memory = next((cache / "hashes").iterdir())
    memory.write_text("torn{")
    assert find(str(path), "text", None, cache).identity == first
    time.sleep(0.02)
    path.write_text("a|b|d")
    assert find(str(path), "text", None, cache).identity != first


def test_errors_say_what_is_there_and_what_to_do(tmp_path, cache):
    def said(name, separator=None):
        with pytest.raises(DataError) as error:
            find(str(name), "text", separator, cache)
        return str(error.value)

    (tmp_path / "empty").mkdir()
    assert "holds no text (nothing)" in said(tmp_path / "empty")
    (tmp_path / "csv").mkdir()
    (tmp_path / "csv" / "a.csv").write_text("a,b")
    assert "1 .csv" in said(tmp_path / "csv")
    (tmp_path / "mixed").mkdir()
    (tmp_path / "mixed" / "a.txt").write_text("a")
    pq.write_table(pa.table({"text": ["a"]}), tmp_path / "mixed" / "b.parquet")
    assert "1 Parquet, 1 text" in said(tmp_path / "mixed")
    assert "did you mean python-docs?" in said("pyton-docs")
    assert "does not exist" in said("texts/gone.jsonl")
    assert "does not exist" in said("/nowhere/at/all")
    assert "separator is empty" in said(tmp_path, "")


def test_a_pipe_or_a_device_is_refused_at_once(tmp_path, cache):
    os.mkfifo(tmp_path / "pipe")
    for path in (str(tmp_path / "pipe"), "/dev/zero"):
        with pytest.raises(DataError, match="neither a file nor a folder"):
            find(path, "text", None, cache)
