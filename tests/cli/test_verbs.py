"""Every verb as a person gives it: what it prints, its JSON, its exit code; a mistake is a message and never a traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

TINY = """
question: Does a second pass help?
data: {corpus: text.txt, separator: "\\n\\n", tokenizer: {bpe: 300}, validation: 0.2, held_out: 0.1}
model: {family: llama, layers: 2, d_model: 16, heads: 2}
recipe: {tokens: 1024, batch: 256, context: 32, lr: 0.02}
arms:
  plain: {}
  twice: {schedule: 1..2 1..2}
reference: plain
seeds: [1]
evaluate: {every: 512}
checkpoints: {every: 512}
"""


def ostinato(*words: str, cwd: Path, code: int = 0, only_output: bool = False) -> str:
    env = {**os.environ, "OSTINATO_CACHE": str(cwd / "cache"), "OSTINATO_STORE": str(cwd / "store"), "COLUMNS": "140"}
    done = subprocess.run([sys.executable, "-m", "ostinato", *words], cwd=cwd, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == code, f"{words}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr + done.stdout
    return done.stdout if only_output else done.stdout + done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a tiny study that has run."""
    path = tmp_path_factory.mktemp("verbs")
    sentence = "the loop runs again and a layer sees what it saw before while the stack grows no deeper than it was"
    words = sentence.split()
    paragraphs = (" ".join(words[(i * j + i) % len(words)] for j in range(3 + i % 40)) for i in range(400))
    (path / "text.txt").write_text("\n\n".join(paragraphs))
    (path / "tiny.yaml").write_text(TINY)
    time.sleep(2.1)  # the hash of a younger file is not remembered: it could still change
    ostinato("run", "tiny.yaml", cwd=path)
    return path


def test_help_of_everything(tmp_path):
    verbs = ("new", "plan", "run", "report", "draw", "check", "query", "generate", "measure", "export", "list")
    shown = ostinato("--help", cwd=tmp_path)
    for verb in verbs:
        assert verb in shown
        assert "Usage" in ostinato(verb, "--help", cwd=tmp_path)


def test_new_study_plans_as_it_is(tmp_path):
    assert "next: ostinato plan my.yaml" in ostinato("new", "my.yaml", cwd=tmp_path)
    assert "exists already" in ostinato("new", "my.yaml", cwd=tmp_path, code=2)
    ostinato("new", "my.yaml", "--force", cwd=tmp_path)
    rows = json.loads(ostinato("plan", "my.yaml", "--json", cwd=tmp_path))
    needed = {"arm", "params_total", "params_nonembedding", "flops_per_token", "effective_depth", "unique_layers", "tokens"}
    assert rows and all(needed <= set(row) for row in rows)


def test_a_run_that_is_done_is_not_done_again(folder):
    again = json.loads(ostinato("run", "tiny.yaml", "--json", cwd=folder, only_output=True))
    assert {row["arm"] for row in again["results"]} == {"plain", "twice"}
    assert not again["failed"] and Path(folder, again["report"]).is_file()


def test_plan_knows_words_and_epochs_once_the_text_is_prepared(folder):
    row = json.loads(ostinato("plan", "tiny.yaml", "--json", cwd=folder))[0]
    assert row["words"] > 1000
    assert row["first_pass_ends"] and row["epochs"] == pytest.approx(row["tokens"] / row["first_pass_ends"])


def test_report_check_query_generate_export_list_draw(folder):
    assert "report: " in ostinato("report", "tiny.yaml", cwd=folder)
    assert "Held-out loss" in ostinato("report", "tiny.yaml", "--held-out", cwd=folder)
    assert "at 1,024 tokens" in ostinato("check", "tiny/plain/1", cwd=folder)
    assert "bit-identical" in ostinato("check", "tiny/plain/1", "--tokens", "512", cwd=folder)
    assert "512, 1,024" in ostinato("check", "tiny/plain/1", "--tokens", "7", cwd=folder, code=2)
    rows = json.loads(ostinato("query", "select arm, part, nats from results order by arm", "--json", cwd=folder))
    assert {row["part"] for row in rows} == {"validation"}
    held = json.loads(ostinato("query", "select distinct part from results", "--held-out", "--json", cwd=folder))
    assert {row["part"] for row in held} == {"validation", "held_out"}
    assert "twice" in ostinato("query", "select * from results", cwd=folder)
    assert len(ostinato("generate", "tiny/twice/1", "the loop", "-n", "5", cwd=folder)) > len("the loop")
    assert "wrote out" in ostinato("export", "tiny/twice/1", "out", "--tokens", "512", cwd=folder)
    assert (folder / "out" / "model.safetensors").is_file()
    assert "exists already" in ostinato("export", "tiny/twice/1", "out", cwd=folder, code=2)
    assert "done" in ostinato("list", "--runs", cwd=folder)
    assert "application 1–2" in ostinato("draw", "tiny.yaml", "--arm", "twice", cwd=folder)
    ostinato("draw", "1 (2 3)x3 4", "--layers", "4", "--svg", "s.svg", cwd=folder)
    for schedule in ("1..2 (3..4)x3 1x7", "[4,2,1,1]"):
        assert ostinato("draw", schedule, cwd=folder) == ostinato("draw", schedule, "-n", "4", cwd=folder)
    assert (folder / "s.svg").read_text().startswith("<svg")


def test_measure_finds_what_a_run_has_taken_and_takes_what_is_named(folder):
    assert "there already: lens, skips, states, heads and speed" in ostinato("measure", "tiny/plain/1", cwd=folder)
    rows = json.loads(ostinato("measure", "tiny.yaml", "--only", "states", "--json", cwd=folder, only_output=True))["measures"]
    assert [(row["arm"], row["measure"], row["state"]) for row in rows] == [(arm, "states", "taken") for arm in ("plain", "twice")]
    assert "taken: states" in ostinato("measure", "tiny/plain/1", "--only", "states", "--tokens", "512", cwd=folder)
    points = json.loads(ostinato("query", "select distinct tokens from measures order by 1", "--json", cwd=folder))
    assert [row["tokens"] for row in points] == [512, 1024]
    assert "no checkpoint at 7 tokens" in ostinato("measure", "tiny/plain/1", "--only", "states", "--tokens", "7", cwd=folder, code=1)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("measure", "no/such/1"), "list --runs"),
        (("measure", "quickstart", "--only", "lense"), "lens"),
        (("measure", "quickstart", "--only", "pairs"), "--pairs"),
        (("measure", "quickstart", "--pairs", "nowhere"), "nowhere"),
        (("measure", "."), "config.json"),
        (("plan", "nothing.yaml"), "nothing.yaml"),
        (("plan", "quickstar"), "quickstart"),
        (("plan", "loop2", "--size", "dek"), "desk"),
        (("draw", "1..8 9", "--layers", "8"), "column 6"),
        (("draw", "quickstart", "--arm", "twize"), "twice"),
        (("draw", "quickstart", "--svg", "x.svg"), "--arm"),
        (("check", "abc"), "list --runs"),
        (("check", ""), "list --runs"),
        (("generate", "no/such/1"), "list --runs"),
        (("export", "no/such/1", "out"), "list --runs"),
        (("query", "select * from nowhere"), "results"),
        (("query", "drop table runs"), "SELECT"),
        (("run", "quickstart", "--arm", "nope"), "plain"),
        (("run", "quickstart", "--seed", "77"), "seed"),
        (("new", "."), "folder"),
        (("run", "quickstart", "--device", "cuda"), "GPU"),
        (("run", "quickstart", "--device", "tpu"), "auto, cpu, cuda"),
        (("run", "ilr"), "hub"),
        (("calibrate", "--device", "tpu"), "auto, cpu, cuda"),
    ],
)
def test_a_mistake_is_a_message_with_a_way_out(words, said, tmp_path):
    assert said in ostinato(*words, cwd=tmp_path, code=2)


def test_keys_are_never_cut_off():
    from typer.testing import CliRunner

    from ostinato import api
    from ostinato.cli.main import app

    shown = CliRunner().invoke(app, ["keys"], env={"COLUMNS": "80"}).stdout
    assert "…" not in shown
    assert all(f" {row['key']} " in shown for row in api.keys(""))
    words = {word for row in api.keys("") for word in f"{row['values']} {row['help']}".split()}
    assert not {word for word in words if word not in shown}
