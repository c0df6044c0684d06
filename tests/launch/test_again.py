"""`again`: the same model, recipe and seed trained once more, in a run of its own; where all settings agree, to the same bits."""

from __future__ import annotations

import numpy as np
import pytest
from safetensors.numpy import load_file

from ostinato.launch.jobs import all_jobs, prepare_texts
from ostinato.study.fingerprint import run_fingerprint
from ostinato.train import RunRequest, train

SETTINGS = {"plain": {}, "same": {}, "rows": {"micro_batch": 16}, "checkpointing": {"activation_checkpointing": True}}


@pytest.fixture
def study(tiny):
    """plain, and once more with the same settings, with one row at a time, and with activation checkpointing."""
    made = tiny()
    plain = made.arms[0].model_copy(update={"seeds": (1,)})
    arms = [plain.model_copy(update={"name": name, "again": None if name == "plain" else name,
                                     "recipe": plain.recipe.model_copy(update=changes)}) for name, changes in SETTINGS.items()]  # fmt: skip
    return made.model_copy(update={"arms": tuple(arms)})


def test_every_arm_has_runs_of_its_own_and_equal_settings_give_equal_weights(study, store):
    jobs = {job.arm.name: job for job in all_jobs(study, store, prepare_texts(study))}
    assert len({job.fingerprint for job in jobs.values()}) == len(SETTINGS)
    weights, losses = {}, {}
    for name, job in jobs.items():
        job.folder.write_record({"arm": name, "seed": 1}, {"arm": job.arm.model_dump(mode="json"), "seed": 1}, {})
        train(RunRequest(job.arm, 1, study.evaluate, study.checkpoints), job.prepared, job.folder, device="cpu", threads=1,
              tensorboard=False)  # fmt: skip
        weights[name] = load_file(job.folder.checkpoints()[1280] / "weights.safetensors")
        losses[name] = job.folder.read_losses("validation", 1280).losses
    same, rows = ([np.array_equal(weights[name][key], value) for key, value in weights["plain"].items()] for name in ("same", "rows"))
    assert all(same) and (losses["same"] == losses["plain"]).all()
    assert not all(rows), "sums in another order: this is the noise of the implementation"
    assert abs(losses["rows"] - losses["plain"]).max() < 0.01 > abs(losses["checkpointing"] - losses["plain"]).max()


def test_without_the_word_both_arms_share_one_run(study):
    prints = {run_fingerprint(arm.model_copy(update={"again": None}), 1, "data") for arm in study.arms}
    assert len(prints) == 1
