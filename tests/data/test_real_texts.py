"""Public-domain books and stories through the whole of it; skipped where ../shared is absent."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ostinato.data.floors import floors
from ostinato.data.targets import targets
from ostinato.errors import DataError
from ostinato.study.records import Evaluate, Tokenizer

SHARED = Path(__file__).parents[2].parent / "shared" / "data"
CORPORA = SHARED / "corpora"
pytestmark = pytest.mark.skipif(not CORPORA.exists(), reason="needs ../shared/data/corpora")


def read(prepared):
    found = []
    for part in ("train", "validation", "held_out"):
        tokens, starts = prepared.tokens(part), prepared.doc_starts(part)
        found += [prepared.decode(tokens[starts[i] : starts[i + 1]]) for i in range(len(starts) - 1)]
    return found


def test_stories_by_a_separator_with_a_tokenizer_that_adds_bos(cache, make):
    path, separator = CORPORA / "tinystories_sample.txt", "\n<|endoftext|>\n"
    tokenizer = Tokenizer(file=str(SHARED / "models" / "stories260K" / "tokenizer.json"))
    prepared = make(path, cache, separator=separator, tokenizer=tokenizer, packing="contiguous")
    stories = path.read_bytes().decode("utf-8", "replace").split(separator)
    assert sorted(text.removeprefix(" ") for text in read(prepared)) == sorted(stories)
    assert all(part["inexact"] == 0 for part in prepared.manifest["parts"].values())
    found = targets(prepared, "validation", Evaluate(), 256)
    assert found.bytes.sum() == prepared.manifest["parts"]["validation"]["bytes"]
    nats = floors(prepared, found)
    assert 1.48 < nats["bigram"] < nats["unigram"] < 5.3  # a small Transformer reaches 1.48 nats a token there


def test_books_in_a_folder_some_of_them_not_utf8(tmp_path, cache, make):
    folder = tmp_path / "books"
    folder.mkdir()
    names = ["blake-poems.txt", "burgess-busterbrown.txt", "shakespeare-caesar.txt", "shakespeare-macbeth.txt", "shakespeare-hamlet.txt"]
    for name in names:
        shutil.copy(CORPORA / "gutenberg" / name, folder / name)
    (folder / "letter.txt").write_bytes("À bientôt, mon ami Élie. ".encode("latin-1") * 400)
    with pytest.raises(DataError, match=r"letter\.txt, line 1: byte 0xc0 is not UTF-8[\s\S]*encoding: latin-1"):
        make(folder, cache, tokenizer=Tokenizer(bpe=512))
    originals = [(folder / name).read_bytes() for name in [*names, "letter.txt"]]
    noise = make(folder, cache, tokenizer=Tokenizer(bpe=512), encoding="utf-8")
    escaped = [text.decode("utf-8", "surrogateescape") for text in originals]
    assert sorted(read(noise)) == sorted("".join("\ufffd" if 0xDC80 <= ord(c) <= 0xDCFF else c for c in text) for text in escaped)
    strange = sum(any(0xDC80 <= ord(c) <= 0xDCFF for c in text) for text in escaped)
    assert noise.manifest["policies"]["counts"]["invalid_utf8"] == strange > 1
    named = make(folder, cache, tokenizer=Tokenizer(bpe=512), encoding="latin-1")
    assert sorted(read(named)) == sorted(_either(text) for text in originals) and named.manifest["policies"]["counts"]["invalid_utf8"] == 0


def _either(text: bytes) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError:
        return text.decode("latin-1")


def test_a_text_of_one_piece_says_how_to_cut_it(cache, make):
    with pytest.raises(DataError, match="separator"):
        make(CORPORA / "tinyshakespeare.txt", cache)
    assert make(CORPORA / "tinyshakespeare.txt", cache, separator="\n\n").manifest["policies"]["counts"]["documents"] > 7000
