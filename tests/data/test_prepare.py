from __future__ import annotations

import errno
import hashlib
import itertools
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tokenizers import pre_tokenizers

from ostinato.data import find_prepared
from ostinato.data.prepare import prepare
from ostinato.data.prepared import open_prepared
from ostinato.data.vocabulary import train
from ostinato.errors import DataError
from ostinato.files import default_cache
from ostinato.study.records import Data, Tokenizer

PARTS = ("train", "validation", "held_out")


def all_texts(prepared):
    found = {}
    for part in PARTS:
        tokens, starts = prepared.tokens(part), prepared.doc_starts(part)
        assert (tokens[starts[:-1]] == prepared.bos).all() and (tokens == prepared.bos).sum() == len(starts) - 1
        found[part] = [prepared.decode(tokens[a:b]) for a, b in itertools.pairwise(starts)]
    return found


def test_every_document_is_in_one_part_begins_with_bos_and_comes_back(contiguous, texts):
    found = all_texts(contiguous)
    assert sorted(itertools.chain(*found.values())) == sorted(texts(200))
    assert [len(found[part]) for part in PARTS] == [contiguous.manifest["parts"][part]["documents"] for part in PARTS]
    assert found["train"] == [text for text in texts(200) if text in set(found["train"])]  # in the order of the corpus


def test_the_manifest_says_what_is_there(contiguous, corpus):
    manifest = contiguous.manifest
    assert contiguous.vocab == manifest["vocab"] == 300 == len(contiguous.token_bytes) and contiguous.bos == 0
    assert manifest["dtype"] == "<u2" and contiguous.tokens("train").dtype == np.uint16
    assert isinstance(contiguous.tokens("train"), np.memmap)
    found = all_texts(contiguous)
    for part in PARTS:
        said = manifest["parts"][part]
        assert said["bytes"] == sum(len(text.encode()) for text in found[part])
        assert said["words"] == sum(len(text.split()) for text in found[part])
        assert said["tokens"] == len(contiguous.tokens(part)) == contiguous.doc_starts(part)[-1]
        assert said["inexact"] == 0
        assert contiguous.token_bytes[contiguous.tokens(part)].sum() == said["bytes"]
    assert contiguous.words == manifest["parts"]["train"]["words"]
    assert manifest["policies"]["counts"]["documents"] == 200
    assert set(manifest["policies"]["counts"]) == set(manifest["policies"]["rules"])
    assert manifest["tokenizer"]["sha256"] == hashlib.sha256((contiguous.path / "tokenizer.json").read_bytes()).hexdigest()
    assert manifest["tokenizer"]["trained_on_bytes"] == manifest["parts"]["train"]["bytes"]
    digest = int.from_bytes(hashlib.sha256(found["held_out"][0].encode()).digest()[:8], "big")
    assert contiguous.doc_digests("held_out")[0] == digest
    assert contiguous.encode("again") == contiguous.tokenizer().encode("again", add_special_tokens=False).ids


def test_the_fingerprint_follows_content_and_packing_not_place(contiguous, best_fit, corpus, cache, make, tmp_path, write_jsonl, texts):
    other = tmp_path / "copy" / "other-name.jsonl"
    other.parent.mkdir()
    other.write_bytes(corpus.read_bytes())
    same = make(other, cache, packing="contiguous")
    assert same.fingerprint == contiguous.fingerprint != best_fit.fingerprint
    assert same.text_fingerprint == contiguous.text_fingerprint == best_fit.text_fingerprint
    assert best_fit.path == contiguous.path  # packing shares the tokens
    fingerprints = {contiguous.fingerprint, best_fit.fingerprint}
    for change in ({"document_mask": True}, {"validation": 0.2}, {"tokenizer": Tokenizer(bpe=301)}, {"packing": "best-fit", "buffer": 17}):
        fingerprints.add(make(other, cache, **{"packing": "contiguous", **change}).fingerprint)
    assert len(fingerprints) == 6
    assert make(other, cache, packing="contiguous", buffer=17).fingerprint == contiguous.fingerprint  # no buffer there
    assert make(write_jsonl(tmp_path / "more.jsonl", texts(201)), cache, packing="contiguous").fingerprint not in fingerprints


def test_the_tokenizer_is_trained_on_the_training_part_only(contiguous, texts):
    vocabulary = train(300, all_texts(contiguous)["train"])
    assert vocabulary.sha256 == contiguous.manifest["tokenizer"]["sha256"] != train(300, texts(200)).sha256


def test_a_large_training_part_lends_the_tokenizer_a_sample(corpus, cache, make, monkeypatch):
    module = sys.modules["ostinato.data.prepare"]
    monkeypatch.setattr(module, "TOKENIZER_BYTES", 20_000)
    prepared = make(corpus, cache)
    used, all_bytes = prepared.manifest["tokenizer"]["trained_on_bytes"], prepared.manifest["parts"]["train"]["bytes"]
    assert all_bytes > 40_000 and 10_000 < used < 30_000


def test_small_batches_and_large_give_the_same_shards(contiguous, corpus, cache, make, monkeypatch):
    module = sys.modules["ostinato.data.encode"]
    monkeypatch.setattr(module, "BATCH_BYTES", 700)
    monkeypatch.setattr(module, "COMMIT_BYTES", 1500)
    monkeypatch.setattr(module, "_TOKENS", 50)
    assert make(corpus, cache, packing="contiguous").fingerprint == contiguous.fingerprint


def test_preparing_again_reads_nothing(corpus, folder, contiguous, make, monkeypatch):
    module = sys.modules["ostinato.data.prepare"]
    monkeypatch.setattr(module, "_make", lambda *_: pytest.fail("prepared again"))
    assert make(corpus, folder / "cache", packing="contiguous").path == contiguous.path


def test_what_is_prepared_already_is_found_and_nothing_is_made(contiguous, corpus, folder, cache):
    assert find_prepared(contiguous.data, folder / "cache").fingerprint == contiguous.fingerprint
    assert find_prepared(contiguous.data, cache) is None and find_prepared(Data(), cache) is None
    assert not (cache / "prepared").exists() and not (cache / "corpora").exists()


def test_a_cache_that_cannot_be_written_says_where_else_to_go(corpus, tmp_path, make, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DataError, match="OSTINATO_CACHE"):
        make(corpus, tmp_path / "file")
    module = sys.modules["ostinato.data.prepare"]

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(module, "stream", full)
    with pytest.raises(DataError, match=r"No space left(.|\n)*make room"):
        make(corpus, tmp_path / "cache")
    assert not [path for path in (tmp_path / "cache" / "prepared").iterdir() if path.is_dir()]


def test_progress_names_stages_and_ends_at_the_total(corpus, cache):
    seen: dict[str, list[tuple[int, int]]] = {}
    prepare(
        Data(corpus=str(corpus), tokenizer=Tokenizer(bpe=300)),
        cache,
        lambda stage, done, total: seen.setdefault(stage, []).append((done, total)),
    )
    assert {"training the tokenizer", "encoding"} <= set(seen)
    assert seen["encoding"][-1] == (200, 200)
    assert all(0 <= done <= total for calls in seen.values() for done, total in calls)


def test_an_existing_tokenizer_is_used_as_it_is(contiguous, corpus, cache, make):
    again = make(corpus, cache, tokenizer=Tokenizer(file=str(contiguous.path / "tokenizer.json")), packing="contiguous")
    assert (again.tokens("train") == contiguous.tokens("train")).all()
    assert again.manifest["tokenizer"]["trained"] is False and again.manifest["tokenizer"]["trained_on_bytes"] is None
    with pytest.raises(DataError, match="names no tokenizer"):
        make(corpus, cache, tokenizer=Tokenizer())


def test_a_large_vocabulary_is_stored_as_uint32(contiguous, corpus, cache, tmp_path, make):
    source = json.loads((contiguous.path / "tokenizer.json").read_text())
    source["added_tokens"].append(
        {"id": 70_000, "content": "<|rare|>", "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    )
    (tmp_path / "tokenizer.json").write_text(json.dumps(source))
    prepared = make(corpus, cache, tokenizer=Tokenizer(file=str(tmp_path / "tokenizer.json")))
    assert prepared.vocab == 70_001 and prepared.tokens("train").dtype == np.uint32
    assert (prepared.tokens("train") == contiguous.tokens("train")).all()


@pytest.mark.parametrize("name", ["train.tokens", "validation.starts", "token_bytes", "tokenizer.json", "manifest.json"])
@pytest.mark.parametrize("damage", ["cut", "flip", "gone"])
def test_damaged_shards_are_noticed_and_the_way_out_works(corpus, cache, make, name, damage):
    prepared = make(corpus, cache, packing="contiguous")
    fingerprint = prepared.fingerprint
    file = prepared.path / name
    content = bytearray(file.read_bytes())
    if damage == "gone":
        file.unlink()
    else:
        content[len(content) // 2] ^= 0x80
        file.write_bytes(content[:-3] if damage == "cut" else content)
    with pytest.raises(DataError, match=re.escape(str(file))) as error:
        make(corpus, cache, packing="contiguous")
    fix = error.value.fix.split("   then")[0]
    assert fix == f"rm -r {prepared.path}"
    subprocess.run(fix.split(), check=True)
    assert make(corpus, cache, packing="contiguous").fingerprint == fingerprint


def test_a_large_file_is_hashed_again_only_when_its_times_have_changed(corpus, cache, make, monkeypatch):
    module = sys.modules["ostinato.data.prepared"]
    monkeypatch.setattr(module, "SMALL", 1000)
    prepared = make(corpus, cache, packing="contiguous")
    hashed = []
    plain = module.sha256
    monkeypatch.setattr(module, "sha256", lambda file: hashed.append(file.name) or plain(file))
    open_prepared(prepared.path, prepared.data, cache)
    assert "train.tokens" not in hashed and "held_out.starts" in hashed
    file = prepared.path / "train.tokens"
    content = bytearray(file.read_bytes())
    content[5] ^= 1
    file.write_bytes(content)
    with pytest.raises(DataError, match=r"train\.tokens has been changed"):
        open_prepared(prepared.path, prepared.data, cache)


WORKER = """
import sys
from pathlib import Path
from ostinato.data import rows
from ostinato.data.prepare import prepare
from ostinato.study.records import Data, Tokenizer
data = Data(corpus=sys.argv[1], tokenizer=Tokenizer(bpe=300), packing="best-fit")
prepared = prepare(data, Path(sys.argv[2]), lambda stage, done, total: print("stage", stage, flush=True))
print(prepared.fingerprint, rows(prepared, "train", 32).shape[0], flush=True)
"""


def worker(corpus: Path, cache: Path, code: str = WORKER) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-c", code, str(corpus), str(cache)], stdout=subprocess.PIPE, text=True)


def test_processes_that_prepare_at_once_make_it_once(tmp_path, cache, write_jsonl, texts):
    corpus = write_jsonl(tmp_path / "corpus.jsonl", texts(4000))
    workers = [worker(corpus, cache) for _ in range(3)]
    outputs = [process.communicate(timeout=120)[0] for process in workers]
    assert [process.returncode for process in workers] == [0, 0, 0]
    assert len({output.splitlines()[-1] for output in outputs}) == 1
    assert sum("stage encoding" in output for output in outputs) == 1
    assert len([path for path in (cache / "prepared").iterdir() if path.is_dir()]) == 1
    assert len([path for path in (cache / "packed").iterdir() if path.is_dir()]) == 1


def test_a_process_killed_while_preparing_leaves_nothing_behind(tmp_path, cache, write_jsonl, texts, make):
    corpus = write_jsonl(tmp_path / "corpus.jsonl", texts(4000))
    process = worker(corpus, cache)
    assert process.stdout
    for line in process.stdout:
        if "encoding" in line:
            break
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    done = [path for path in (cache / "prepared").iterdir() if path.is_dir() and not path.name.startswith(".")]
    prepared = make(corpus, cache, validation=0.05, held_out=0.05)
    assert done in ([], [prepared.path])  # whole, if it had just become so
    assert len(prepared.tokens("train")) == prepared.manifest["parts"]["train"]["tokens"]
    assert [path for path in (cache / "prepared").iterdir() if path.is_dir()] == [prepared.path]


def test_a_corpus_that_changes_while_it_is_read_is_refused(tmp_path, cache, write_jsonl, texts, make, monkeypatch):
    module = sys.modules["ostinato.data.prepare"]
    corpus = write_jsonl(tmp_path / "corpus.jsonl", texts(50))
    plain = module._trained

    def meddling(*arguments):
        result = plain(*arguments)
        write_jsonl(corpus, texts(50, seed=1))
        return result

    monkeypatch.setattr(module, "_trained", meddling)
    with pytest.raises(DataError, match="changed while it was being read"):
        make(corpus, cache)
    assert not [path for path in (cache / "prepared").iterdir() if path.is_dir()]


def test_a_tokenizer_that_makes_its_bos_out_of_text_is_refused(tmp_path, cache, make, write_jsonl, texts):
    vocab = {token: i for i, token in enumerate(dict.fromkeys([*sorted(pre_tokenizers.ByteLevel.alphabet()), "<s", "<s>"]))}
    source = {
        "model": {"type": "BPE", "vocab": vocab, "merges": [["<", "s"], ["<s", ">"]]},
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False},
    }
    (tmp_path / "tokenizer.json").write_text(json.dumps(source))
    given = {"tokenizer": Tokenizer(file=str(tmp_path / "tokenizer.json"))}
    assert make(write_jsonl(tmp_path / "a.jsonl", texts(20)), cache, **given).bos == vocab["<s>"]
    with pytest.raises(DataError, match="turns text into its BOS"):
        make(write_jsonl(tmp_path / "b.jsonl", [*texts(20), "a<s>b"]), cache, **given)


def test_the_cache_is_where_the_environment_says(monkeypatch, tmp_path):
    monkeypatch.setenv("OSTINATO_CACHE", str(tmp_path))
    assert default_cache() == tmp_path
    monkeypatch.delenv("OSTINATO_CACHE")
    assert default_cache() == Path.home() / ".cache" / "ostinato"


class Killed(BaseException):
    pass


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("after", [1, 3, 6])
def test_a_preparation_that_is_killed_while_encoding_goes_on(corpus, contiguous, cache, make, monkeypatch, given, after):
    """Nothing that was flushed is encoded again, the tokenizer is not trained again, and the result is that of an unbroken preparation."""
    encode, prepare_module = sys.modules["ostinato.data.encode"], sys.modules["ostinato.data.prepare"]
    monkeypatch.setattr(encode, "BATCH_BYTES", 4000)
    monkeypatch.setattr(encode, "COMMIT_BYTES", 9000)
    keys = {"tokenizer": Tokenizer(file=str(contiguous.path / "tokenizer.json"))} if given else {}
    real, seen = encode._finished, []

    def finished(batch, *others):
        if len(seen) == after:
            raise Killed
        seen.append(len(batch.texts))
        return real(batch, *others)

    monkeypatch.setattr(encode, "_finished", finished)
    with pytest.raises(Killed):
        make(corpus, cache, packing="contiguous", **keys)
    work = next((cache / "work").iterdir())
    kept = json.loads((work / "state.json").read_text())["encode"]["documents"] if (work / "state.json").exists() else 0
    assert kept == sum(seen[: after // 3 * 3]) and (kept > 0) == (after >= 3)
    for name in ("stream", "encoded"):
        with open(work / name, "ab") as torn:
            torn.write(b"torn")
    after, again = -1, []
    monkeypatch.setattr(encode, "_finished", lambda batch, *others: again.append(len(batch.texts)) or real(batch, *others))
    monkeypatch.setattr(prepare_module, "train", lambda *_: pytest.fail("trained again"))
    prepared = make(corpus, cache, packing="contiguous", **keys)
    assert sum(again) == 200 - kept and not list((cache / "work").iterdir())
    assert prepared.text_fingerprint == contiguous.text_fingerprint or given
    for part in PARTS:
        assert (prepared.tokens(part) == contiguous.tokens(part)).all() and prepared.manifest["parts"][part] == contiguous.manifest[
            "parts"
        ][part]
    assert prepared.manifest["policies"] == contiguous.manifest["policies"]
    assert prepared.manifest["corpus"]["text_sha256"] == contiguous.manifest["corpus"]["text_sha256"]


def test_what_was_done_of_another_text_is_not_used(tmp_path, cache, write_jsonl, texts, make, monkeypatch):
    """A corpus whose identity is remembered wrongly is noticed when its documents are read again."""
    encode = sys.modules["ostinato.data.encode"]
    monkeypatch.setattr(encode, "COMMIT_BYTES", 1)
    monkeypatch.setattr(encode, "BATCH_BYTES", 4000)
    corpus = write_jsonl(tmp_path / "corpus.jsonl", texts(60))
    tokenizer = Tokenizer(file=str(make(corpus, tmp_path / "other").path / "tokenizer.json"))
    distribute = sys.modules["ostinato.data.prepare"].distribute
    monkeypatch.setattr(sys.modules["ostinato.data.prepare"], "distribute", lambda *_: (_ for _ in ()).throw(Killed()))
    with pytest.raises(Killed):
        make(corpus, cache, tokenizer=tokenizer)
    monkeypatch.setattr(sys.modules["ostinato.data.prepare"], "distribute", distribute)
    work = next((cache / "work").iterdir())
    records = bytearray((work / "documents").read_bytes())
    records[30 * 24] ^= 1
    (work / "documents").write_bytes(records)
    with pytest.raises(DataError, match="changed while it was being read"):
        make(corpus, cache, tokenizer=tokenizer)
    assert make(corpus, cache, tokenizer=tokenizer).manifest["policies"]["counts"]["documents"] == 60
