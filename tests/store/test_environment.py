"""The environment never fails, and tells a clean working folder from a changed one."""

from __future__ import annotations

import json
import subprocess
import sys

from ostinato.store import environment, usable_cores
from ostinato.store.environment import git_state


def git(folder, *arguments):
    subprocess.run(["git", "-C", str(folder), "-c", "user.name=x", "-c", "user.email=x@x", *arguments], check=True, capture_output=True)


def test_versions_and_hardware():
    found = environment()
    assert json.loads(json.dumps(found)) == found
    assert found["versions"]["python"] == ".".join(map(str, sys.version_info[:3])) and found["versions"]["numpy"]
    assert found["hardware"]["memory_bytes"] > 2**20 and found["hardware"]["cpu"]
    assert usable_cores() >= 1


def test_git_states(tmp_path):
    assert git_state(tmp_path) is None
    assert environment(tmp_path)["git"] is None
    git(tmp_path, "init", "-q")
    assert git_state(tmp_path) is None, "no commit yet"
    (tmp_path / "a").write_text("1")
    git(tmp_path, "add", "a")
    git(tmp_path, "commit", "-qm", "one")
    state = git_state(tmp_path)
    assert len(state["commit"]) == 40 and state["dirty"] is False
    (tmp_path / "a").write_text("2")
    assert git_state(tmp_path)["dirty"] is True


def test_no_git_on_the_machine(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git_state(tmp_path) is None


def test_no_torch_is_imported():
    code = "import sys, ostinato.store as s; s.environment(); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
