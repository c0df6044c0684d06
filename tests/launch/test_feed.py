"""A tracker beside a run: what it is told, that a resumed run goes on with its curve, and that nothing it does hurts or delays the run."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ostinato.launch import codes, feed, tracking
from ostinato.launch.feed import Feed, noticed
from ostinato.store.runs import RunFolder
from ostinato.study.records import Checkpoints, Evaluate
from ostinato.train import RunRequest, trackers, train

FAKES = Path(__file__).parent / "fakes"
ROWS = [({"train/loss": 6.0 - step / 10}, step) for step in range(1, 21)]


@pytest.fixture(autouse=True)
def fakes(tmp_path, monkeypatch):
    """The stand-ins in place of the packages, and a server that can be reached; where they keep what they are told."""
    for name in [name for name in os.environ if name.startswith(("WANDB_", "TRACKIO_")) or name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    (tmp_path / "told").mkdir()
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("WANDB_BASE_URL", f"http://127.0.0.1:{server.getsockname()[1]}")
        monkeypatch.setenv("WANDB_API_KEY", "k" * 40)
        monkeypatch.setenv("FAKE", str(tmp_path / "told"))
        monkeypatch.setenv("PYTHONPATH", str(FAKES))
        monkeypatch.setattr(trackers, "CLOSE_SECONDS", 20.0)
        yield tmp_path / "told"


@pytest.fixture
def request_file(tmp_path):
    """A request as the launcher writes it, of the run in tmp_path/run."""
    folder = tmp_path / "run"
    folder.mkdir()
    request = {"folder": str(folder), "given": {"study": "a study", "size": "desk", "arm": "twice", "seed": 2},
               "resolved": {"fingerprint": "f" * 64, "arm": {"name": "twice", "lr": 0.1}, "seed": 2, "ledger": {"params": 7}}}  # fmt: skip
    (folder / "request.json").write_text(json.dumps(request))
    return folder / "request.json"


def told(fakes, name, call):
    path = fakes / f"{name}.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [row for row in rows if row["call"] == call]


def feed_all(name, request_file, rows, seconds=20.0):
    """Give the rows to a tracker, and wait until it has them."""
    one = Feed(name, request_file)
    for scalars, step in rows:
        one.log(scalars, step)
    one.close(time.monotonic() + seconds)
    return one


def said(request_file):
    path = request_file.parent / "notices.txt"
    return path.read_text().splitlines() if path.exists() else []


def test_what_a_tracker_is_told(fakes, request_file):
    rows = [*ROWS[:5], ({"validation/nats": 5.6}, 5), *ROWS[5:]]
    assert feed_all("wandb", request_file, rows).process.returncode == 0
    (begun,) = told(fakes, "wandb", "init")
    assert (begun["project"], begun["group"], begun["name"], begun["id"]) == ("a-study", "twice", "twice/2", "f" * 16)
    assert begun["config"] == {"study": "a study", "size": "desk", "fingerprint": "f" * 64, "arm": {"name": "twice", "lr": 0.1}, "seed": 2,
                               "ledger": {"params": 7}}  # fmt: skip
    logged = told(fakes, "wandb", "log")
    assert [row["step"] for row in logged] == [1, 2, 3, 4, 5, 5, *range(6, 21)]
    assert logged[5]["data"] == {"validation/nats": 5.6, "validation/step": 5}
    assert len(told(fakes, "wandb", "finish")) == 1
    assert said(request_file) == ["Weights & Biases: https://wandb.example/me/p"]


def test_trackio_is_told_the_same(fakes, request_file, monkeypatch):
    monkeypatch.setenv("TRACKIO_PROJECT", "mine")
    assert feed_all("trackio", request_file, [*ROWS[:2], ({"validation/nats": 5.6}, 2)]).process.returncode == 0
    (begun,) = told(fakes, "trackio", "init")
    assert (begun["project"], begun["group"], begun["name"], begun["resume"]) == ("mine", "twice", "twice/2 ffffffff", "allow")
    assert [(row["data"], row["step"]) for row in told(fakes, "trackio", "log")] == [*ROWS[:2], ({"validation/nats": 5.6}, 2)]
    assert said(request_file) == ["trackio: project mine on this machine"]


@pytest.mark.parametrize(("name", "mode"), [("wandb", "online"), ("wandb", "offline"), ("trackio", "")])
def test_a_resumed_run_goes_on_with_its_curve(fakes, request_file, monkeypatch, name, mode):
    """The steps after the last checkpoint are trained again; what was measured late still arrives."""
    monkeypatch.setenv("WANDB_MODE", mode)
    feed_all(name, request_file, ROWS[:12])
    feed_all(name, request_file, [*ROWS[7:10], ({"validation/nats": 5.0}, 10), *ROWS[10:]])
    logged = told(fakes, name, "log")
    assert [row["step"] for row in logged if "train/loss" in row["data"]] == list(range(1, 21))
    assert [row["data"]["validation/nats"] for row in logged if "validation/nats" in row["data"]] == [5.0]
    if name == "wandb":
        assert len({row["id"] for row in told(fakes, name, "init")}) == 1


@pytest.mark.parametrize(
    ("change", "why"),
    [({"WANDB_API_KEY": ""}, "no account here: wandb login"), ({"WANDB_BASE_URL": "http://127.0.0.1:1"}, "no way to 127.0.0.1"),
     ({"WANDB_MODE": "offline"}, "as it is set on this machine")],
)  # fmt: skip
def test_without_account_or_network_wandb_is_offline(fakes, request_file, monkeypatch, change, why):
    for name, value in change.items():
        monkeypatch.setenv(name, value)
    feed_all("wandb", request_file, ROWS)
    assert all(row["offline"] for row in told(fakes, "wandb", "log")) and len(told(fakes, "wandb", "log")) == 20
    (line,) = said(request_file)
    assert f"offline ({why}" in line and f"wandb sync {request_file.parent.parent}/*/wandb/offline-run-*" in line


def test_a_space_out_of_reach_leaves_trackio_here(fakes, request_file, monkeypatch):
    monkeypatch.setenv("TRACKIO_SPACE_ID", "me/curves")
    feed_all("trackio", request_file, ROWS)
    assert len(told(fakes, "trackio", "log")) == 20
    assert said(request_file) == ["trackio: me/curves is out of reach (ValueError: You must be logged in); its curves are kept on this "
                                  "machine, and sent later by: trackio sync --project a-study"]  # fmt: skip


@pytest.fixture
def tracked(small_arm, small_text, tmp_path, request_file):
    """tracked(*names) -> (state, steps without seconds, losses, feeds): a small run, with these trackers."""
    opened = []

    def run(*names):
        folder = RunFolder(tmp_path / "runs" / ("-".join(names) or "none"), tmp_path / "targets")
        request = RunRequest(small_arm(), 1, Evaluate(every="640", targets=300, context=16), Checkpoints(every="640"))

        def opener(name):
            return lambda steps_done: opened.append(Feed(name, request_file)) or opened[-1]

        with noticed(request_file.parent / "notices.txt"):
            openers = [opener(name) for name in names]
            state = train(request, small_text, folder, device="cpu", threads=1, tensorboard=False, trackers=openers)
        losses = {point: folder.read_losses(*point).losses.tobytes() for point in folder.measured()}
        return state, folder.steps().drop_columns(["seconds"]).to_pylist(), losses, opened

    yield run
    for one in opened:
        one.process.kill()
        one.process.wait()


@pytest.mark.parametrize("how", ["raise", "exit"])
@pytest.mark.parametrize("call", ["init", "log", "finish"])
def test_a_tracker_that_fails_is_dropped_and_the_run_is_the_same(tracked, request_file, monkeypatch, how, call):
    monkeypatch.setenv("FAKE_WRONG", f"{how} {call}")
    plain = tracked()[:3]
    assert plain[0] == "done" and tracked("trackio")[:3] == plain
    (end,) = [line for line in said(request_file) if "the run goes on" in line or "the run is not hurt" in line]
    assert end.startswith({"raise": "trackio: ConnectionError: the server;", "exit": "trackio: RuntimeError: its process ended with "
                           "exit code 7"}[how])  # fmt: skip


@pytest.mark.parametrize("call", ["init", "log", "finish"])
def test_a_tracker_that_hangs_delays_nothing(tracked, request_file, monkeypatch, call):
    monkeypatch.setenv("FAKE_WRONG", f"hang {call}")
    monkeypatch.setattr(trackers, "CLOSE_SECONDS", 0.3)
    plain = tracked()[:3]
    began = time.monotonic()
    *got, (one, other) = tracked("trackio", "wandb")
    assert tuple(got) == plain and time.monotonic() - began < 10
    assert one.process.poll() is None and other.process.poll() is None, "they go on beside it"
    assert sum("still sending" in line for line in said(request_file)) == 2


def test_no_held_out_loss_leaves(tracked, fakes):
    _, steps, losses, _ = tracked("wandb", "trackio")
    assert ("held_out", 1280) in losses
    for name in ("wandb", "trackio"):
        keys = {key for row in told(fakes, name, "log") for key in row["data"]} - {"validation/step"}
        assert keys == {"train/loss", "train/lr", "train/grad_norm", "train/tokens_per_s", "validation/nats", "gradients/growth"}
        assert [row["data"]["train/loss"] for row in told(fakes, name, "log") if "train/loss" in row["data"]] == [
            row["loss"] for row in steps
        ]


def test_a_tracker_that_is_killed_is_said_once(request_file):
    one = Feed("trackio", request_file)
    one.log({"train/loss": 1.0}, 1)
    os.kill(one.process.pid, signal.SIGKILL)
    one.process.wait()
    with pytest.raises(RuntimeError, match="killed by SIGKILL"):
        one.log({"train/loss": 1.0}, 2)
    one.log({"train/loss": 1.0}, 3)
    one.close(time.monotonic())


def test_a_tracker_that_takes_nothing_is_given_up(request_file, monkeypatch):
    monkeypatch.setattr(feed, "HANG_SECONDS", 0.2)
    one = Feed("trackio", request_file)
    os.kill(one.process.pid, signal.SIGSTOP)
    scalars = {f"train/{number}": float(number) for number in range(20_000)}  # more than a pipe holds
    one.log(scalars, 1)
    time.sleep(0.3)
    with pytest.raises(RuntimeError, match="taken nothing"):
        one.log(scalars, 2)
    assert one.process.wait() == -signal.SIGKILL
    one.close(time.monotonic())


@pytest.mark.parametrize(("call", "constant", "line"), [("init", "START_SECONDS", "no curves there"), ("log", "CALL_SECONDS", "end here"),
                                                        ("finish", "FINISH_SECONDS", "not all was sent")])  # fmt: skip
def test_what_hangs_ends_itself_with_a_line(request_file, monkeypatch, call, constant, line):
    monkeypatch.setenv("FAKE_WRONG", f"hang {call}")
    code = (f"import importlib.util as util, sys\nfrom pathlib import Path\n"
            f"spec = util.spec_from_file_location('tracking', {str(feed.SCRIPT)!r})\nscript = util.module_from_spec(spec)\n"
            f"spec.loader.exec_module(script)\nscript.{constant} = 0.3\nscript.main('trackio', Path({str(request_file)!r}))")  # fmt: skip
    done = subprocess.run([sys.executable, "-c", code], input=b'{"step": 1, "scalars": {"train/loss": 1.0}}\n', timeout=60, check=False,
                          capture_output=True)  # fmt: skip
    assert done.returncode == codes.SAID == tracking.SAID
    assert line in said(request_file)[-1] and line in done.stdout.decode()


def test_one_process_draws_a_run_at_a_time(fakes, request_file):
    first, second = Feed("trackio", request_file), Feed("trackio", request_file)
    for scalars, step in ROWS[:3]:
        first.log(scalars, step)
        second.log(scalars, step)
    for each in (first, second):
        each.process.stdin.close()
    assert [each.process.wait(20.0) for each in (first, second)] == [0, 0]
    assert [row["step"] for row in told(fakes, "trackio", "log")] == [1, 2, 3]


def test_notices_go_to_the_file_and_no_longer_than_asked(tmp_path):
    with noticed(tmp_path / "notices.txt"):
        logging.getLogger("ostinato.trackers").warning("one thing")
    logging.getLogger("ostinato.trackers").warning("another")
    assert (tmp_path / "notices.txt").read_text() == "one thing\n"
