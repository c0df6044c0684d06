"""Text that is not what it says, not all there, or that changes while it is prepared: an error that names the place, never a traceback."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ostinato.data.corpus import find
from ostinato.data.prepare import prepare
from ostinato.data.vocabulary import load
from ostinato.errors import DataError
from ostinato.study.records import Data, Tokenizer

TEXTS = [f"document {number} " + "lorem ipsum dolor " * 60 for number in range(1500)]


def read(path: Path, cache: Path, **keys) -> list[bytes]:
    return list(find(Data(corpus=str(path), **keys), cache).documents(Counter()))


def said(path: Path, cache: Path, **keys) -> str:
    with pytest.raises(DataError) as error:
        read(path, cache, **keys)
    assert error.value.rule and error.value.fix and str(path) in error.value.what
    return str(error.value)


# --- changed while it is read


def written(path: Path) -> Path:
    if path.suffix == ".txt":
        path.write_text("\n\n".join(TEXTS))
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    elif path.suffix == ".parquet":
        pq.write_table(pa.table({"text": TEXTS}), path, row_group_size=100, compression="none", use_dictionary=False)
    else:
        with pa.OSFile(str(path), "wb") as out, pa.ipc.new_stream(out, pa.schema([("text", pa.string())])) as writer:
            for start in range(0, len(TEXTS), 100):
                writer.write_batch(pa.record_batch({"text": TEXTS[start : start + 100]}))
    return path


CUT = """
import os, sys
from pathlib import Path
from collections import Counter
from ostinato.data.corpus import find
from ostinato.errors import DataError
from ostinato.study.records import Data
path = sys.argv[1]
corpus = find(Data(corpus=path, separator="\\n\\n" if path.endswith("txt") else None), Path(sys.argv[2]))
try:
    for number, _ in enumerate(corpus.documents(Counter())):
        if number == 20:
            os.truncate(path, os.path.getsize(path) // 4)
except DataError as error:
    sys.exit(2)
sys.exit(0 if not corpus.unchanged() else 3)
"""


@pytest.mark.parametrize("name", ["a.txt", "a.parquet", "a.arrow"])
def test_a_file_that_is_cut_short_while_it_is_read_does_not_end_the_process(tmp_path, name):
    path = written(tmp_path / name)
    done = subprocess.run([sys.executable, "-c", CUT, str(path), str(tmp_path / "cache")], capture_output=True, text=True)
    assert done.returncode in (0, 2), (done.returncode, done.stderr)  # a bus error is a negative number


@pytest.mark.parametrize("tokenizer", [Tokenizer(bpe=270), None])
def test_a_file_that_changes_in_its_first_reading_is_not_kept_under_its_old_hash(tmp_path, write_jsonl, tokenizer):
    path, changed = write_jsonl(tmp_path / "a.jsonl", [text[:60] for text in TEXTS]), []
    given = Tokenizer(file=str(byte_level(tmp_path / "tokenizer.json"))) if tokenizer is None else tokenizer

    def progress(stage: str, done: int, total: int) -> None:
        if stage in ("reading the text", "encoding") and not changed and done:
            changed.append(stage)
            path.write_bytes(path.read_bytes() + b'{"text": "one more"}\n')

    with pytest.raises(DataError, match="changed while it was being read"):
        prepare(Data(corpus=str(path), tokenizer=given), tmp_path / "cache", progress)
    assert changed
    assert (
        prepare(Data(corpus=str(path), tokenizer=given), tmp_path / "cache").manifest["policies"]["counts"]["documents"] == len(TEXTS) + 1
    )


def test_a_file_that_is_only_touched_while_it_is_read_is_the_same(tmp_path, write_jsonl):
    path = write_jsonl(tmp_path / "a.jsonl", [text[:60] for text in TEXTS])
    prepare(Data(corpus=str(path), tokenizer=Tokenizer(bpe=270)), tmp_path / "cache", lambda *_: os.utime(path))


# --- not all there


def test_a_missing_file_of_many_is_named(tmp_path):
    for number in (0, 2):
        pq.write_table(pa.table({"text": TEXTS[number * 10 : number * 10 + 10]}), tmp_path / f"train-{number:05}-of-00003.parquet")
    told = said(tmp_path, tmp_path / "cache")
    assert "train-00001-of-00003.parquet" in told and "most:" in told
    assert len(read(tmp_path, tmp_path / "cache", most=10**9)) == 20


@pytest.mark.parametrize(
    "files",
    ["[{split: train}]", "[{path: data/*}]", "5", "[{split: train, path: data/*}, 7]", "[{split: train, path: {a: b}}]", "'data/[z-a]*'"],
)
def test_a_card_that_makes_no_sense_is_named(tmp_path, files):
    written(tmp_path / "a.jsonl")
    (tmp_path / "README.md").write_text(f"---\nconfigs:\n- config_name: default\n  data_files: {files}\n---\n")
    assert "README.md cannot be understood" in said(tmp_path, tmp_path / "cache")


def test_a_card_may_give_files_by_split(tmp_path, write_jsonl):
    for name in ("one", "two"):
        write_jsonl(tmp_path / f"{name}.jsonl", [name])
    (tmp_path / "README.md").write_text("---\nconfigs:\n- data_files: {train: one*, test: [two*]}\n---\n")
    assert [read(tmp_path, tmp_path / "cache", split=split) for split in ("train", "test")] == [[b"one"], [b"two"]]


def test_rows_without_text_are_counted_in_the_error(tmp_path):
    pq.write_table(pa.table({"text": pa.array([None] * 9, pa.string())}), tmp_path / "a.parquet")
    with pytest.raises(DataError, match="9 rows without one"):
        prepare(Data(corpus=str(tmp_path / "a.parquet"), tokenizer=Tokenizer(bpe=270)), tmp_path / "cache")


def test_a_folder_that_may_not_be_entered_is_no_matter_of_the_cache(tmp_path, monkeypatch):
    def closed(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "is_dir", closed)
    assert "cannot be read: Permission denied" in said(tmp_path / "a.txt", tmp_path / "cache")


# --- not what it says


def test_an_encoding_that_cannot_be_is_refused(tmp_path):
    (tmp_path / "a.txt").write_bytes("été à la ".encode("latin-1") * 99)
    assert "neither UTF-8 nor utf-16" in said(tmp_path / "a.txt", tmp_path / "cache", encoding="utf-16")


def test_for_columns_and_tar_files_no_encoding_is_advised(tmp_path):
    wrong = pa.array([b"caf\xe9 \xe8\xe9\xea\xeb"] * 9).view(pa.string())
    pq.write_table(pa.table({"text": wrong}), tmp_path / "a.parquet")
    with tarfile.open(tmp_path / "a.tar", "w") as out:
        member = tarfile.TarInfo("a.txt")
        member.size = 500
        out.addfile(member, io.BytesIO(b"\xe9" * 500))
    for name in ("a.parquet", "a.tar"):
        told = said(tmp_path / name, tmp_path / "cache", encoding="latin-1")
        assert "latin-1" not in told and "in UTF-8" in told


def test_two_columns_of_one_name(tmp_path):
    pq.write_table(pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["text", "text"]), tmp_path / "a.parquet")
    assert "2 columns 'text'" in said(tmp_path / "a.parquet", tmp_path / "cache")


def test_a_table_without_any_text_does_not_ask_for_another_field(tmp_path):
    pq.write_table(pa.table({"text": [b"bytes"], "id": [1]}), tmp_path / "a.parquet")
    assert "column of strings" in said(tmp_path / "a.parquet", tmp_path / "cache")


def test_an_arrow_file_with_offsets_that_lead_outside_is_refused(tmp_path):
    path = written(tmp_path / "a.arrow")
    content, offsets = bytearray(path.read_bytes()), b"".join(sum(map(len, TEXTS[:n])).to_bytes(4, "little") for n in range(4))
    at = bytes(content).index(offsets)
    content[at + 8 : at + 12] = (2**31 - 5).to_bytes(4, "little")
    path.write_bytes(content)
    assert "not whole" in said(path, tmp_path / "cache")


@pytest.mark.parametrize("name", ["a.jsonl", "a.txt"])
def test_other_files_under_a_name_of_text(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03" + bytes(range(256)))
    assert "is a gzip file" in said(path, tmp_path / "cache")
    path.write_bytes('{"text": "a"}\n'.encode("utf-16"))
    assert "encoding: utf-16" in said(path, tmp_path / "cache")


@pytest.mark.parametrize("name", ["a.json", "a.csv", "a.zip", "a.csv.gz", "a.parquet.gz"])
def test_a_file_that_is_no_text_is_not_read_as_text(tmp_path, name):
    (tmp_path / name).write_text('[{"text": "a"}]')
    assert "not read as text" in said(tmp_path / name, tmp_path / "cache")


def test_hidden_members_of_tar_files_are_passed_over_as_hidden_files_are(tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as out:
        for name in ("d/a.txt", "d/._a.txt", "d/.hidden.txt"):
            member = tarfile.TarInfo(name)
            member.size = 4
            out.addfile(member, io.BytesIO(b"text"))
    assert read(tmp_path / "a.tar", tmp_path / "cache") == [b"text"]


# --- tokenizers


def byte_level(path: Path, **changed) -> Path:
    from ostinato.data.vocabulary import train

    path.write_text(json.dumps({**json.loads(train(257, ["a"]).json), **changed}))
    return path


@pytest.mark.parametrize(
    "changed",
    [
        {"added_tokens": [{"content": "<|bos|>"}]},
        {"added_tokens": ["<s>"]},
        {"model": {"type": "BPE", "vocab": None, "merges": []}},
        {"model": {"type": "BPE", "vocab": {}, "merges": []}},
        {"post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<q>"}}], "special_tokens": {}}},
    ],
)
def test_a_tokenizer_that_makes_no_sense_is_named(tmp_path, changed):
    with pytest.raises(DataError) as error:
        load(byte_level(tmp_path / "tokenizer.json", **changed))
    assert str(tmp_path) in error.value.what and error.value.fix
