"""Data sets of the hub: streamed by the real library, from a hub served on this machine, into shards that are read ever after."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ostinato.data import find_prepared, hub, network
from ostinato.data.corpus import find, remembered
from ostinato.data.prepare import prepare
from ostinato.errors import DataError
from ostinato.study.ready import READY, Ready
from ostinato.study.records import Data, Tokenizer

pytest.importorskip("datasets", reason="needs the extra `hub`")
HERE = Path(__file__).parent
OFFLINE = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE")


def text(split: str, number: int) -> str:
    return f"{split} document {number} " + "word " * (number % 37)


TRAIN = [text("train", number) for number in range(1500)]


@pytest.fixture(scope="module")
def repos(tmp_path_factory) -> Path:
    """A hub with `lab/plain` (1,500 rows in three files, 20 of a test split) and `lab/card`, which has configurations."""
    root = tmp_path_factory.mktemp("hub")
    for repo in ("plain", "card"):
        (root / "lab" / repo / "data").mkdir(parents=True)
    for part in range(3):
        table = pa.table({"id": list(range(500)), "text": TRAIN[part * 500 : part * 500 + 500]})
        pq.write_table(table, root / "lab" / "plain" / "data" / f"train-{part:05}-of-00003.parquet", row_group_size=120)
    pq.write_table(
        pa.table({"id": list(range(20)), "text": [text("test", number) for number in range(20)]}),
        root / "lab" / "plain" / "data" / "test-00000-of-00001.parquet",
    )
    for config in ("small", "large"):
        lines = "".join(json.dumps({"body": f"{config} {number}", "n": number}) + "\n" for number in range(10))
        (root / "lab" / "card" / "data" / f"{config}.jsonl").write_text(lines)
    (root / "lab" / "card" / "README.md").write_text(
        "---\nconfigs:\n- config_name: small\n  data_files: data/small.jsonl\n- config_name: large\n  data_files:\n"
        "  - split: train\n    path: data/large.jsonl\n---\n# A data set\n"
    )
    return root


@pytest.fixture
def on_disk(repos, monkeypatch):
    """The hub's ids lead to folders of this machine, and there is a network; the library streams from them."""
    import datasets

    real = datasets.load_dataset_builder
    asked = []

    def builder(path, name=None, revision=None):
        asked.append((path, name, revision))
        return real(str(repos / path), name)

    monkeypatch.setattr(hub, "unreachable", lambda: "")
    monkeypatch.setattr(hub, "_commit", lambda name, revision: revision or "abc123")
    monkeypatch.setattr(datasets, "load_dataset_builder", builder)
    monkeypatch.setattr(datasets, "get_dataset_config_names", lambda path, revision=None, real=datasets.get_dataset_config_names:
                        real(str(repos / path)))  # fmt: skip
    return asked


def texts(data: Data, cache: Path) -> list[str]:
    return [document.decode() for document in find(data, cache).documents(Counter())]


def plain(**keys) -> Data:
    return Data(**{"corpus": "lab/plain", "tokenizer": Tokenizer(bpe=300), **keys})


def test_a_data_set_is_streamed_once_and_only_the_split_that_was_asked_for(on_disk, cache, monkeypatch):
    monkeypatch.setattr(hub, "SHARD_BYTES", 20_000)
    assert not remembered(plain(), cache) and find_prepared(plain(), cache) is None
    said = []
    found = find(plain(), cache, lambda stage, done, total: said.append((stage, done, total)))
    assert [document.decode() for document in found.documents(Counter())] == TRAIN and len(found.files) > 3
    assert found.origin == {"id": "lab/plain", "revision": "abc123", "config": "default", "split": "train", "field": "text"}
    assert any(stage.startswith("streaming lab/plain: ") and "rows" in stage for stage, _, _ in said)
    monkeypatch.setattr(hub, "unreachable", lambda: pytest.fail("the network was asked for"))
    again = find(plain(), cache)
    assert again.identity == found.identity and len(on_disk) == 1 and remembered(plain(), cache)
    monkeypatch.setattr(hub, "unreachable", lambda: "")
    assert texts(plain(split="test"), cache) == [text("test", number) for number in range(20)]
    assert find(plain(split="test"), cache).identity != found.identity


def test_most_bounds_what_is_streamed_and_more_extends_it(on_disk, cache, monkeypatch):
    monkeypatch.setattr(hub, "SHARD_BYTES", 10_000)
    sizes = [len(document.encode()) for document in TRAIN]
    identities = set()
    for most in (25_000, 9_000, 60_000):
        expected = next(number for number in range(len(sizes)) if sum(sizes[: number + 1]) > most)
        assert texts(plain(most=most), cache) == TRAIN[:expected]
        identities.add(find(plain(most=most), cache).identity)
        identities.add(find(plain(most=most), cache).identity)
    assert len(identities) == 3 and len(on_disk) == 2  # 9,000 was there
    kept = json.loads(next((cache / "hub").glob("*/state.json")).read_text())
    assert sum(shard["bytes"] for shard in kept["shards"]) < 60_000 + 30_000 and not kept["complete"]
    assert texts(plain(), cache) == TRAIN and texts(plain(most=10**9), cache) == TRAIN and len(on_disk) == 3
    assert find(plain(most=25_000), cache).identity in identities  # what was extended is what it was
    with pytest.raises(DataError, match="more than most"):
        texts(plain(most=5), cache)


@pytest.mark.parametrize("broken", [1, 2, 4, 6])
def test_a_stream_that_breaks_off_goes_on_after_its_last_whole_shard(on_disk, cache, monkeypatch, broken):
    monkeypatch.setattr(hub, "SHARD_BYTES", 15_000)
    real, calls = hub._Shard.add, []

    def breaking(self, column, where):
        calls.append(len(column))
        if len(calls) == broken:
            raise ConnectionResetError("the line broke")
        real(self, column, where)

    monkeypatch.setattr(hub._Shard, "add", breaking)
    with pytest.raises(DataError, match="broke off") as error:
        find(plain(), cache)
    assert "goes on from there" in error.value.fix
    state = cache / "hub" / next((cache / "hub").glob("*/")).name / "state.json"
    kept = sum(shard["documents"] for shard in json.loads(state.read_text())["shards"]) if state.exists() else 0
    assert (kept > 0) == (broken > 1)
    calls.clear()
    broken = -1
    monkeypatch.setattr(hub._Shard, "add", lambda self, column, where: calls.append(len(column)) or real(self, column, where))
    assert texts(plain(), cache) == TRAIN and sum(calls) == len(TRAIN) - kept
    assert not list((cache / "hub").glob("*/.*.parquet"))


def test_rows_that_are_lines_are_joined_across_shards(on_disk, cache, monkeypatch):
    monkeypatch.setattr(hub, "SHARD_BYTES", 10_000)
    documents = texts(plain(join=1000), cache)
    assert "".join(documents) == "".join(row + "\n" for row in TRAIN)
    assert all(1000 <= len(document) < 1300 for document in documents[:-1])
    here = Ready("lab/plain", "", READY["babylm-2026-strict"].keys)
    monkeypatch.setitem(READY, "babylm-2026-strict", here)
    ready = Data(corpus="babylm-2026-strict")
    assert ready.join == 4096 and Data(corpus="babylm-2026-strict", join=None).join is None
    assert min(map(len, texts(ready, cache)[:-1])) >= 4096


def test_prepared_text_of_the_hub_says_where_it_is_from(on_disk, cache):
    prepared = prepare(plain(most=20_000), cache)
    said = prepared.manifest["corpus"]
    assert said["origin"]["revision"] == "abc123" and said["origin"]["id"] == "lab/plain" and said["most"] == 20_000
    assert find_prepared(plain(most=20_000), cache).text_fingerprint == prepared.text_fingerprint


def test_what_is_not_there_is_told_with_what_is(on_disk, cache):
    def said(**keys):
        with pytest.raises(DataError) as error:
            find(Data(**keys), cache)
        return str(error.value)

    assert "'id', 'text'" in said(corpus="lab/plain", field="txt") and "field: text" in said(corpus="lab/plain", field="txt")
    assert "holds int64, not text" in said(corpus="lab/plain", field="id")
    assert "no split 'tset'" in said(corpus="lab/plain", split="tset") and "split: test" in said(corpus="lab/plain", split="tset")
    assert "small, large" in said(corpus="lab/card") and "config: small" in said(corpus="lab/card", config="smal")
    assert texts(Data(corpus="lab/card", config="large", field="body"), cache) == [f"large {number}" for number in range(10)]


def test_without_a_network_the_answer_comes_at_once_and_says_the_way_out(cache, monkeypatch):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    for name in (*OFFLINE, "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(cache))
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{port}")
    began = time.monotonic()
    with pytest.raises(DataError) as error:
        prepare(Data(corpus="fineweb-edu", most=10_000), cache)
    assert time.monotonic() - began < 10 and "cannot be reached" in error.value.what
    assert "hf download HuggingFaceFW/fineweb-edu --repo-type dataset --local-dir fineweb-edu" in error.value.fix
    assert "data: {corpus: ./fineweb-edu, config: sample-10BT}" in error.value.fix
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(DataError, match=r"HF_HUB_OFFLINE is set(.|\n)*join: 4096"):
        find(Data(corpus="babylm-2026-strict"), cache)
    with pytest.raises(DataError, match=r"--revision v1 --local-dir plain(.|\n)*split: test"):
        find(Data(corpus="lab/plain@v1", split="test"), cache)


def test_a_name_that_nobody_answers_for_is_given_up_after_two_seconds(monkeypatch):
    for name in OFFLINE:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_ENDPOINT", "https://example.invalid")
    monkeypatch.setattr(network, "SECONDS", 0.2)
    monkeypatch.setattr(network.socket, "create_connection", lambda *_, **__: time.sleep(1.5) or socket.socket())
    began = time.monotonic()
    assert "does not answer" in network.unreachable() and time.monotonic() - began < 3
    monkeypatch.setattr(network.socket, "create_connection", lambda address, timeout: asked.append(address) or socket.socket())
    asked: list = []
    monkeypatch.setenv("https_proxy", "http://proxy.example:3128")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert network.unreachable() == "" and asked == [("proxy.example", 3128)]


def test_without_the_package_the_extra_is_named(cache, monkeypatch):
    monkeypatch.setattr(hub, "unreachable", lambda: "")
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(DataError, match=r"pip install 'ostinato\[hub\]'"):
        find(Data(corpus="climbmix"), cache)


def test_what_the_cache_of_the_hub_holds_is_read_without_a_network(repos, cache, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    place = tmp_path / "hf" / "hub" / "datasets--lab--plain"
    snapshot = place / "snapshots" / "c0ffee"
    (place / "refs").mkdir(parents=True)
    (place / "refs" / "main").write_text("c0ffee")
    shutil.copytree(repos / "lab" / "plain", snapshot)
    blob = place / "blob"
    first = snapshot / "data" / "train-00000-of-00003.parquet"
    first.rename(blob)
    first.symlink_to(blob)
    assert texts(plain(), cache) == TRAIN
    assert find(plain(), cache).origin == {"id": "lab/plain", "split": "train", "revision": "c0ffee"}
    (snapshot / "data" / "train-00001-of-00003.parquet").unlink()
    with pytest.raises(DataError, match="cannot be reached"):  # a part of a data set is not the data set
        find(plain(), cache)


def test_what_datasets_has_prepared_is_read_without_a_network(repos, cache, tmp_path):
    """In processes of their own, as the libraries read their settings when they are imported."""
    env = {**os.environ, "HF_HOME": str(tmp_path / "hf"), "OSTINATO_CACHE": str(cache)}
    env.pop("HF_HUB_OFFLINE", None)
    with served(repos) as server:
        load = "import datasets, sys; print(len(datasets.load_dataset('lab/plain', split='train')))"
        done = subprocess.run([sys.executable, "-c", load], env={**env, "HF_ENDPOINT": server}, capture_output=True, text=True)
    assert done.stdout.strip() == "1500", done.stderr
    shutil.rmtree(tmp_path / "hf" / "hub")
    read = (
        "from collections import Counter; from pathlib import Path; import sys; from ostinato.data.corpus import find;"
        "from ostinato.study.records import Data; c = find(Data(corpus='lab/plain'), Path(sys.argv[1]));"
        "d = list(c.documents(Counter())); print(len(d), d[7].decode(), c.origin['config'])"
    )
    done = subprocess.run([sys.executable, "-c", read, str(cache)], env={**env, "HF_ENDPOINT": server}, capture_output=True, text=True)
    assert done.stdout.strip() == f"1500 {TRAIN[7].strip()}  default", done.stderr


@contextlib.contextmanager
def served(folder: Path, most: float = float("inf")) -> Iterator[str]:
    """The address of a hub that serves a folder."""
    sys.path.insert(0, str(HERE))
    try:
        from fake_hub import serve
    finally:
        sys.path.remove(str(HERE))
    with serve(folder, most) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


GATHER = """
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from ostinato.data import hub
from ostinato.data.corpus import find
from ostinato.errors import DataError
from ostinato.study.records import Data
hub.SHARD_BYTES = 20_000
try:
    corpus = find(Data(corpus="lab/plain"), Path(sys.argv[1]))
except DataError as error:
    sys.exit(str(error))
print(len(list(corpus.documents(Counter()))), corpus.origin["revision"])
"""


def test_over_http_with_a_line_that_breaks_the_same_command_goes_on(repos, cache, tmp_path):
    size = sum(file.stat().st_size for file in (repos / "lab" / "plain" / "data").glob("train*"))
    env = {**os.environ, "HF_HOME": str(tmp_path / "hf")} | dict.fromkeys(("HF_HUB_DOWNLOAD_TIMEOUT", "HF_HUB_ETAG_TIMEOUT"), "2")
    env.pop("HF_HUB_OFFLINE", None)

    def gather(most: float) -> subprocess.CompletedProcess:
        code = "import time; time.sleep = lambda _: None  # between two tries of a library\n"
        code += f"import datasets.config as c; c.STREAMING_READ_MAX_RETRIES = 1\n{GATHER}"
        with served(repos, most) as address:
            return subprocess.run([sys.executable, "-c", code, str(cache)], env={**env, "HF_ENDPOINT": address},
                                  capture_output=True, text=True, timeout=120)  # fmt: skip

    first = gather(0.85 * size)  # its first file twice, for the table of contents, and a part of the second
    assert first.returncode == 1 and "broke off" in first.stderr and "goes on from there" in first.stderr, first.stderr
    kept = json.loads(next((cache / "hub").glob("*/state.json")).read_text())["shards"]
    assert kept
    second = gather(float("inf"))
    assert second.stdout.split() == ["1500", ("c0ffee" * 7)[:40]], second.stderr
    assert json.loads(next((cache / "hub").glob("*/state.json")).read_text())["shards"][: len(kept)] == kept
