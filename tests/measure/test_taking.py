"""Measures taken one after the other: stored at once, a failure named and survived, the share told."""

from __future__ import annotations

import pytest

from ostinato.data.targets import targets
from ostinato.errors import StoreError, TrainingError
from ostinato.measure import all as registry
from ostinato.measure.context import Context, Unfit
from ostinato.measure.load import device_of
from ostinato.measure.subject import Ours
from ostinato.measure.taking import measure_run, take_all
from ostinato.model.save import save_weights
from ostinato.store import RunFolder, evaluation_key
from ostinato.study.records import Evaluate, Measure

EVALUATE = Evaluate(context=16)
KEY = evaluation_key(EVALUATE, 16)
MEASURE = Measure(take=("lens", "states"), targets=200)


@pytest.fixture
def folder(tmp_path):
    return RunFolder(tmp_path / "runs" / "one")


@pytest.fixture
def run(folder, decoder, small_arm, small_text):
    """A run with a checkpoint at 1,280 tokens that nothing has trained."""
    folder.write_record({"arm": "small", "seed": 1}, {"arm": small_arm().model_dump(mode="json"), "seed": 1,
                        "data_fingerprint": small_text.fingerprint, "evaluate": EVALUATE.model_dump(mode="json"),
                        "measure": MEASURE.model_dump(mode="json")}, {})  # fmt: skip
    path = folder.checkpoints_path / "1280"
    path.mkdir(parents=True)
    save_weights(decoder, path / "weights.safetensors")
    (path / "manifest.json").write_text("{}")
    return folder


def context_of(small_text, **keys):
    return Context(MEASURE, targets(small_text, "validation", EVALUATE, 16), vocabulary=small_text.vocabulary, **keys)


def test_a_failure_is_named_and_the_others_go_on(folder, decoder, small_text, monkeypatch):
    genuine = registry.take

    def take(subject, name, context):
        if name == "skips":
            raise ZeroDivisionError("a mistake of ours")
        if name == "heads":
            raise TrainingError("no memory", "a rule", "a fix")
        if name == "depths":
            raise Unfit("nothing of the kind", "a rule", "a fix")
        return genuine(subject, name, context)

    monkeypatch.setattr("ostinato.measure.taking.take", take)
    heard, names = [], ["lens", "skips", "heads", "depths", "states"]
    took = take_all(Ours(decoder), names, context_of(small_text), folder, 7, KEY, lambda *said: heard.append(said))
    assert [one.state for one in took] == ["taken", "failed", "failed", "left out", "taken"] and took[3].why == "nothing of the kind"
    assert took[1].why == "ZeroDivisionError: a mistake of ours" and took[2].why.startswith("no memory")
    assert [one.name for one in folder.measures()] == ["lens", "states"] and folder.measure("lens").tokens == 7
    shares = [share for _, share in heard]
    assert shares == sorted(shares) and shares[0] == 0 and 0.5 < shares[-1] <= 1
    assert list(dict.fromkeys(name for name, _ in heard)) == names


def test_who_is_told_may_stop_and_what_was_taken_stays(folder, decoder, small_text):
    class Enough(BaseException):
        pass

    def told(name, share):
        if name == "states":
            raise Enough

    with pytest.raises(Enough):
        take_all(Ours(decoder), ["lens", "states"], context_of(small_text), folder, 7, KEY, told)
    assert [one.name for one in folder.measures()] == ["lens"]


def test_a_run_is_measured_once_and_again_when_asked(run, small_text):
    def states(**more):
        return {one.measure: one.state for one in measure_run(run, device="cpu", prepared=small_text, **more)}

    assert states() == {"lens": "taken", "states": "taken"}
    taken = run.measure("lens")
    assert taken.tokens == 1280 and taken.settings["targets"] == 200 and taken.about["evaluation"] == KEY
    assert taken.settings["target_id"] == context_of(small_text).targets.id
    assert states() == {"lens": "stored", "states": "stored"}
    assert states(only=("lens", "depths")) == {"lens": "taken", "depths": "left out"}
    assert states(measure=MEASURE.model_copy(update={"targets": 100})) == {"lens": "taken", "states": "taken"}


def test_another_checkpoint_is_asked_for_by_its_tokens(run, small_text):
    with pytest.raises(StoreError, match=r"no checkpoint at 7 tokens(.|\n)*1,280"):
        measure_run(run, tokens=7, device="cpu", prepared=small_text)


def test_other_numbers_of_passes_stand_beside_the_model_as_trained(folder, small_arm, small_text):
    """Their lens is that of the same weights arranged so; of a model whose number is not free nothing is taken."""
    import torch

    from ostinato.measure.losses import measure_losses
    from ostinato.model import build
    from ostinato.model.depth import at_passes

    arm = small_arm({"schedule": "(1..2)x{r}", "passes": 2})
    decoder = build(arm.model, small_text.vocab, 16, 1, bos=small_text.bos)
    record = {"arm": arm.model_dump(mode="json"), "seed": 1, "data_fingerprint": small_text.fingerprint, "measure": {},
              "evaluate": EVALUATE.model_dump(mode="json")}  # fmt: skip
    folder.write_record({"arm": "small", "seed": 1}, record, {})
    path = folder.checkpoints_path / "1280"
    path.mkdir(parents=True)
    save_weights(decoder, path / "weights.safetensors")
    (path / "manifest.json").write_text("{}")

    def states(passes, **more):
        took = measure_run(folder, MEASURE, device="cpu", prepared=small_text, passes=passes, **more)
        return {one.measure: one.state for one in took}

    assert states(3) == {"lens": "taken", "states": "taken"} == states(None) and states(3) == {"lens": "stored", "states": "stored"}
    assert states(3, only=("depths",)) == {"depths": "left out"}
    assert [one.name for one in folder.measures()] == ["lens", "lens@3", "states", "states@3"]
    table = folder.measure("lens@3").table()
    assert "after_5" in table.column_names and "after_5" not in folder.measure("lens").table().column_names
    losses = measure_losses(at_passes(decoder, 3), context_of(small_text).targets, 1024, False, small_text.bos)
    ends = torch.from_numpy(table["after_5"].to_numpy().copy())
    torch.testing.assert_close(ends, torch.from_numpy(losses[table["target"].to_numpy()]), rtol=0, atol=1e-5)


def test_the_passes_of_a_plain_stack_are_not_free(run, small_text):
    took = measure_run(run, device="cpu", prepared=small_text, passes=3)
    assert {(one.state, one.why) for one in took} == {("left out", "the number of passes is not free in this model")}


def test_devices():
    assert device_of("cpu").type == "cpu"
    with pytest.raises(TrainingError, match="auto, cpu, cuda"):
        device_of("tpu")
