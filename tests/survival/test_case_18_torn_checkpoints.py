"""Case 18: SIGKILL in the middle of a save, a full disk, a missing piece: the newest complete checkpoint loads, the torn one is
named and skipped; a failed save keeps the one before."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys

import pytest

from ostinato.errors import StoreError
from ostinato.store.runs import RunFolder
from ostinato.study.records import Checkpoints, Evaluate
from ostinato.train import RunRequest, checkpoints, train

EVALUATE = Evaluate(targets=300, context=16)

DRIVER = """
import json, os, resource, signal, sys, traceback
from pathlib import Path
import ostinato.files
from ostinato.data.prepare import prepare
from ostinato.errors import StoreError
from ostinato.store.runs import RunFolder
from ostinato.study.records import Arm, Checkpoints, Evaluate
from ostinato.train import RunRequest, checkpoints, train
from ostinato.train.machine import choose
from ostinato.train.trainer import Trainer

given = json.loads(Path(sys.argv[1]).read_text())
root = Path(given["root"])
arm = Arm.model_validate(given["arm"])
prepared = prepare(arm.data, Path(given["cache"]))
Trainer(arm, 1, prepared, choose("cpu", "float32", 1, False))  # what is imported late is imported before the forks
request = RunRequest(arm, 1, Evaluate.model_validate(given["evaluate"]), Checkpoints(every="640"))

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def in_weights():
    genuine = checkpoints.save_weights
    def half(decoder, path):
        genuine(decoder, path)
        os.truncate(path, path.stat().st_size // 2)
        die()
    checkpoints.save_weights = half

def in_optimizer():
    checkpoints.as_bytes = die

def before_manifest():
    checkpoints.now = die

def before_rename():
    genuine = os.replace
    def replace(source, target):
        if str(target).endswith("000000000640"):
            die()
        genuine(source, target)
    os.replace = replace

def after_rename():
    checkpoints.prune = die

def small_files():
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))

codes = {}
for name in ("in_weights", "in_optimizer", "before_manifest", "before_rename", "after_rename", "small_files"):
    worker = os.fork()
    if not worker:
        folder = RunFolder(root / "runs" / name, root / "targets")
        try:
            seen = []
            train(request, prepared, folder, device="cpu", threads=1, tensorboard=False, on_step=seen.append, stop=lambda: len(seen) >= 5)
            globals()[name]()
            train(request, prepared, folder, device="cpu", threads=1, tensorboard=False)
            os._exit(0)
        except StoreError as error:
            (root / f"{name}.error").write_text(str(error))
            os._exit(2)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    codes[name] = os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1])
print(json.dumps(codes))
"""

KILLED = ["in_weights", "in_optimizer", "before_manifest", "before_rename", "after_rename"]


@pytest.fixture(scope="module")
def struck(small_arm, small_text, tmp_path_factory):
    """(root, arm, exit codes): runs stopped at step 5 and then struck in the save at step 10."""
    root = tmp_path_factory.mktemp("torn")
    arm = small_arm()
    given = {
        "root": str(root),
        "cache": str(small_text.cache),
        "arm": arm.model_dump(mode="json"),
        "evaluate": EVALUATE.model_dump(mode="json"),
    }
    (root / "driver.py").write_text(DRIVER)
    (root / "given.json").write_text(json.dumps(given))
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(
        [sys.executable, str(root / "driver.py"), str(root / "given.json")], capture_output=True, text=True, env=environment, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return root, arm, json.loads(done.stdout.splitlines()[-1])


def go_on(root, arm, text, name):
    folder = RunFolder(root / "runs" / name, root / "targets")
    assert train(RunRequest(arm, 1, EVALUATE, Checkpoints(every="640")), text, folder, device="cpu", threads=1, tensorboard=False) == "done"
    return folder


@pytest.fixture(scope="module")
def unbroken(struck, small_text):
    return checkpoints.newest(go_on(*struck[:2], small_text, "unbroken").checkpoints_path).manifest["files"]


@pytest.mark.parametrize("name", KILLED)
def test_killed_in_the_middle_of_a_save(struck, small_text, unbroken, caplog, name):
    root, arm, codes = struck
    assert codes[name] == -9
    path = RunFolder(root / "runs" / name).checkpoints_path
    whole = checkpoints.newest(path)
    assert whole.tokens == (640 if name == "after_rename" else 320)
    left = [found.name for found in path.glob(".*")]
    assert len(left) == (0 if name == "after_rename" else 1)
    with caplog.at_level(logging.INFO, "ostinato"):
        folder = go_on(root, arm, small_text, name)
    assert all(found in caplog.text for found in left)
    assert f"going on from the checkpoint at {whole.tokens:,} tokens" in caplog.text
    assert not list(path.glob(".*"))
    assert checkpoints.newest(folder.checkpoints_path).manifest["files"] == unbroken


def test_a_disk_that_takes_no_more(struck, small_text, unbroken):
    root, arm, codes = struck
    assert codes["small_files"] == 2
    message = (root / "small_files.error").read_text()
    assert "could not be saved: File too large" in message
    assert "000000000320 tokens) is whole" in message
    folder = RunFolder(root / "runs" / "small_files", root / "targets")
    assert folder.status()["state"] == "failed"
    assert [found.tokens for found in checkpoints.listing(folder.checkpoints_path)] == [320]
    assert not list(folder.checkpoints_path.glob(".*"))
    assert checkpoints.newest(go_on(root, arm, small_text, "small_files").checkpoints_path).manifest["files"] == unbroken


@pytest.mark.parametrize("piece", ["weights.safetensors", "optimizer.safetensors", "manifest.json"])
@pytest.mark.parametrize("how", ["missing", "cut short", "one bit"])
def test_a_checkpoint_with_a_missing_or_damaged_piece(struck, small_text, unbroken, caplog, tmp_path, piece, how):
    _, arm, _ = struck
    folder, seen = RunFolder(tmp_path / "runs" / "a", tmp_path / "targets"), []
    request = RunRequest(arm, 1, EVALUATE, Checkpoints(every="256", keep="all"))
    train(request, small_text, folder, device="cpu", threads=1, tensorboard=False, on_step=seen.append, stop=lambda: len(seen) >= 9)
    newest = checkpoints.newest(folder.checkpoints_path)
    assert newest.step == 9
    content = (newest.path / piece).read_bytes()
    if how == "missing":
        (newest.path / piece).unlink()
    else:
        (newest.path / piece).write_bytes(
            content[: len(content) // 2] if how == "cut short" else content[:-40] + bytes([content[-40] ^ 4]) + content[-39:]
        )
    with caplog.at_level(logging.INFO, "ostinato"):
        assert checkpoints.newest(folder.checkpoints_path).step == 8
        assert train(request, small_text, folder, device="cpu", threads=1, tensorboard=False) == "done"
    assert f"{newest.path.name} is torn" in caplog.text
    assert "going on from the checkpoint at 512 tokens" in caplog.text
    assert checkpoints.newest(folder.checkpoints_path).manifest["files"] == unbroken


def test_a_failed_save_keeps_the_one_before(struck, small_text, tmp_path, monkeypatch):
    _, arm, _ = struck
    folder = RunFolder(tmp_path / "runs" / "a", tmp_path / "targets")
    request, genuine = RunRequest(arm, 1, EVALUATE, Checkpoints(every="256", keep="all")), checkpoints.save_weights

    def full(decoder, path):
        if "768" in str(path):
            path.write_bytes(b"half of it")
            raise OSError(28, "No space left on device")
        genuine(decoder, path)

    monkeypatch.setattr(checkpoints, "save_weights", full)
    with pytest.raises(StoreError, match="No space left on device"):
        train(request, small_text, folder, device="cpu", threads=1, tensorboard=False)
    assert [found.tokens for found in checkpoints.listing(folder.checkpoints_path)] == [256, 512]
    assert checkpoints.newest(folder.checkpoints_path).tokens == 512
