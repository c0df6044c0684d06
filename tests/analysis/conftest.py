"""A store, targets of four documents, and a study of a reference and two arms, all made without training."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from ostinato.store import Store, evaluation_key
from ostinato.study.records import Arm, Data, Model, Recipe, Study


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store").create()


@pytest.fixture
def targets():
    document = np.repeat(np.arange(4), 5)
    return SimpleNamespace(id="t" * 64, document=document, position=np.tile(np.arange(1, 6), 4), token=np.arange(20),
                           bytes=np.full(20, 3), digest=document.astype(np.uint64), row=None, policy="each document alone")  # fmt: skip


@pytest.fixture
def study():
    model, data, recipe = Model(layers=("gqa",), d_model=8, heads=2), Data(), Recipe(tokens=2048, batch=1024)
    arms = [Arm(name=name, model=model, recipe=recipe, data=data, seeds=(1, 2)) for name in ("plain", "twice", "deep")]
    arms.append(Arm(name="later", model=model, recipe=recipe, data=data, seeds=(1,), contingent="if deep wins"))
    return Study(name="tiny", arms=tuple(arms), reference="plain")


class Bench:
    """Writes what a launcher and a trainer would have written."""

    def __init__(self, store, study, targets):
        self.store, self.study, self.targets = store, study, targets
        self.fingerprints = {(arm.name, seed): f"{index}{seed}" * 32 for index, arm in enumerate(study.arms) for seed in arm.seeds}
        store.study_folder(study.name).write(study, self.fingerprints)
        store.write_floors(targets.id, "d" * 64, {"unigram": 5.0, "bigram": 2.9})

    def run(self, arm, seed, level, tokens=(1024, 2048), state="done", targets=None, **info):
        folder = self.store.run(self.fingerprints[arm, seed], evaluation_key(self.study.evaluate, 128))
        folder.write_record({"arm": arm, "seed": seed}, {"data_fingerprint": "d" * 64}, {})
        for place, at in enumerate(tokens, 1):
            folder.append_step({"step": place, "tokens": at, "loss": level, "lr": 0.1, "grad_norm": 1.0, "seconds": 2.0})
            losses = np.full(20, level, np.float32) + np.repeat([0.01, -0.01, 0.02, 0.0], 5).astype(np.float32) * seed
            for part in ("validation", "held_out"):
                folder.write_losses(part, at, losses + (0.5 if part == "held_out" else 0), targets or self.targets)
        folder.set_status(state, **info)
        return folder


@pytest.fixture
def bench(store, study, targets):
    return Bench(store, study, targets)
