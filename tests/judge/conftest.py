"""Measurements that a test gives by hand, predictions of few words, and stores of tiny arrays that no run has made."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from ostinato.claims import parse_expression
from ostinato.data.classes import TokenClasses
from ostinato.judge.estimable import NotEstimable
from ostinato.judge.value import Residuals, Value
from ostinato.store import Store, evaluation_key
from ostinato.study.records import Arm, Data, Model, Recipe, Study, Tokenizer


class Numbers:
    """numbers: {the text of a measure: its Value, a plain number, or why it is not estimable}."""

    def __init__(self, **numbers):
        self.arms, self.reference = tuple(numbers), "plain"
        self.numbers = {str(parse_expression(text if "(" in text else f"gain({text})")): value for text, value in numbers.items()}

    def value(self, term, seeds=None):
        found = self.numbers[str(term)]
        if isinstance(found, str):
            raise NotEstimable(found)
        return found if isinstance(found, Value) else _sure(found)


def _sure(point, spread=1e-4):
    """Known to `spread` by 20 documents and three seeds."""
    documents = Residuals(np.arange(20, dtype=np.uint64), spread * np.linspace(-1, 1, 20) / 2)
    return Value(point, {1: -spread, 2: 0.0, 3: spread}, documents, 19.0, unit="nats/token")


def _prediction(supported, killed=None, between=None, name="p1", guess=None):
    def named(given, word):
        return given if isinstance(given, dict) else {} if given is None else {word: given}

    return SimpleNamespace(name=name, claim="", supported=named(supported, "SUPPORTED"), killed=named(killed, "KILLED"),
                           between=named(between or "otherwise", "BETWEEN"), guess=guess or {})  # fmt: skip


@pytest.fixture(scope="session")
def numbers():
    """numbers(a=sure(0.03), b=0.02, c="not run"): gains by arm, or by the text of any measure."""
    return Numbers


@pytest.fixture(scope="session")
def sure():
    """sure(point, spread=1e-4): a Value of that noise."""
    return _sure


@pytest.fixture(scope="session")
def prediction():
    """prediction(supported, killed, between, name, guess): conditions as texts or {own word: text}."""
    return _prediction


def _targets(document, name="t", target_bytes=3):
    """Targets of documents given by number, whose texts are other ones."""
    document = np.asarray(document)
    position = np.concatenate([np.arange(1, count + 1) for count in np.bincount(document)])
    return SimpleNamespace(id=name * 64, document=document, position=position, token=np.arange(len(document)), row=None, policy="documents",
                           bytes=np.full(len(document), target_bytes), digest=document.astype(np.uint64) + 1)  # fmt: skip


class Bench:
    """A study over 12 documents of 20 to 42 targets, and what a launcher and a trainer would have written of it.

    arms: {name: what its Arm has beside its model, seeds (1, 2, 3) unless given}; `other`, if there, has another tokenizer.
    """

    def __init__(self, root, arms, targets=None, **of_study):
        self.store = Store(root / "store").create()
        self.targets = targets or _targets(np.repeat(np.arange(12), np.arange(20, 44, 2)))
        model, recipe = Model(layers=("gqa",), d_model=8, heads=2), Recipe(tokens=2048, batch=1024)
        listed = []
        for name, given in arms.items():
            data = Data(tokenizer=Tokenizer(bpe=512)) if name == "other" else Data()
            listed.append(Arm(**{"name": name, "model": model, "recipe": recipe, "data": data, "seeds": (1, 2, 3), **given}))
        self.study = Study(name="tiny", arms=tuple(listed), reference="plain", **of_study)
        self.prints = {(arm.name, seed): f"{place:03d}{seed}" * 16 for place, arm in enumerate(listed) for seed in arm.seeds}
        self.version = self.store.study_folder("tiny").write(self.study, self.prints)
        self.losses = {}

    def folder(self, arm, seed):
        return self.store.run(self.prints[arm, seed], evaluation_key(self.study.evaluate, 128))

    def run(self, arm, seed=None, level=2.9, spread=0.01, tokens=(1024, 2048), state="done", targets=None, **info):
        """One seed, or all of the arm: losses around `level` that differ by document and by seed."""
        found = next(one for one in self.study.arms if one.name == arm)
        for one in found.seeds if seed is None else (seed,):
            random, mine = np.random.default_rng([len(arm), ord(arm[0]), one]), targets or self.targets
            folder = self.folder(arm, one)
            folder.write_record({"arm": arm, "seed": one}, {"data_fingerprint": "d" * 64, "arm": found.model_dump(mode="json")}, {})
            for place, at in enumerate(tokens, 1):
                folder.append_step({"step": place, "tokens": at, "loss": level, "lr": 0.1, "grad_norm": 1.0, "seconds": 1.0 + one})
                drawn = random.normal(0, spread, mine.document.max() + 1)[mine.document] + random.normal(0, 0.1, len(mine.document))
                for part, more in (("validation", 0.0), ("held_out", 0.5)):
                    losses = (level + more + drawn - drawn.mean() + 0.001 * one).astype(np.float32)
                    folder.write_losses(part, at, losses, mine)
                    self.losses[arm, one, part, at] = losses
            folder.set_status(state, **info)
        return self

    def classes(self):
        """Of the targets: match -1, 0, 1, 8 in turn, count 0, 1, 2, …."""
        at = np.arange(len(self.targets.document))
        match = np.array([-1, 0, 1, 8])[at % 4].astype(np.int8)
        self.store.write_classes(self.targets.id, "d" * 64, TokenClasses(match, match, at, at, at))
        return self


@pytest.fixture(scope="session")
def bench(tmp_path_factory):
    """bench(arms, targets, keys of the study) -> Bench in a store of its own."""
    return lambda arms, targets=None, **of_study: Bench(tmp_path_factory.mktemp("bench"), arms, targets, **of_study)


@pytest.fixture(scope="session")
def bench_in():
    """bench_in(root, arms, targets, keys of the study): one that several tests read."""
    return Bench


@pytest.fixture(scope="session")
def targets_of():
    """targets_of(document, name, target_bytes): targets by the number of their document."""
    return _targets
