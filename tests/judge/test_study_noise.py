"""The noise of a study read off its store, against the table of results and sums by hand; refusals have their reasons."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest

from ostinato.analysis import results_table
from ostinato.judge.study_noise import study_noise
from ostinato.store import Store, evaluation_key
from ostinato.study.records import Arm, Data, Model, Recipe, Study

DOCUMENTS, EACH = 44, 6
TARGETS = SimpleNamespace(
    id="t" * 64, document=np.repeat(np.arange(DOCUMENTS), EACH), position=np.tile(np.arange(1, EACH + 1), DOCUMENTS),
    token=np.arange(DOCUMENTS * EACH), bytes=np.full(DOCUMENTS * EACH, 3), digest=np.repeat(np.arange(DOCUMENTS), EACH).astype(np.uint64),
    row=np.repeat(np.arange(DOCUMENTS * EACH // 8), 8), policy="rows",
)  # fmt: skip
LEVELS = {"plain": 3.0, "better": 2.9, "near": 2.901, "again": 3.0}


def losses(arm, seed):
    shared = np.random.default_rng(1).gamma(2, 1, len(TARGETS.token))
    own = np.random.default_rng([seed, sum(map(ord, arm))])
    wobble = 0.0005 * (seed - 2) if arm == "again" else 0.0
    luck = np.random.default_rng([seed, 3 if arm == "again" else len(arm)]).normal(0, 0.002)
    noise = own.normal(0, 0.05, len(shared)) if arm != "again" else losses("plain", seed) - 3.0 - shared
    return (LEVELS[arm] + shared + noise + (luck if arm != "again" else wobble)).astype(np.float64)


@pytest.fixture
def made(tmp_path):
    """made(seeds=(1, 2, 3), missing={(arm, seed)}) -> (study, store): plain, better, near, and plain again with two threads."""

    def make(seeds=(1, 2, 3), missing=(), threads=2):
        recipe = Recipe(tokens=2048, batch=1024)
        arms = [Arm(name=name, model=Model(layers=("gqa",) * (2 + (name == "better") + 2 * (name == "near")), d_model=8, heads=2),
                    recipe=recipe, data=Data(), seeds=seeds, again="threads" if name == "again" else None) for name in LEVELS]  # fmt: skip
        study = Study(name="tiny", arms=tuple(arms), reference="plain")
        store = Store(tmp_path / "store").create()
        runs = {(arm.name, seed): f"{index}{seed}" * 32 for index, arm in enumerate(arms) for seed in seeds}
        store.study_folder("tiny").write(study, runs)
        for (arm, seed), fingerprint in runs.items():
            if (arm, seed) in missing:
                continue
            folder = store.run(fingerprint, evaluation_key(study.evaluate, 128))
            folder.write_record({"arm": arm, "seed": seed}, {"data_fingerprint": "d" * 64, "arm": arms[0].model_dump(mode="json")}, {})
            folder.write_losses("validation", 2048, losses(arm, seed), TARGETS)
            folder.write_losses("held_out", 2048, losses(arm, seed) + 100, TARGETS)
            rows = {"asked": None, "at": [[0, 4]]}
            folder.write_session(device="cpu", threads=threads if arm == "again" else 1, compiled=False, rows_at_once=rows)
            folder.set_status("done")
        store.write_targets(TARGETS)
        return study, store

    return make


def test_every_arm(made):
    study, store = made()
    found = study_noise(study, store)
    rows = {row.name: row for row in results_table(study, store)}
    assert [arm.arm for arm in found.arms] == ["better", "near", "again"]
    for arm in found.arms:
        row = rows[arm.arm]
        assert arm.gain == row.pairing.gain and arm.interval_documents == row.pairing.interval and arm.interval_seeds == row.seeds.interval
        assert arm.windows.won == row.pairing.windows_won and arm.documents == DOCUMENTS
        assert not arm.reasons or arm.arm == "again"
    better = found.arms[0]
    assert better.bca.low < better.gain < better.bca.high and better.bca.low == pytest.approx(better.interval_documents.low, abs=0.01)
    assert better.flip_seeds.p == better.flip_seeds.smallest == 0.25 and better.flip_documents.p < 0.01
    assert better.seeds_needed <= 3 and better.detectable < better.gain and better.detectable_documents > 0


def test_noise_of_seeds_is_without_the_arm_made_again(made):
    study, store = made()
    found = study_noise(study, store)
    means = np.array([[losses(arm, seed).mean() for seed in (1, 2, 3)] for arm in ("plain", "better", "near")])
    rest = means - means.mean(0) - means.mean(1)[:, None] + means.mean()
    assert found.seeds.freedom == 4 and found.seeds.rest == pytest.approx(math.sqrt((rest**2).sum() / 4), rel=1e-4)
    assert set(found.ranking.order) == {"plain", "better", "near"}
    near, far = found.ranking.neighbours
    assert "not distinguishable" in near.words and far.distinguishable and far.worse == "plain"


def test_noise_of_the_implementation_says_what_was_otherwise(made):
    found = study_noise(*made()).implementation
    assert found.freedom == 3 and found.sources == ["threads: 1 in plain, 2 in again"]
    wobbles = [losses("again", seed).mean() - losses("plain", seed).mean() for seed in (1, 2, 3)]
    assert found.gain == pytest.approx(math.sqrt(np.mean(np.square(wobbles))), rel=1e-3)
    assert study_noise(*made(threads=1)).implementation.sources == []


def test_held_out_is_never_read_and_the_record_is_json(made):
    study, store = made()
    found = study_noise(study, store).record()
    assert json.loads(json.dumps(found)) == found and found["arms"][0]["flip_seeds"]["smallest"] == 0.25
    assert store.study_folder("tiny").held_out_shown() is None and max(found["ranking"]["order"].values()) < 10


def test_one_seed_and_nothing_made_again(made):
    study, store = made(seeds=(1,), missing={("again", 1)})
    found = study_noise(study, store)
    assert found.seeds is None and "one seed" in found.reasons["seeds"] and "no run was made again" in found.reasons["implementation"]
    better = found.arms[0]
    assert better.detectable is None and better.seeds_needed is None and "one seed" in better.reasons["detectable"]
    assert better.flip_seeds.p == 1.0 and better.interval_seeds is None and better.interval_documents is not None
    assert found.ranking.same_by_seeds is None and "one seed" in found.ranking.words[0]


def test_missing_runs_are_left_out_of_the_ranking_and_kept_in_the_noise(made):
    study, store = made(missing={("near", 3), ("plain", 1), ("again", 1)})
    found = study_noise(study, store)
    assert found.seeds.freedom == 2
    assert {arm.arm: sorted(arm.seeds) for arm in found.arms} == {"better": [2, 3], "near": [2], "again": [2, 3]}
    assert set(found.ranking.order) == {"plain", "better"}


def test_a_study_that_never_ran(made, tmp_path):
    study, _ = made()
    found = study_noise(study, Store(tmp_path / "other"))
    assert found.arms == () and set(found.reasons) == {"seeds", "implementation", "ranking"}
