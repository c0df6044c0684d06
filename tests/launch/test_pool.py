"""The launcher's loop with workers that only pretend: order, slots, failures, interruptions, runs that another process holds."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import ClassVar

import pytest
from rich.console import Console

from ostinato.errors import StudyError
from ostinato.launch import pool, run_study
from ostinato.launch import run as launch_run
from ostinato.launch.process import gpu_names, worker_environment


class Pretend:
    """A worker that ends after `looks` looks, as `endings` says by arm and seed (default: done)."""

    endings: ClassVar[dict] = {}
    looks = 2
    begun: ClassVar[list] = []
    at_once = 0
    alive: ClassVar[set] = set()

    def __init__(self, job, study, store, device, compiled, gpu, threads, environment, track):
        self.job, self.gpu, self.threads, self.started, self.began_at = job, gpu, threads, time.time(), 0.0
        self.left, self.asked = Pretend.looks, False
        Pretend.begun.append(job.name)
        Pretend.alive.add(job.name)
        Pretend.at_once = max(Pretend.at_once, len(Pretend.alive))

    def notices(self):
        return [f"a tracker: offline, look {self.left}", "a tracker: kept here"]

    def progress(self):
        return {"tokens": 640, "loss": 3.0, "tokens_per_s": 100.0, "seconds_left": 1.0}

    def ending(self):
        self.left -= 1
        ending = "stopped" if self.asked else Pretend.endings.get(self.job.name, "done")
        if ending != "never" and self.left <= 0:
            Pretend.alive.discard(self.job.name)
            if ending == "done":
                self.job.folder.write_record({"study": "tiny"}, {}, {})
            return ending
        return None

    def stop(self):
        self.asked = True

    def kill(self):
        Pretend.endings[self.job.name] = "killed"
        self.asked, self.left = False, 0

    def record_death(self):
        self.job.folder.set_status("failed", error="killed by SIGKILL")
        return "killed by SIGKILL"


@pytest.fixture(autouse=True)
def pretend(monkeypatch):
    Pretend.endings, Pretend.looks, Pretend.begun, Pretend.at_once, Pretend.alive = {}, 2, [], 0, set()
    monkeypatch.setattr(pool, "Worker", Pretend)
    monkeypatch.setattr(pool, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(pool, "ELSEWHERE_SECONDS", 0.05)


def test_the_reference_then_the_longest_and_never_more_than_asked(tiny, store, console):
    outcome = run_study(tiny(), store, jobs=2, console=console)
    assert Pretend.begun == ["plain, seed 1", "plain, seed 2", "twice, seed 1"] and Pretend.at_once == 2
    assert [(row["arm"], row["seed"]) for row in outcome.done] == [("plain", 1), ("plain", 2), ("twice", 1)]
    assert not outcome.failed and not outcome.interrupted and "all 3 runs done" in console.file.getvalue()
    version = store.study_folder("tiny").version(tiny())
    assert set(version.runs) == {("plain", 1), ("plain", 2), ("twice", 1), ("later", 1)}


def test_what_is_said_of_trackers_is_shown_once(tiny, store, console, monkeypatch):
    monkeypatch.delenv("OSTINATO_TRACK", raising=False)
    outcome = run_study(tiny(), store, jobs=1, console=console)
    shown = console.file.getvalue()
    assert shown.count("a tracker: kept here") == 1 and shown.count("look") == 2
    assert "plain, seed 1: a tracker: kept here" in shown and "--track" not in outcome.command


def test_trackers_reach_the_workers_and_the_command_that_goes_on(tiny, store, console, monkeypatch):
    seen, genuine = [], Pretend.__init__

    def begin(self, *given):
        seen.append(given[-1])
        genuine(self, *given)

    monkeypatch.setattr(Pretend, "__init__", begin)
    monkeypatch.setattr(launch_run, "installed", lambda names, told: tuple(names))
    outcome = run_study(tiny(), store, console=console, track=["trackio,wandb"])
    assert seen == [("trackio", "wandb")] * 3 and outcome.command.endswith("--track trackio --track wandb")
    assert "trackio; Weights & Biases" in console.file.getvalue()
    monkeypatch.setenv("OSTINATO_TRACK", "wandb")
    other = run_study(tiny(tokens=1920), store, console=console)
    assert seen[-1] == ("wandb",) and "--track" not in other.command, "the variable is still there when the command is given again"


def test_one_failure_does_not_stop_the_others(tiny, store, console):
    Pretend.endings = {"twice, seed 1": "killed"}
    outcome = run_study(tiny(), store, jobs=1, console=console)
    assert len(outcome.done) == 2 and [row["error"] for row in outcome.failed] == ["killed by SIGKILL"]
    assert "twice, seed 1: failed: killed by SIGKILL" in console.file.getvalue() and "1 run failed, 2 done" in console.file.getvalue()


def test_an_error_of_the_run_is_told_as_it_was_recorded(tiny, store, console, monkeypatch):
    def ending(self):
        if self.job.name == "twice, seed 1":
            self.job.folder.set_status("failed", error="the loss is nan")
            return "failed"
        return "done"

    monkeypatch.setattr(Pretend, "ending", ending)
    assert [row["error"] for row in run_study(tiny(), store, console=console).failed] == ["the loss is nan"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_saves_begins_no_more_and_says_how_to_go_on(tiny, store, console, number):
    Pretend.looks = 3
    Pretend.endings = dict.fromkeys(["plain, seed 1", "twice, seed 1"], "never")
    before = signal.getsignal(number)
    sent = []

    def interrupt(view):
        if view.count("running") and not sent:
            sent.append(os.kill(os.getpid(), number))

    outcome = run_study(tiny(), store, jobs=1, console=console, on_update=interrupt)
    assert outcome.interrupted and Pretend.begun == ["plain, seed 1"] and len(outcome.stopped) == 3
    shown = console.file.getvalue()
    assert "plain, seed 1: saved and stopped" in shown and "Go on with:" in shown and outcome.command in shown
    assert outcome.command.startswith("ostinato run tiny --store ")
    assert signal.getsignal(number) is before


def test_a_second_interrupt_ends_the_workers_at_once(tiny, store, console, monkeypatch):
    monkeypatch.setattr(pool, "SIGNAL_SECONDS", 0.05)
    monkeypatch.setattr(Pretend, "stop", lambda self: None)  # a worker that does not listen
    Pretend.endings = {"plain, seed 1": "never"}
    sent = []

    def interrupt(view):
        if view.count("running") and (not sent or (view.stopping and time.monotonic() - sent[-1] > 0.1)):
            sent.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

    outcome = run_study(tiny(), store, jobs=1, console=console, on_update=interrupt)
    assert outcome.interrupted and len(outcome.stopped) == 3 and len(sent) == 2


def test_signals_that_come_together_count_as_one(tiny, store, console):
    Pretend.looks = 3
    Pretend.endings = {"plain, seed 1": "never"}
    killed, sent = [], []

    def interrupt(view):
        if view.count("running") and not sent:
            sent.extend(os.kill(os.getpid(), number) for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT))

    Pretend.kill, keep = lambda self: killed.append(self), Pretend.kill
    try:
        run_study(tiny(), store, jobs=1, console=console, on_update=interrupt)
    finally:
        Pretend.kill = keep
    assert not killed


def test_a_run_that_another_process_holds_is_waited_for(tiny, store, console):
    from ostinato.launch import due

    job = due(tiny(), store)[0]
    held, views = threading.Event(), []

    def hold():
        with job.folder.lock():
            held.set()
            deadline = time.monotonic() + 20
            while not any(run.state == "elsewhere" for view in views for run in view.runs) and time.monotonic() < deadline:
                time.sleep(0.01)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    outcome = run_study(tiny(), store, jobs=1, console=console, on_update=views.append)
    thread.join()
    assert Pretend.begun[-1] == "plain, seed 1" and len(outcome.done) == 3
    assert "another process works on it" in console.file.getvalue()


def test_views_count_up_to_all_the_work(tiny, store, console):
    views = []
    run_study(tiny(), store, jobs=2, console=console, on_update=views.append)
    assert views[-1].share == 1.0 and views[-1].count("done") == 3 and views[-1].seconds_left == 0
    assert any(view.count("running") == 2 for view in views) and any(view.count("waiting") for view in views)
    assert [view.work_done for view in views] == sorted(view.work_done for view in views)


def test_a_run_that_two_arms_share_is_shown_and_counted_once(tiny, store, console):
    study, views = tiny(), []
    study = study.model_copy(update={"arms": (*study.arms, study.arms[1].model_copy(update={"name": "again"}))})
    outcome = run_study(study, store, console=console, on_update=views.append)
    assert [row["arm"] for row in outcome.done] == ["plain", "plain", "twice", "again"]
    assert sorted(run.name for run in views[-1].runs) == ["plain, seed 1", "plain, seed 2", "twice, seed 1"]
    assert "all 3 runs done" in console.file.getvalue()


def test_only_what_is_asked_for(tiny, store, console):
    outcome = run_study(tiny(), store, arms=["plain"], seeds=[2], console=console)
    assert Pretend.begun == ["plain, seed 2"] and "--arm plain --seed 2" in outcome.command


def test_bars_on_a_terminal(tiny, store, tmp_path):
    with open(tmp_path / "out", "w", encoding="utf-8") as file:
        run_study(tiny(), store, console=Console(file=file, force_terminal=True, width=120))
    assert "tokens/s" in (tmp_path / "out").read_text(encoding="utf-8")


def test_environment_of_a_worker(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/mine")
    found = worker_environment("1")
    assert found["OMP_NUM_THREADS"] == found["MKL_NUM_THREADS"] == "1" and found["CUDA_VISIBLE_DEVICES"] == "1"
    assert found["PYTHONPATH"].endswith("/mine")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2, 3")
    assert gpu_names("auto") == ["2", "3"] and gpu_names("cpu") == []
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert gpu_names("auto") == []


def test_a_run_that_began_with_other_threads_keeps_them_and_its_share_of_the_cores(tiny, store, console, monkeypatch):
    from ostinato.launch import due

    jobs = {(job.arm.name, job.seed): job for job in due(tiny(), store)}
    for seed in (1, 2):
        jobs["plain", seed].folder.write_session(device="cpu", threads=2, compiled=False)
    jobs["plain", 2].folder.append_step({"step": 1})  # the other has taken none yet
    seen, genuine = {}, Pretend.__init__

    def begin(self, *given):
        genuine(self, *given)
        seen[self.job.name] = self.threads

    monkeypatch.setattr(Pretend, "__init__", begin)
    run_study(tiny(), store, jobs=2, threads=1, console=console)
    assert seen == {"plain, seed 1": 1, "plain, seed 2": 2, "twice, seed 1": 1}
    assert Pretend.at_once == 1
    assert Pretend.begun == ["plain, seed 1", "plain, seed 2", "twice, seed 1"], "a run that needs two cores waits for them"
    assert console.file.getvalue().count("as it began") == 1 and "plain, seed 2: as it began, with 2 threads" in console.file.getvalue()


def test_more_threads_than_processors_are_refused_before_a_run_keeps_to_them(tiny, store, console):
    with pytest.raises(StudyError, match="--threads 1000"):
        run_study(tiny(), store, threads=1000, console=console)
    for wrong in ({"threads": 0}, {"jobs": -1}, {"jobs": "2"}, {"threads": True}):
        with pytest.raises(StudyError, match="a whole number"):
            run_study(tiny(), store, **wrong, console=console)
    assert not store.root.exists()


def test_a_torn_session_file_is_left_to_the_worker(tiny, store, console):
    from ostinato.launch import due

    folder = due(tiny(), store)[0].folder
    folder.write_session(threads=2)
    folder.append_step({"step": 1})
    (folder.path / "session.json").write_text("{")
    assert len(run_study(tiny(), store, jobs=2, console=console).done) == 3


def test_what_was_done_before_counts_in_the_share(tiny, store, console):
    run_study(tiny(), store, arms=["plain"], seeds=[1], console=console)
    from ostinato.launch import due

    job = next(job for job in due(tiny(), store) if job.name == "plain, seed 2")
    job.folder.write_progress({"tokens": 640})
    views = []
    run_study(tiny(), store, jobs=1, console=console, on_update=views.append)
    reached = [view.share for view in views]
    assert reached[0] > 0 and reached[-1] == 1.0 and reached == sorted(reached)


def test_the_time_left_is_told_by_the_steps_and_not_by_the_start(tiny, store, console, monkeypatch):
    """640 of 1,280 tokens at 100 a second: some seconds, however long the worker took to start."""
    monkeypatch.setattr(Pretend, "looks", 4)
    views = []
    run_study(tiny(), store, arms=["plain"], seeds=[1], jobs=1, console=console, on_update=views.append)
    running = [view.seconds_left for view in views if view.count("running")]
    job_left = next(left for left in running if left)
    assert 6.4 <= job_left < 60
