"""Packed text and tar files: the same documents as unpacked, and a file that is not whole is named."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import tarfile
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from ostinato.data.corpus import find
from ostinato.errors import DataError
from ostinato.study.records import Data


def zstd(content: bytes) -> bytes:
    return pa.Codec("zstd").compress(content, asbytes=True)


PACK = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, ".zst": zstd}
DOCUMENTS = [f"document {number}, é 🐕\nof two lines " + "word " * (number % 90) for number in range(400)]
JSONL = "".join(json.dumps({"text": text, "n": 1}) + "\n" for text in DOCUMENTS).encode()
TEXT = "\n%%\n".join(DOCUMENTS).encode()


def texts(path: Path, cache: Path, **keys) -> list[str]:
    return [document.decode() for document in find(Data(corpus=str(path), **keys), cache).documents(Counter())]


def said(path: Path, cache: Path, **keys) -> str:
    with pytest.raises(DataError) as error:
        texts(path, cache, **keys)
    assert error.value.rule and error.value.fix and str(path) in error.value.what
    return str(error.value)


@pytest.mark.parametrize("end", PACK)
def test_packed_files_hold_what_they_held_before(tmp_path, cache, end):
    (tmp_path / f"a.jsonl{end}").write_bytes(PACK[end](JSONL))
    (tmp_path / f"a.txt{end}").write_bytes(PACK[end](TEXT))
    assert texts(tmp_path / f"a.jsonl{end}", cache) == DOCUMENTS
    assert texts(tmp_path / f"a.txt{end}", cache, separator="\n%%\n") == DOCUMENTS
    assert texts(tmp_path / f"a.txt{end}", cache) == [TEXT.decode()]
    (tmp_path / f"a.md{end}").write_bytes(PACK[end](b"two") + PACK[end](b" members"))  # packed files may follow each other in one
    assert texts(tmp_path / f"a.md{end}", cache) == ["two members"]


def test_a_folder_of_packed_and_plain_files_is_of_one_kind(tmp_path, cache):
    for name, text in (("a.txt", b"a"), ("b.txt.gz", gzip.compress(b"b")), ("c.txt.zst", zstd(b"c"))):
        (tmp_path / name).write_bytes(text)
    assert texts(tmp_path, cache) == ["a", "b", "c"]


DAMAGE = [(end, damage) for end in PACK for damage in ("cut", "cut a little", "garbage", "another kind")]
DAMAGE.remove((".zst", "garbage"))  # pyarrow writes zstd without a checksum: what still unpacks is caught as text, or not at all


@pytest.mark.parametrize(("end", "damage"), DAMAGE)
def test_a_packed_file_that_is_not_whole_is_named(tmp_path, cache, end, damage):
    path = tmp_path / f"a.jsonl{end}"
    content = PACK[end](JSONL)
    middle = len(content) // 2
    other = PACK[".xz" if end != ".xz" else ".gz"](JSONL)
    garbage = content[:middle] + bytes(255 - byte for byte in content[middle : middle + 64]) + content[middle + 64 :]
    path.write_bytes({"cut": content[:middle], "cut a little": content[:-3], "garbage": garbage, "another kind": other}[damage])
    assert "cannot be unpacked" in said(path, cache)


def test_a_broken_line_inside_a_packed_file_is_named(tmp_path, cache):
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"text": "a"}\n{"text": "b"\n{"text": "c"}\n'))
    assert "line 2: not JSON" in said(path, cache)
    path.write_bytes(gzip.compress(b'{"text": "a"}\n' * 3 + '{"text": "déjà été à la mer"}\n'.encode("latin-1") * 2))
    assert "line 4: byte 0xe9" in said(path, cache) and texts(path, cache, encoding="latin-1")[-1] == "déjà été à la mer"


# --- tar


def tar(path: Path, members: list[tuple[str, bytes]], mode: str = "w") -> Path:
    with tarfile.open(path, mode) as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


@pytest.mark.parametrize(
    ("name", "mode"), [("0.tar", "w"), ("0.tar.gz", "w:gz"), ("0.tgz", "w:gz"), ("0.tar.bz2", "w:bz2"), ("0.tar.xz", "w:xz")]
)
def test_a_sample_is_its_text_member_or_the_field_of_its_json(tmp_path, cache, name, mode):
    path = tar(tmp_path / name, [
        ("a/1.txt", b"one"), ("a/1.json", b'{"text": "not this"}'), ("a/2.json", b'{"text": "two"}'), ("a/2.jpg", b"\xff"),
        ("a/3.json", b'{"text": "nor this"}'), ("a/3.txt", b"three"), ("b/3.json", b'{"text": "four"}'), ("5.cls", b"7"),
        ("6.jsonl", b'{"text": "five"}\n{"text": "six"}\n'), ("7.json", b'{"text": null}'),
    ], mode)  # fmt: skip
    assert texts(path, cache) == ["one", "two", "three", "four", "five", "six"]


def test_members_that_hold_no_text_are_counted_in_the_manifest(tmp_path, cache):
    from ostinato.data.prepare import prepare
    from ostinato.study.records import Tokenizer

    for shard in range(3):
        members = [(f"{shard}{number:03}.{end}", content) for number in range(30)
                   for end, content in (("txt", f"document {shard} {number}".encode()), ("jpg", b"\xff\xd8"))]  # fmt: skip
        tar(tmp_path / f"{shard:05}.tar", members)
    prepared = prepare(Data(corpus=str(tmp_path), tokenizer=Tokenizer(bpe=258), validation=0.1, held_out=0.1), cache)
    assert prepared.manifest["corpus"]["left_out"] == {".jpg": 90} and prepared.manifest["policies"]["counts"]["documents"] == 90


def test_a_tar_file_that_is_cut_off_or_holds_no_text(tmp_path, cache):
    path = tar(tmp_path / "0.tar", [(f"{number}.txt", b"text " * 200) for number in range(20)])
    whole = path.read_bytes()
    for cut in (5000, 512 * 3 * 4, len(whole) - 3, 100, 0):  # within a member, between two, within the end, within a header, empty
        path.write_bytes(whole[:cut])
        assert "no whole tar file" in said(path, cache)
    path.write_bytes(gzip.compress(whole))
    assert "no whole tar file" in said(path, cache)
    packed = tmp_path / "1.tar.gz"
    packed.write_bytes(gzip.compress(whole)[:-20])
    assert "cannot be unpacked" in said(packed, cache) or "no whole tar file" in said(packed, cache)
    assert "1 .jpg, 1 .cls" in said(tar(tmp_path / "2.tar", [("1.jpg", b"a"), ("1.cls", b"b")]), cache)
    assert "member x/1.json: no field 'text'" in said(tar(tmp_path / "3.tar", [("x/1.json", b'{"body": "a"}')]), cache)
    assert "field: body" in said(tar(tmp_path / "3.tar", [("x/1.json", b'{"body": "a"}')]), cache)
    assert "member 1.json: not JSON" in said(tar(tmp_path / "4.tar", [("1.json", b"{")]), cache)
    latin = "déjà été à la mer\n".encode("latin-1")
    assert "member 2.txt, line 2: byte 0xe9" in said(tar(tmp_path / "5.tar", [("1.txt", b"a"), ("2.txt", b"ok\n" + latin)]), cache)
