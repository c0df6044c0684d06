"""Checkpoints: saved whole, believed only when whole, kept by rule."""

from __future__ import annotations

import json
import logging

import pytest
import torch

from ostinato.errors import StoreError
from ostinato.train import checkpoints


@pytest.fixture
def saved(make_trainer, tmp_path):
    """A trainer, and its checkpoints after each of three steps under tmp_path."""
    trainer = make_trainer()
    for _ in range(3):
        trainer.step()
        checkpoints.save(tmp_path, trainer.step_number, trainer.tokens, trainer.decoder, trainer.optimizers.state(), {"why": "test"})
    return trainer


def everything(trainer):
    return {**dict(trainer.decoder.named_parameters()), **trainer.optimizers.state()}


def damage(path, how):
    if how == "truncated":
        path.write_bytes(path.read_bytes()[:-7])
    elif how == "changed":
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
    else:
        path.unlink()


def test_loading_gives_back_every_bit(saved, make_trainer, tmp_path):
    fresh = make_trainer()
    fresh.load(checkpoints.newest(tmp_path))
    assert fresh.step_number == 3
    assert fresh.tokens == saved.tokens
    first, second = everything(saved), everything(fresh)
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert saved.step().loss == fresh.step().loss


def test_the_manifest_says_what_it_holds(saved, tmp_path):
    manifest = json.loads((tmp_path / "000000000192" / "manifest.json").read_text())
    assert (manifest["step"], manifest["tokens"], manifest["why"]) == (3, 192, "test")
    assert set(manifest["files"]) == {"weights.safetensors", "optimizer.safetensors"}
    assert manifest["versions"]["torch"] == torch.__version__.split("+")[0] or manifest["versions"]["torch"] == torch.__version__


@pytest.mark.parametrize("how", ["truncated", "changed", "missing"])
@pytest.mark.parametrize("file", ["weights.safetensors", "optimizer.safetensors", "manifest.json"])
def test_a_torn_checkpoint_is_named_and_skipped(saved, tmp_path, caplog, how, file):
    damage(tmp_path / "000000000192" / file, how)
    with caplog.at_level(logging.WARNING, "ostinato"):
        assert checkpoints.newest(tmp_path).tokens == 128
    assert "000000000192 is torn" in caplog.text
    assert file in caplog.text


def test_a_number_changed_in_the_manifest_is_noticed(saved, tmp_path):
    path = tmp_path / "000000000192" / "manifest.json"
    path.write_text(path.read_text().replace('"step": 3', '"step": 2'))
    assert checkpoints.newest(tmp_path).step == 2
    assert checkpoints.newest(tmp_path).tokens == 128


def test_all_torn_is_none_at_all(saved, tmp_path):
    for path in tmp_path.iterdir():
        damage(path / "weights.safetensors", "changed")
    assert checkpoints.newest(tmp_path) is None


def test_none_in_a_folder_that_is_not_there(tmp_path):
    assert checkpoints.newest(tmp_path / "nothing") is None


def test_the_newest_at_or_before_a_point(saved, tmp_path):
    assert checkpoints.newest(tmp_path, tokens=63) is None
    assert [checkpoints.newest(tmp_path, tokens=tokens).tokens for tokens in (64, 130, 999)] == [64, 128, 192]


def test_a_failed_save_keeps_what_was_there(saved, tmp_path, monkeypatch):
    def full(decoder, path):
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoints, "save_weights", full)
    with pytest.raises(StoreError, match=r"No space left on device[\s\S]*000000000192 tokens\) is whole"):
        checkpoints.save(tmp_path, 4, 256, saved.decoder, saved.optimizers.state(), {})
    with pytest.raises(StoreError, match="could not be saved"):
        checkpoints.save(tmp_path, 3, 192, saved.decoder, saved.optimizers.state(), {})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["000000000064", "000000000128", "000000000192"]
    assert checkpoints.newest(tmp_path).tokens == 192


@pytest.mark.parametrize(
    ("keep", "measured", "points", "left"),
    [
        ("last", set(), {1, 2, 3}, [4, 5]),
        ("last", {2}, set(), [2, 4, 5]),
        ("all", set(), {1, 3}, [1, 3, 4, 5]),
        ("all", {2}, {1}, [1, 2, 4, 5]),
    ],
)
def test_what_is_kept(make_trainer, tmp_path, keep, measured, points, left):
    trainer = make_trainer()
    trainer.step()
    for number in range(1, 6):
        checkpoints.save(tmp_path, 1, number, trainer.decoder, trainer.optimizers.state(), {})
    checkpoints.prune(tmp_path, keep, measured, points)
    assert sorted(int(path.name) for path in tmp_path.iterdir()) == left


def test_what_a_cut_off_save_or_removal_left_is_swept(saved, tmp_path, caplog):
    (tmp_path / ".000000000256.abc").mkdir()
    (tmp_path / ".000000000064.leaving").mkdir()
    (tmp_path / ".other").mkdir()
    with caplog.at_level(logging.WARNING, "ostinato"):
        checkpoints.sweep(tmp_path)
    assert sorted(path.name for path in tmp_path.glob(".*")) == [".other"]
    assert ".000000000256.abc" in caplog.text


def test_a_checkpoint_of_another_model_is_refused(saved, make_trainer, small_arm, tmp_path):
    other = make_trainer(small_arm(model={"layers": 3}))
    with pytest.raises(StoreError, match="does not fit the model"):
        other.load(checkpoints.newest(tmp_path))
