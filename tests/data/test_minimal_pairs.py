"""Reading minimal pairs: whatever folder they come in, and a clear error for whatever is broken in it."""

from __future__ import annotations

import gzip
import json
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ostinato.data import minimal_pairs
from ostinato.data.minimal_pairs import HUB, read_pairs
from ostinato.errors import DataError
from ostinato.study.pair_folder import BLIMP

SHARED = Path(__file__).parents[3] / "shared" / "data" / "blimp"


def row(number: int, **keys) -> dict:
    return {"sentence_good": f"The dog {number} runs.", "sentence_bad": f"The dog {number} run.", **keys}


def write(file: Path, rows: list) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(one if isinstance(one, str) else json.dumps(one) + "\n" for one in rows)
    file.write_bytes(gzip.compress(text.encode()) if file.suffix == ".gz" else text.encode())
    return file


def test_names_come_from_the_files_where_a_row_has_none(tmp_path):
    write(tmp_path / "ours" / "agreement.jsonl", [row(0), row(1, UID="other", field="syntax/semantics", linguistics_term="binding")])
    write(tmp_path / "more" / "agreement.jsonl.gz", [row(2)])
    found = read_pairs(tmp_path)
    assert found.paradigm == ("agreement", "agreement", "other") and found.pair == (0, 1, 0)
    assert found.field == ("more", "ours", "syntax_semantics") and found.term == ("agreement", "agreement", "binding")
    assert found.good[0] == "The dog 2 runs." and found.bad[2] == "The dog 1 run." and len(found) == 3
    assert len(read_pairs(tmp_path / "ours" / "agreement.jsonl")) == 2


def test_the_id_is_that_of_the_pairs_and_not_of_their_files(tmp_path):
    rows = [row(number, UID=f"paradigm {number % 3}", field="f", linguistics_term="t", more=number) for number in range(9)]
    write(tmp_path / "a" / "all.jsonl", rows)
    for kind in range(3):
        some = [one for one in rows if one["UID"].endswith(str(kind))]
        (tmp_path / "b" / str(kind)).mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(some), tmp_path / "b" / str(kind) / "train-00000-of-00001.parquet")
    one, other = read_pairs(tmp_path / "a"), read_pairs(tmp_path / "b")
    assert one.id == other.id and one.source != other.source and one.good == other.good and one.pair == (0, 1, 2) * 3
    rows[4]["sentence_bad"] += " "
    write(tmp_path / "a" / "all.jsonl", rows)
    assert read_pairs(tmp_path / "a").id != one.id


def test_identical_pairs_are_named_by_their_text(tmp_path):
    write(tmp_path / "a.jsonl", [row(0), {"sentence_good": "Same.", "sentence_bad": "Same."}, {"sentence_good": "A", "sentence_bad": "A "}])
    assert read_pairs(tmp_path).identical == [False, True, False]


def test_a_byte_order_mark_and_blank_lines_and_a_lone_surrogate(tmp_path):
    write(tmp_path / "a.jsonl", ["\ufeff" + json.dumps(row(0)), "\n\n  \n", json.dumps(row(1) | {"sentence_bad": "a \ud800"})])
    found = read_pairs(tmp_path)
    assert len(found) == 2 and found.bad[1] == "a \ufffd"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"sentence_good": "a", "sente\n', r"a\.jsonl, line 2: not JSON"),
        ('{"sentence_good": "a", "sente', r"a\.jsonl, line 2: not JSON .*cut off"),
        ("[1, 2]\n", r"a\.jsonl, line 2: \[1, 2\] is not an object"),
        ('{"sentence_good": "a", "text": "b"}\n', r"a\.jsonl, line 2: no sentence_bad; it has sentence_good, text"),
        ("{}\n", r"line 2: no sentence_good; it has no keys"),
        ('{"sentence_good": "a", "sentence_bad": null}\n', r"line 2: sentence_bad is null"),
        ('{"sentence_good": "a", "sentence_bad": " "}\n', r"line 2: sentence_bad is \" \""),
        ('{"sentence_good": "a", "sentence_bad": "b", "UID": 7}\n', r"line 2: UID is 7"),
        ('{"sentence_good": "a", "sentence_bad": "b", "field": ""}\n', r"line 2: field is \"\""),
        ("[" * 100_000 + "\n", r"line 2: not JSON"),
    ],
)
def test_a_broken_line_is_named(tmp_path, line, said):
    write(tmp_path / "a.jsonl", [row(0), line])
    with pytest.raises(DataError, match=said):
        read_pairs(tmp_path)


def test_bytes_that_are_no_utf8_are_refused_with_their_line(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(json.dumps(row(0)).encode() + b'\n{"sentence_good": "\xff", "sentence_bad": "b"}\n')
    with pytest.raises(DataError, match=r"a\.jsonl, line 2: not JSON .*utf-8"):
        read_pairs(tmp_path)


def test_a_folder_without_pairs(tmp_path):
    with pytest.raises(DataError, match="does not exist"):
        read_pairs(tmp_path / "nowhere")
    (tmp_path / "notes.txt").write_text("no pairs")
    with pytest.raises(DataError, match="has no file of pairs"):
        read_pairs(tmp_path)
    with pytest.raises(DataError, match="is no file of pairs"):
        read_pairs(tmp_path / "notes.txt")
    (tmp_path / "a.jsonl").write_text("\n")
    with pytest.raises(DataError, match="holds no pairs"):
        read_pairs(tmp_path)


def test_a_file_that_is_cut_off(tmp_path):
    (tmp_path / "a.jsonl.gz").write_bytes(write(tmp_path / "whole.jsonl.gz", [row(number) for number in range(99)]).read_bytes()[:-9])
    with pytest.raises(DataError, match=r"a\.jsonl\.gz cannot be unpacked"):
        read_pairs(tmp_path)
    (tmp_path / "b.parquet").write_bytes(b"PAR1 and nothing more")
    with pytest.raises(DataError, match=r"b\.parquet cannot be read"):
        read_pairs(tmp_path / "b.parquet")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """Where huggingface_hub keeps what it fetches; its constants are read when it is imported."""
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_blimp_without_a_network(cache, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(DataError, match=r"HF_HUB_OFFLINE is set.*not on this machine") as caught:
        read_pairs(BLIMP)
    assert f"hf download {HUB}" in caught.value.fix


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub on this machine that has as much of BLiMP as is put into the folder that this gives."""
    import huggingface_hub.constants
    import huggingface_hub.file_download

    sys.path.insert(0, str(Path(__file__).parent))
    try:
        from fake_hub import serve
    finally:
        sys.path.pop(0)
    server = serve(tmp_path / "hub")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", address)
    monkeypatch.setattr(huggingface_hub.constants, "HUGGINGFACE_CO_URL_TEMPLATE", address + "/{repo_id}/resolve/{revision}/{filename}")
    monkeypatch.setattr(minimal_pairs, "unreachable", lambda: "")
    for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    yield tmp_path / "hub" / HUB
    server.shutdown()
    server.server_close()


def put(repo: Path, count: int) -> None:
    for number in range(count):
        (repo / f"p{number}").mkdir(parents=True)
        rows = [row(place, UID=f"p{number}", field="f", linguistics_term="t", pair_id=place) for place in range(2)]
        pq.write_table(pa.Table.from_pylist(rows), repo / f"p{number}" / "train-00000-of-00001.parquet")


def test_blimp_is_fetched_once(hub, cache, monkeypatch):
    put(hub, 67)
    found = read_pairs(BLIMP)
    assert len(found) == 134 and len(set(found.paradigm)) == 67 and HUB in found.source
    monkeypatch.setattr(minimal_pairs, "unreachable", lambda: "no network")
    assert read_pairs(BLIMP).id == found.id


def test_a_part_of_blimp_is_not_blimp(hub, cache):
    put(hub, 3)
    with pytest.raises(DataError, match="has 3 of BLiMP's 67 paradigms"):
        read_pairs(BLIMP)


@pytest.mark.skipif(not SHARED.is_dir(), reason="needs ../shared")
def test_the_real_data_set():
    """Seven pairs are identical, and one paradigm spells its field with a slash."""
    found = read_pairs(SHARED)
    assert len(found) == 67_000 and len(set(found.paradigm)) == 67
    assert [(found.paradigm[at], found.pair[at]) for at, same in enumerate(found.identical) if same] == [
        ("passive_1", 324), ("passive_1", 810), *(("principle_A_case_2", at) for at in (105, 287, 372, 816, 967))]  # fmt: skip
    assert set(found.field) == {"morphology", "semantics", "syntax", "syntax_semantics"}
    assert len(set(found.term)) == 13
