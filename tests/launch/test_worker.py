"""What a worker makes of its request, of a run that another process holds, and of errors; and what it hears."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys

import pytest

from ostinato.errors import TrainingError
from ostinato.launch import worker
from ostinato.launch.codes import BUSY, DONE, FAILED, STOPPED
from ostinato.launch.worker import Stop
from ostinato.store import RunFolder


@pytest.fixture
def request_file(tmp_path, monkeypatch):
    """A request for the run in tmp_path/run, in this very process: signals and logging stay as they are."""
    monkeypatch.setattr(Stop, "listen", lambda self: self)
    monkeypatch.setattr(logging, "basicConfig", lambda **_: None)
    monkeypatch.setattr(worker, "LOCK_SECONDS", 0.0)
    (tmp_path / "run").mkdir()
    content = {"parent": os.getppid(), "folder": str(tmp_path / "run"), "targets": str(tmp_path / "targets"), "evaluation": "x"}
    path = tmp_path / "run" / "request.json"
    path.write_text(json.dumps(content))
    return path


@pytest.mark.parametrize(("state", "code"), [("done", DONE), ("stopped", STOPPED)])
def test_how_a_run_ends_is_the_exit_code(request_file, monkeypatch, state, code):
    monkeypatch.setattr(worker, "_work", lambda request, folder, stop: state)
    assert worker.main(request_file) == code
    assert not RunFolder(request_file.parent).in_use()


def test_errors_are_recorded_in_the_status(request_file, monkeypatch, caplog):
    folder = RunFolder(request_file.parent)

    def fail(error):
        def work(request, folder, stop):
            raise error

        monkeypatch.setattr(worker, "_work", work)
        return worker.main(request_file)

    assert fail(TrainingError("the loss is nan", "a rule", "lower it")) == FAILED
    assert (
        folder.status()["state"] == "failed" and folder.status()["error"].startswith("the loss is nan") and "Traceback" not in caplog.text
    )
    assert fail(ZeroDivisionError("a mistake of ours")) == FAILED
    assert folder.status()["error"].startswith("ZeroDivisionError: a mistake of ours") and "log.txt" in folder.status()["error"]
    assert "Traceback" in caplog.text


def test_a_run_in_use_is_left_alone(request_file, monkeypatch):
    monkeypatch.setattr(worker, "_work", lambda *_: pytest.fail("the run is in use"))
    code = "import sys; from pathlib import Path; from ostinato.store import RunFolder\n"
    code += "with RunFolder(Path(sys.argv[1])).lock(): print(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code, str(request_file.parent)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        assert worker.main(request_file) == BUSY
        other.communicate(b"\n")
    assert RunFolder(request_file.parent).status() == {"state": "new"}


def test_when_to_stop():
    stop = Stop(os.getppid())
    assert not stop()
    assert Stop(os.getppid() + 1)(), "the parent is another: the one that started it is gone"
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    try:
        for number in before:
            heard = Stop(os.getppid()).listen()
            os.kill(os.getpid(), number)
            assert heard()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_signals_are_heard_before_torch_is_there():
    code = "import sys, ostinato.launch.worker; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
