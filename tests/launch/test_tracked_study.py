"""A study with real workers and trackers: what a person is shown, and that the numbers are those of a study without."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ostinato.launch import run_study
from ostinato.store import Store

FAKES = Path(__file__).parent / "fakes"


@pytest.fixture
def fakes(tmp_path, monkeypatch):
    """The stand-ins in place of the packages, here and in the workers; where they keep what they are told."""
    for name in [name for name in os.environ if name.startswith(("WANDB_", "TRACKIO_", "OSTINATO_TRACK"))]:
        monkeypatch.delenv(name)
    monkeypatch.syspath_prepend(FAKES)
    monkeypatch.setenv("PYTHONPATH", str(FAKES))
    monkeypatch.setenv("FAKE", str(tmp_path))
    monkeypatch.setenv("WANDB_MODE", "offline")
    return tmp_path


def numbers(store):
    found = {}
    for folder in store.runs():
        found[folder.name] = folder.steps().drop_columns(["seconds"]).to_pylist()
        for point in folder.measured():
            found[folder.name, point] = folder.read_losses(*point).losses.tobytes()
    return found


def test_a_tracked_study(tiny, tmp_path, fakes, console):
    study = tiny(tokens=640)
    plain, tracked = Store(tmp_path / "plain"), Store(tmp_path / "tracked")
    assert run_study(study, plain, seeds=[1], console=console).done
    before = console.file.getvalue()
    assert len(run_study(study, tracked, seeds=[1], console=console, track=["wandb", "trackio"]).done) == 2
    assert numbers(tracked) == numbers(plain) and len(numbers(plain)) == 2 + 2 * 2
    shown = console.file.getvalue()[len(before) :]
    assert "Weights & Biases; trackio\n" in shown, "one line says where"
    assert shown.count("Weights & Biases: offline (as it is set on this machine)") == 1, "for two runs"
    assert shown.count("trackio: project tiny on this machine") == 1
    for name in ("wandb", "trackio"):
        rows = [json.loads(line) for line in (fakes / f"{name}.jsonl").read_text().splitlines()]
        begun = {row["group"]: row["config"] for row in rows if row["call"] == "init"}
        assert begun.keys() == {"plain", "twice"} and begun["twice"]["arm"]["model"]["schedule"] == "1..2 1..2"
        assert begun["twice"]["ledger"]["params_total"] > 0 and begun["twice"]["seed"] == 1
        assert sum(row["call"] == "log" for row in rows) == 2 * (10 + 1), "ten steps and a measurement of two runs"
    for folder in tracked.runs():
        assert folder.peak_bytes() > 0 and folder.tokens_per_s() > 0
        assert "profiler" not in folder.log_path.read_text() and "CPUAllocator" not in folder.log_path.read_text()
