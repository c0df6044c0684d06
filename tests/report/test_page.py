"""The page: every number in it is the store's, nothing is dropped, nothing is fetched, the same store gives the same bytes."""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
import sys
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from ostinato.analysis import results_table
from ostinato.report import numbers, write_report
from ostinato.report.page import asset
from ostinato.report.write import page
from ostinato.store import Store
from ostinato.study import load_study

VOID = {"meta", "link"}


class Reader(HTMLParser):
    """Tables as lists of rows of (text, exact value, title), ids, headings, and whether every element is closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.headings, self.tables, self.tags, self.cell, self.words = [], [], [], {}, [], None, []
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags.append((tag, attrs))
        if tag not in VOID:
            self.open.append(tag)
        if "id" in attrs:
            self.ids.append(attrs["id"])
        if tag == "table":
            self.table = self.tables.setdefault(attrs["id"], [])
        elif tag == "tr":
            self.table.append([])
        elif tag in ("td", "th"):
            self.cell = ["", attrs.get("data-v"), attrs.get("title", "")]
        elif tag in ("h1", "h2", "h3"):
            self.headings.append([tag, ""])

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]}"
        self.open.pop()
        if tag in ("td", "th"):
            self.table[-1].append(tuple(self.cell))
            self.cell = None

    def handle_data(self, data):
        self.words.append(data)
        if self.cell is not None:
            self.cell[0] += data
        if self.open and self.open[-1] in ("h1", "h2", "h3"):
            self.headings[-1][1] += data

    @property
    def text(self):
        return re.sub(r"\s+", " ", " ".join(self.words))


def row_of(reader, table, name):
    heads = [cell[0] for cell in reader.tables[table][0]]
    return next(dict(zip(heads, row, strict=True)) for row in reader.tables[table][1:] if row[0][0] == name)


def test_every_number_of_the_table_is_that_of_results_table(filled, study):
    reader = Reader(page(study, filled))
    results = results_table(study, filled)
    assert len(reader.tables["results"]) == 1 + len(study.arms) + 2
    for result in results:
        row = row_of(reader, "results", result.name)
        assert float(row["nats a token"][1]) == result.sums.nats_per_token
        assert row["nats a token"][0] == f"{result.sums.nats_per_token:.4f}"
        assert float(row["bits a byte"][1]) == result.sums.bits_per_byte
        assert float(row["perplexity"][1]) == result.sums.perplexity
        assert row["seeds"][0] == "2/2"
        if result.reference:
            assert row["gain"][0] == numbers.NONE
            continue
        assert float(row["gain"][1]) == result.seeds.mean and row["gain"][0] == numbers.signed(result.seeds.mean)
        interval = result.pairing.interval
        assert row["95% over documents"][0] == f"{numbers.signed(interval.low)} to {numbers.signed(interval.high)}"
        assert row["by seed"][0] == ", ".join(numbers.signed(gain) for gain in result.seeds.gains.values())
        assert row["windows won"][0] == f"{result.pairing.windows_won}/{result.pairing.windows}"
        assert row["documents won"][0] == f"{result.pairing.documents_won}/{result.pairing.documents}"
        assert row["against plain"][0] == result.words
        assert row["below floors"][0] == ("yes" if result.below_floors else "no")
        assert row["FLOPs"][0] == numbers.times(result.ledger.flops_total / results[0].ledger.flops_total)
    assert float(row_of(reader, "results", "unigram model")["nats a token"][1]) == 5.336
    assert float(row_of(reader, "results", "bigram model")["nats a token"][1]) == 3.614


def test_the_ledger_of_the_page_is_exact(filled, study):
    reader = Reader(page(study, filled))
    for result in results_table(study, filled):
        row, ledger = row_of(reader, "ledger", result.name), result.ledger
        assert int(row["parameters"][1]) == ledger.params_total
        assert int(row["outside embeddings"][1]) == ledger.params_nonembedding
        assert float(row["FLOPs a token"][1]) == ledger.flops_per_token
        assert f"{ledger.flops_per_token_trainer:,.0f}" in row["FLOPs a token"][2]
        assert float(row["total FLOPs"][1]) == ledger.flops_total
        assert float(row["depth"][1]) == ledger.effective_depth
        assert int(row["layers"][1]) == ledger.unique_layers
        assert int(row["tokens"][1]) == ledger.tokens
        assert row["epochs"][0] == "1.50", "epochs come from the runs' records: only a prepared text knows its size"
    assert "123,456 words" in reader.text


def test_figures_show_the_gains_and_the_floors(filled, study):
    text = page(study, filled)
    found = re.finditer(r'<svg class="figure"[^>]*><title id="(f-\w+)-t">.*?</svg>', text)
    figures = {match[1]: match[0] for match in found}
    assert set(figures) == {"f-forest", "f-cost", "f-gain", "f-tokens", "f-flops", "f-training", "f-noise", "f-rates"}
    for svg in figures.values():
        ElementTree.fromstring(svg)
    for result in results_table(study, filled):
        if not result.reference:
            assert f"{result.name}: {numbers.signed(result.seeds.mean)}" in figures["f-forest"]
            assert result.name in figures["f-cost"] and result.name in figures["f-gain"]
    assert "bigram" in figures["f-tokens"] and "↑ unigram 5.34" in figures["f-tokens"]
    assert "first pass ends" in figures["f-gain"]


def test_the_same_store_gives_the_same_bytes(filled, study, tmp_path):
    one, two = write_report(study, filled, tmp_path / "one.html"), write_report(study, filled, tmp_path / "two.html")
    assert one.read_bytes() == two.read_bytes()
    program = (
        "import sys, pathlib\nfrom ostinato.report.write import page\n"
        "from ostinato.store import Store\nfrom ostinato.study import load_study\n"
        "sys.stdout.buffer.write(page(load_study(sys.argv[1]), Store(pathlib.Path(sys.argv[2]))).encode())"
    )
    again = subprocess.run(
        [sys.executable, "-c", program, study.path, str(filled.root)],
        capture_output=True, check=True, env={"PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": "123"},
    ).stdout  # fmt: skip
    assert again == one.read_bytes(), "another process, another hash seed"


def test_default_path_is_in_the_store_and_differs_by_study(filled, study):
    path = write_report(study, filled)
    assert path.parent == filled.root / "reports" and path.exists()
    changed = study.model_copy(update={"size": "another"})
    assert write_report(changed, filled) != path and path.exists(), "a changed study leaves the other's page alone"
    folder = filled.root / "elsewhere"
    folder.mkdir()
    assert write_report(study, filled, folder) == folder / path.name


def test_nothing_outside_the_page_is_asked_for(filled, study):
    text = page(study, filled)
    reader = Reader(text)
    assert set(re.findall(r"https?://[^\s\"'<)]+", text)) <= {"http://www.w3.org/2000/svg"}
    for tag, attrs in reader.tags:
        assert tag not in ("iframe", "object", "embed", "img", "audio", "video")
        for name in ("src", "href", "xlink:href", "srcset", "action"):
            assert attrs.get(name, "#").startswith(("#", "data:")), (tag, attrs)
        assert not any(name.startswith("on") for name in attrs), "no inline handlers"
    assert "@import" not in text and not re.search(r"url\((?!#)", text)
    (policy,) = [attrs["content"] for tag, attrs in reader.tags if attrs.get("http-equiv") == "Content-Security-Policy"]
    assert "default-src 'none'" in policy
    script = re.search(r"<script>(.*)</script>", text, re.DOTALL)[1]
    assert f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" in policy, "only our script may run"
    assert script == asset("page.js")


def test_structure_for_those_who_do_not_see_it(filled, study):
    reader = Reader(page(study, filled))
    assert ("html", {"lang": "en"}) in reader.tags
    assert [tag for tag, _ in reader.headings].count("h1") == 1 and reader.headings[0] == ["h1", study.question]
    assert len(reader.ids) == len(set(reader.ids)), "ids are unique"
    for _, attrs in reader.tags:
        for ids in (attrs.get("aria-labelledby"), (attrs.get("href") or "")[1:] or None):
            assert all(one in reader.ids for one in (ids or "").split() if ":" not in one)
    assert all(attrs.get("role") == "img" for tag, attrs in reader.tags if tag == "svg")
    assert sum(tag == "svg" for tag, _ in reader.tags) == 11 + len(study.arms), "eleven figures, and a drawing an arm"
    assert all(attrs.get("scope") in ("col", "row") for tag, attrs in reader.tags if tag == "th")


def test_hostile_text_is_harmless(store, make_study, fill_store):
    bad = "<script>alert(1)</script>"
    study = make_study("""\
model: {layers: 2, d_model: 32, heads: 2}
recipe: {tokens: 10k, batch: 1024, context: 128}
arms: {one: {}, two: {schedule: 1..2 1..2}, three: {schedule: 1..2 2}}
reference: one
seeds: [1, 2]
""")
    names = [bad, "' onmouseover='x", "]]>&amp;"]
    arms = tuple(arm.model_copy(update={"name": name, "note": f'{bad}" onload="x'}) for arm, name in zip(study.arms, names, strict=True))
    given = {
        "question": f'{bad} & "quotes" & </title></style>',
        "about": bad,
        "source": bad,
        "ours": {bad: bad},
        "given": bad,
        "warnings": (bad,),
    }
    study = study.model_copy(update={"arms": arms, "reference": bad, "name": bad, "size": bad, **given})
    fill_store(store, study, {("' onmouseover='x", 2): "failed"})
    text = page(study, store)
    reader = Reader(text)
    assert sum(tag == "script" for tag, _ in reader.tags) == 1 and text.count("<script") == 1
    assert not any(name.startswith("on") for _, attrs in reader.tags for name in attrs)
    assert bad in reader.text and reader.headings[0][1].startswith(bad), "shown as it was written"
    for svg in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        ElementTree.fromstring(svg)


def test_half_done_reports_what_there_is(store, study, fill_store):
    states = {("twice", 2): "stopped", ("deep", 1): "failed", ("deep", 2): "missing", ("early", 1): "running", ("early", 2): "running"}
    fill_store(store, study, states)
    reader = Reader(page(study, store))
    runs = {(row[0][0], row[1][0]): row for row in reader.tables["runs"][1:]}
    assert len(runs) == 8, "every run that was asked for is a row"
    assert runs["deep", "1"][3][0] == "failed" and runs["deep", "1"][-1][0] == "the loss is not finite at step 7"
    assert runs["deep", "2"][3][0] == "not begun"
    assert runs["twice", "2"][3][0] == "stopped" and runs["early", "1"][3][0] == "stopped", "a run that no process holds was killed"
    assert "deep, seed 1: failed. the loss is not finite at step 7" in reader.text
    assert "3 of 8 runs are finished" in reader.text
    early = row_of(reader, "results", "early")
    assert early["nats a token"][0].endswith("*") and "at 29.7k tokens" in early["against plain"][0] and early["seeds"][0] == "0/2"
    assert "before the end of training: early at 29,696 of 59,392 tokens" in reader.text
    assert row_of(reader, "results", "twice")["seeds"][0] == "1/2"
    assert row_of(reader, "results", "deep")["nats a token"][0] == numbers.NONE
    assert row_of(reader, "results", "deep")["against plain"][0] == "failed, nothing measured"


@pytest.mark.parametrize("registered", [False, True])
def test_nothing_finished(store, study, fill_store, registered):
    if registered:
        fill_store(store, study, {(arm.name, seed): "missing" for arm in study.arms for seed in arm.seeds})
    reader = Reader(page(study, store))
    assert "Nothing is measured yet" in reader.text and "0 of 8 runs are finished" in reader.text
    assert len(reader.tables["runs"]) == 9 and len(reader.tables["ledger"]) == 5, "the plan is there"
    assert row_of(reader, "results", "plain")["against plain"][0] == "not begun"


def test_one_arm(store, make_study, fill_store):
    study = make_study("""\
model: {layers: 2, d_model: 32, heads: 2}
recipe: {tokens: 10k, batch: 1024, context: 128}
arms: {only: {}}
reference: only
seeds: [1]
""")
    fill_store(store, study, gains={"only": 0.0})
    reader = Reader(page(study, store))
    assert row_of(reader, "results", "only")["nats a token"][0] != numbers.NONE
    assert "controls" not in reader.tables


def test_forty_arms(store, make_study, fill_store):
    arms = "\n".join(f'  arm{index:02d}: {{schedule: "1..2 {1 + index % 2}x{1 + index // 2}"}}' for index in range(39))
    study = make_study(f"""\
model: {{layers: 2, d_model: 32, heads: 2}}
recipe: {{tokens: 10k, batch: 1024, context: 128}}
arms:
  base: {{}}
{arms}
reference: base
seeds: [1]
""")
    fill_store(store, study, gains={f"arm{index:02d}": 0.002 * (index - 10) for index in range(39)} | {"base": 0.0})
    text = page(study, store)
    reader = Reader(text)
    names = [row[0][0] for row in reader.tables["results"][1:]]
    assert names[:40] == [arm.name for arm in study.arms], "all of them, in the order of the study"
    assert len(text) < 2_000_000
    for line in re.findall(r"<li>([^<]*)</li>", text):
        assert len(line) < 600, "no sentence lists forty names"
    forest = re.search(r'<title id="f-forest-t">.*?</svg>', text, re.DOTALL)[0]
    assert all(f">arm{index:02d}</text>" in forest for index in range(39))
    assert len(set(re.findall(r'class="dot f(\d)"', forest))) == 7, "seven are told apart, the others grey"


def test_held_out_numbers_are_not_read(filled, study, monkeypatch):
    parts = []
    original = type(filled.run("a" * 16)).read_losses
    monkeypatch.setattr(
        "ostinato.store.RunFolder.read_losses", lambda self, part, tokens: parts.append(part) or original(self, part, tokens)
    )
    text = page(study, filled)
    assert set(parts) == {"validation"} and "7.6543" not in text
    assert filled.study_folder(study.name).held_out_shown() is None


def test_other_versions_are_named_and_not_mixed(filled, study, fill_store):
    changed = study.model_copy(update={"size": "another"})
    assert "Nothing is measured yet" in page(changed, filled), "results of the other version are not this one's"
    assert "1 other version " in page(changed, filled)
    fill_store(filled, changed, gains={"twice": 0.2})
    assert "1 other version " in page(study, filled) and "1 other version " in page(changed, filled)


def test_machines_that_differ_are_all_shown(filled, study):
    folder = filled.runs()[0]
    folder.write_record(
        {},
        {},
        {"versions": {"python": "3.12.1"}, "hardware": {"cpu": "Another", "gpus": [{"name": "H200", "memory": "139 GiB", "driver": "9"}]}},
    )
    reader = Reader(page(study, filled))
    assert "Another environment" in reader.text and "H200, 139 GiB, driver 9" in reader.text and "c0ffee" in reader.text
    assert "/somewhere/private" not in reader.text, "the folder is a private matter of the machine"


def test_reproduction(filled, study):
    reader = Reader(page(study, filled))
    assert "ostinato run small.yaml" in reader.text
    assert "prepared text" in reader.text and "d" * 64 in reader.text
    assert study.given.splitlines()[0] in reader.text
    assert "ostinato run quickstart" in Reader(page(load_study("quickstart"), Store(filled.root.parent / "none"))).text
    assert "ostinato run loop2 --size desk" in Reader(page(load_study("loop2", "desk"), Store(filled.root.parent / "none"))).text


def test_a_corpus_is_named_without_its_folder(store, make_study, fill_store, tmp_path):
    (tmp_path / "words.txt").write_text("words", encoding="utf-8")
    study = make_study("""\
data: {corpus: words.txt, tokenizer: {bpe: 300}}
model: {layers: 2, d_model: 32, heads: 2}
recipe: {tokens: 10k, batch: 1024, context: 128}
arms: {one: {}, two: {schedule: 1..2 1..2}}
reference: one
seeds: [1]
""")
    fill_store(store, study)
    text = page(study, store)
    assert "words.txt" in text and str(tmp_path) not in text


def test_a_report_needs_no_torch(filled, study, tmp_path):
    program = (
        "import sys; sys.modules['torch'] = None; sys.modules['matplotlib'] = None\n"
        "from pathlib import Path\nfrom ostinato.report import Results, write_report\nfrom ostinato.store import Store\n"
        "from ostinato.study import load_study\nfrom rich.console import Console\n"
        "study, store = load_study(sys.argv[1]), Store(Path(sys.argv[2]))\n"
        "print(write_report(study, store, Path(sys.argv[3])))\nConsole().print(Results(study, store))\n"
    )
    done = subprocess.run([sys.executable, "-c", program, study.path, str(filled.root), str(tmp_path / "x.html")],
                          capture_output=True, text=True, env={"PYTHONPATH": ":".join(sys.path)}, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "x.html").exists() and "twice" in done.stdout
