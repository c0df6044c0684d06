from __future__ import annotations

import bz2
import gzip
import json
import lzma
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ostinato.data.readers import Reading, documents
from ostinato.errors import DataError


def read(path, field="text", separator=None, **keys):
    how = Reading(field, separator, counts=Counter(), **keys)
    return list(documents(path, how)), how.counts


def test_a_text_file_is_one_document_or_what_lies_between_separators(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\n--two--\n--three\r\n--")
    assert read(path)[0] == [b"one\n--two--\n--three\r\n--"]
    found, counts = read(path, separator="--")
    assert found == [b"one\n", b"two", b"three\r\n"]  # the line end between two separators is dropped as empty
    assert (counts["documents"], counts["empty"], counts["carriage_return"]) == (4, 1, 1)


def test_jsonl_takes_the_field_and_skips_blank_lines(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"text": "a", "n": 1}\n\n{"text": "b\\nc"}\r\n{"text": null}\n{"text": ""}\n{"text": "last"}')
    found, counts = read(path)
    assert found == [b"a", b"b\nc", b"last"]
    assert (counts["documents"], counts["missing"], counts["empty"]) == (4, 1, 1)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{"text": "a"}\n{"text": "b"\n{"text": "c"}\n', ["line 2", "not JSON"]),
        (b'{"text": "a"}\n{"text": "cut o', ["line 2", "cut off", "fetch"]),
        (b'{"text": "a"}\n["b"]\n', ["line 2", "list"]),
        (b'{"text": "a"}\n{"body": "b", "id": 3}\n', ["line 2", "no field 'text'", "'body', 'id'"]),
        (b'{"text": 7}\n', ["line 1", "a number"]),
        (b'{"text": "a"}\n7\n', ["line 2", "a number, not an object"]),
        (b'{"text": "a"}\n{"text": "b"\n', ["line 2", "',' delimiter at character 14"]),
        (b"[" * 100_000 + b"\n", ["line 1", "not JSON"]),
    ],
)
def test_a_bad_line_is_named_with_file_line_and_rule(tmp_path, content, words):
    path = tmp_path / "bad.jsonl"
    path.write_bytes(content)
    with pytest.raises(DataError) as error:
        read(path)
    for word in [str(path), *words]:
        assert word in str(error.value)
    assert error.value.rule and error.value.fix


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_parquet_of_every_text_type(tmp_path, kind):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": [1, 2, 3], "body": pa.array(["a", None, "é"]).cast(kind)}), path)
    found, counts = read(path, "body")
    assert found == [b"a", "é".encode()] and counts["missing"] == 1


def test_parquet_missing_field_other_type_and_half_written(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": [1, 2], "body": ["a", "b"]}), path)
    with pytest.raises(DataError, match=r"no field 'text'(.|\n)*'id', 'body'"):
        read(path)
    with pytest.raises(DataError, match="holds int64, not text"):
        read(path, "id")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"a\.parquet, from row 1: not whole(.|\n)*cut off"):
        read(path, "body")
    path.write_bytes(b"")
    with pytest.raises(DataError, match="not whole"):
        read(path, "body")


def test_parquet_with_a_damaged_page_names_the_row(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(
        pa.table({"text": [f"{i} " + "abc" * 50 for i in range(2000)]}), path, row_group_size=500, compression="zstd", use_dictionary=False
    )
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 400] = b"\xff" * 400
    path.write_bytes(content)
    with pytest.raises(DataError, match="from row"):
        read(path)


def test_utf16_is_refused_with_the_way_out(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("hello", encoding="utf-16")
    with pytest.raises(DataError, match="iconv"):
        read(path)


@pytest.mark.parametrize(
    ("pack", "kind", "end"), [(gzip.compress, "gzip", ".gz"), (lzma.compress, "xz", ".xz"), (bz2.compress, "bzip2", ".bz2")]
)
def test_a_packed_file_by_another_name_is_refused_and_its_mark_alone_is_text(tmp_path, pack, kind, end):
    path = tmp_path / "a.txt"
    path.write_bytes(pack(b"some text\n" * 50))
    with pytest.raises(DataError, match=kind) as caught:
        read(path, separator="\n")
    assert f"end with {end}" in caught.value.fix
    path.write_bytes("PAR1 BZh é".encode() + b"\n" + b"x" * 4085 + "é".encode())  # the first 4,096 bytes end within a character
    assert len(read(path, separator="\n")[0]) == 2


def test_parquet_without_its_suffix_is_refused(tmp_path):
    path = tmp_path / "data"
    pq.write_table(pa.table({"text": ["a"]}), path)
    with pytest.raises(DataError, match=r"Parquet[\s\S]*end with .parquet"):
        read(path)


def test_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(DataError, match="cannot be read"):
        read(tmp_path / "gone.jsonl")


def test_json_escapes_make_real_characters(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"text": "🐕 \x00"}) + "\n")
    found, counts = read(path)
    assert found == ["🐕 \x00".encode()] and counts["nul"] == 1 and not counts["lone_surrogate"]
