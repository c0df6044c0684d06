"""benchmarks/gpu.py as far as a machine without a GPU can try it, and the text that it trains on."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

BENCHMARKS = Path(__file__).parent.parent.parent / "benchmarks"


@pytest.fixture
def script(monkeypatch):
    """script(*arguments) -> exit code; script.module is benchmarks/gpu.py."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    module = importlib.import_module("gpu")

    def start(*arguments):
        monkeypatch.setattr(sys, "argv", ["gpu.py", *map(str, arguments)])
        return module.main()

    start.module = module
    return start


@pytest.fixture
def words(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("gpu_text")


def test_without_a_gpu_it_says_so(script, tmp_path, capsys):
    assert script("--json", tmp_path / "gpu.json") == 0
    assert "no GPU" in capsys.readouterr().out and not (tmp_path / "gpu.json").exists()


def test_every_part_runs_at_desk_size(script, tmp_path):
    assert script("--tiny", "--json", tmp_path / "gpu.json") == 0
    found = json.loads((tmp_path / "gpu.json").read_text())
    assert set(found) == {"settings", "checks", "speed", "precision", "training"}
    assert {name: part["ok"] for name, part in found["checks"].items() if isinstance(part, dict) and "ok" in part} == {
        "memory": True, "muon": True, "resume": True}  # fmt: skip
    assert all(part["ok"] for name in ("heads", "forward", "delta") for part in found["checks"][name].values())
    assert list(found["speed"]["arms"]) == [f"{name}, eager" for name in script.module.PUBLISHED]
    assert all(arm["tokens/s"] > 0 and arm["published"]["tokens/s"] > 0 for arm in found["speed"]["arms"].values())
    assert found["precision"]["steps of both"] == 2 and found["training"]["nats of the chain"] > 1
    arms = found["training"]["arms"]
    assert list(arms) == ["base8", "loop2", "l16"]
    assert all(arm["steps"] == 2 and found["training"]["nats of the chain"] < arm["validation nats"] < 7 for arm in arms.values())


def test_a_part_whose_seconds_are_spent_stops_and_says_what_it_left_out(script, tmp_path, monkeypatch):
    monkeypatch.setattr(script.module, "SECONDS", dict.fromkeys(script.module.SECONDS, 0.0))
    assert script("--tiny", "--only", "checks", "speed", "--json", tmp_path / "gpu.json") == 0
    found = json.loads((tmp_path / "gpu.json").read_text())
    assert len(found["checks"]["left out"]) == 6 and len(found["speed"]["left out"]) == 7 and "training" not in found


def test_a_check_that_fails_or_breaks_is_named_and_ends_with_1(script, tmp_path, monkeypatch, capsys):
    checks = importlib.import_module("gpu_checks")
    monkeypatch.setattr(checks, "muon", lambda device: {"cosine": 0.5, "ok": False})
    for name in ("heads", "resume", "forward", "delta"):
        monkeypatch.setattr(checks, name, lambda *given: {"ok": True})
    monkeypatch.setattr(checks, "memory", lambda device: 1 / 0)
    assert script("--tiny", "--only", "checks", "--json", tmp_path / "gpu.json") == 1
    assert "failed: checks: memory; checks: muon" in capsys.readouterr().out


def test_the_peak_is_that_of_the_device(script, monkeypatch):
    here = script.module.Setting("cuda", False, {})
    for name, peak in {"NVIDIA H100 80GB HBM3": 989.4e12, "NVIDIA H100 PCIe": 756e12, "NVIDIA H200": 989.4e12, "NVIDIA L4": 121e12}.items():
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda name=name: name)
        assert here.peak[1] == peak
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "another")
    assert here.peak is None


def test_the_chain_is_what_its_best_loss_says(words):
    stream = words.chain(64, 200_000, 3)
    assert stream.dtype == np.uint16 and len(stream) == 200_000 and stream.max() < 64
    assert (stream == words.chain(64, 200_000, 3)).all() and (stream != words.chain(64, 200_000, 4)).any()
    pairs = np.zeros((64, 64))
    np.add.at(pairs, (stream[:-1], stream[1:]), 1)
    shares = pairs / np.maximum(pairs.sum(1, keepdims=True), 1)
    counted = -(pairs * np.log(np.maximum(shares, 1e-12))).sum() / pairs.sum()  # conditional entropy, from counts: a little too low
    assert counted < words.best_nats(64, stream) < counted + 0.03
    assert (stream == words.BOS).mean() == pytest.approx(1 / words.ONCE_IN, rel=0.3)
