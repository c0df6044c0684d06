"""Synthetic stores of finished and half-finished studies, made with the real store and no training."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from ostinato.ledger import account
from ostinato.store import Store
from ostinato.study import load_study, vocab

ENVIRONMENT = {
    "versions": {"ostinato": "0.1", "ostinato_source": "0123456789abcdef", "python": "3.11.9", "torch": "2.13.0", "numpy": "2.1"},
    "hardware": {"system": "Linux-6.1", "cpu": "A Processor", "cores": 2, "memory_bytes": 8 * 2**30, "gpus": []},
    "command": ["ostinato", "run"],
    "folder": "/somewhere/private",
    "git": {"commit": "c0ffee" * 6 + "c0ff", "branch": "main", "dirty": False},
}
BETTER = {"plain": 0.0, "early": 0.03, "twice": 0.05, "deep": 0.073}


def targets_of(documents=30, seed=0):
    """Documents of very different sizes, as text has them."""
    rng = np.random.default_rng(seed)
    sizes = np.maximum(rng.lognormal(4, 1, documents).astype(int), 3)
    count = int(sizes.sum())
    return SimpleNamespace(
        id=f"{seed:02d}" * 32,
        document=np.repeat(np.arange(documents, dtype=np.int32), sizes),
        position=np.concatenate([np.arange(1, size + 1, dtype=np.int32) for size in sizes]),
        token=rng.integers(1, 500, count).astype(np.int32),
        bytes=rng.integers(1, 5, count).astype(np.int32),
        digest=np.repeat(np.arange(documents, dtype=np.uint64) + np.uint64(10), sizes),
        row=None,
        policy="each document alone, windows of 128 tokens, 64 new targets a window",
    )


def coarser(targets):
    """The same documents under another tokenizer: two tokens in one, wherever a document has two left."""
    document = targets.document
    first = np.concatenate([[True], document[1:] != document[:-1]])
    place = np.arange(len(document)) - np.maximum.accumulate(np.where(first, np.arange(len(document)), 0))
    begins = np.flatnonzero(place % 2 == 0)
    return SimpleNamespace(
        id="c" * 64,
        document=document[begins],
        position=(place[begins] // 2 + 1).astype(np.int32),
        token=targets.token[begins],
        bytes=np.add.reduceat(targets.bytes, begins).astype(np.int32),
        digest=targets.digest[begins],
        row=None,
        policy=targets.policy,
    )


def losses_of(targets, level, arm_gain, seed):
    """Losses with a common difficulty of each target, an effect of each document on the gain, and noise of the seed."""
    common = np.random.default_rng(5).gamma(2.0, level / 2.0, len(targets.token))
    rng = np.random.default_rng([seed, abs(round(arm_gain * 1e6))])
    effect = rng.normal(0, 0.02, targets.document.max() + 1)[targets.document] if arm_gain else 0.0
    return (common - arm_gain - effect + rng.normal(0, 0.02, len(common)) + 0.004 * (seed - 1.5)).astype(np.float32)


def fill(store, study, states=None, gains=None, points=4, targets=None, others=None, peak=None):
    """Write runs of `study`: states gives the state of (arm, seed), default done; `missing` writes nothing.

    A gain grows from minus itself to itself, through zero in the middle. others: {arm: its own targets}; peak: {arm: bytes measured}.
    """
    states, gains, targets = states or {}, BETTER | (gains or {}), targets or targets_of()
    runs = {(arm.name, seed): f"{index:04x}{seed:04x}" * 8 for index, arm in enumerate(study.arms) for seed in arm.seeds}
    version = store.create().study_folder(study.name).write(study, runs)
    for arm in study.arms:
        ledger = account(arm, vocab(arm.data.tokenizer), 2 * account(arm, vocab(arm.data.tokenizer)).tokens // 3, 123_456)
        for seed in arm.seeds:
            state = states.get((arm.name, seed), "done")
            if state == "missing":
                continue
            folder = store.run(runs[arm.name, seed], version.evaluation(arm.name))
            folder.write_record({"study": study.name, "arm": arm.name, "seed": seed},
                                {"ledger": ledger.row(), "data_fingerprint": "d" * 64}, ENVIRONMENT)  # fmt: skip
            reached = points if state == "done" else 0 if state in ("failed", "new") else points // 2
            for index in range(1, reached + 1):
                tokens = ledger.steps * index // points * ledger.tokens_per_step
                mine = (others or {}).get(arm.name, targets)
                level = (3.5 + 0.8 * (points - index) / points) * len(targets.token) / len(mine.token)
                drawn = losses_of(mine, level, gains.get(arm.name, 0.01) * (2 * index / points - 1), seed)
                folder.write_losses("validation", tokens, drawn, mine)
                folder.write_losses("held_out", tokens, np.full_like(drawn, 7.654321), mine)
            for step in range(1, ledger.steps * reached // points + 1):
                folder.append_step({"step": step, "tokens": step * ledger.tokens_per_step, "loss": 6.2 - 2.7 * (step / ledger.steps) ** 0.3,
                                    "lr": 0.02, "grad_norm": 1.0, "seconds": 0.15})  # fmt: skip
            if arm.name in (peak or {}):
                folder.write_peak(peak[arm.name], "cpu")
            info = {"error": "the loss is not finite at step 7"} if state == "failed" else {}
            folder.set_status(state, **info)
    store.write_floors(targets.id, "d" * 64, {"unigram": 5.336, "bigram": 3.614})
    return store


@pytest.fixture
def study(tmp_path):
    """Four arms of the quickstart's kind, two seeds, few steps."""
    file = tmp_path / "small.yaml"
    file.write_text(SMALL, encoding="utf-8")
    return load_study(file)


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "runs")


@pytest.fixture
def filled(store, study):
    return fill(store, study)


@pytest.fixture
def fill_store():
    return fill


@pytest.fixture
def make_targets():
    return targets_of


@pytest.fixture
def make_study(tmp_path):
    """A study from text, its file named after it."""

    def make(text, name="made"):
        file = tmp_path / f"{name}.yaml"
        file.write_text(text, encoding="utf-8")
        return load_study(file)

    return make


SMALL = """\
question: Is running a stack twice worth as much as twice the layers?
about: Three ways to spend the same operations.
source: ours
data: {corpus: python-docs, tokenizer: {bpe: 512}, packing: contiguous}
model: {family: llama, layers: 4, d_model: 64, heads: 4}
recipe: {tokens: 60k, batch: 1024, context: 128}
arms:
  plain: {}
  early: {schedule: "[4,2,1,1]", note: the first layer four times}
  twice: {schedule: 1..4 1..4, note: "the whole stack, and again"}
  deep: {layers: 8, note: the untied control}
reference: plain
seeds: [1, 2]
ours: {learning rate: as in the quickstart}
"""
