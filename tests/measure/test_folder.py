"""Somebody else's model in a folder: opened or refused, scored on a study's own documents, and kept beside the arms."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from ostinato.analysis import results_table
from ostinato.analysis.minimal_pairs import pair_scores
from ostinato.analysis.models import models_beside
from ostinato.data.other_tokens import documents
from ostinato.data.targets import targets
from ostinato.data.vocabulary import train
from ostinato.errors import DataError, StudyError
from ostinato.measure.folder import folder_digest, measure_model, open_model
from ostinato.measure.losses import measure_losses
from ostinato.report.models import section
from ostinato.store import Store, evaluation_key
from ostinato.study.records import Evaluate, Measure, Study

transformers = pytest.importorskip("transformers")
SHARED = Path(__file__).parents[3] / "shared" / "data"
EVALUATE = Evaluate(context=16)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, small_text):
    """A tiny random llama of another tokenizer than the small text's."""
    path = tmp_path_factory.mktemp("models") / "stranger"
    vocabulary = train(280, documents(small_text, "train"))
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=40, vocab_size=280, max_position_embeddings=64,
        bos_token_id=0, eos_token_id=0)  # fmt: skip
    transformers.LlamaForCausalLM(config).save_pretrained(path)
    (path / "tokenizer.json").write_text(vocabulary.json)
    return path


@pytest.fixture
def study(small_arm, small_text, monkeypatch):
    monkeypatch.setenv("OSTINATO_CACHE", str(small_text.cache))
    return Study(name="mine", arms=(small_arm().model_copy(update={"name": "plain"}),), reference="plain", evaluate=EVALUATE)


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store")


@pytest.fixture
def measured(study, store, decoder, small_text):
    """The study with its one run measured, untrained."""
    fingerprint = "a" * 64
    store.create().study_folder(study.name).write(study, {("plain", 1): fingerprint})
    run = store.run(fingerprint, evaluation_key(EVALUATE, 16))
    run.write_record({"arm": "plain", "seed": 1}, {"data_fingerprint": small_text.fingerprint}, {})
    wanted = targets(small_text, "validation", EVALUATE, 16)
    run.write_losses("validation", 1280, measure_losses(decoder, wanted, 512, False, small_text.bos), wanted)
    run.set_status("done")
    return study


def test_it_is_scored_on_the_same_documents_and_stands_beside_the_arms(folder, measured, store, small_text):
    measure = Measure(take=("lens", "heads", "speed"), targets=200)
    found = measure_model(folder, store, measure, measured, device="cpu")
    assert [(one.measure, one.state) for one in found.took] == [("lens", "taken"), ("heads", "taken"), ("speed", "left out")]
    assert found.documents == len(documents(small_text, "validation")) and found.bits_per_byte > 3
    lens = found.folder.measure("lens")
    assert lens.tokens == 0 and lens.table().column_names == ["target", "input", "after_0", "after_1"]
    losses = found.folder.read_losses("validation", 0)
    table = lens.table()
    assert table["after_1"].to_numpy() == pytest.approx(losses.losses[table["target"].to_numpy()], abs=1e-5)
    beside = models_beside(measured, store, results_table(measured, store))
    assert [(one.name, one.problem) for one in beside] == [("stranger", None)]
    assert beside[0].pairing.documents == found.documents and beside[0].bits_per_byte == found.bits_per_byte
    panel = section(measured, store, results_table(measured, store))
    assert "stranger" in panel.lead and len(panel.tables[0].rows) == 2
    again = measure_model(folder, store, measure, measured, device="cpu")
    assert [one.state for one in again.took] == ["stored", "stored", "left out"]
    assert store.query("select distinct arm from losses order by arm").rows == [("plain",), ("stranger",)]


def test_without_a_study_only_what_needs_no_text(folder, store):
    found = measure_model(folder, store, Measure(take=("lens", "states")), device="cpu")
    assert {one.why for one in found.took} == {"no text is named"} and found.bits_per_byte is None
    assert [one.name for one in store.models()] == [folder_digest(folder)[:16]]


def test_no_model_beside_a_study_that_read_another_text(measured, store):
    assert models_beside(measured, store, results_table(measured, store)) == []
    assert section(measured, store, results_table(measured, store)) is None


def test_a_digest_is_of_what_the_model_is(folder, tmp_path):
    import shutil

    copy = shutil.copytree(folder, tmp_path / "copy")
    (copy / "README.md").write_text("mine")
    assert folder_digest(copy) == folder_digest(folder)
    content = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(content | {"rms_norm_eps": 1.0}))
    assert folder_digest(copy) != folder_digest(folder)


def test_what_is_refused(folder, study, store, tmp_path):
    import shutil

    copy = shutil.copytree(folder, tmp_path / "copy")
    content = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(content | {"auto_map": {"AutoModelForCausalLM": "mine.Mine"}}))
    (copy / "mine.py").write_text("raise SystemExit('code of others has run')")
    with pytest.raises(StudyError, match=r"mine\.py(.|\n)*--trust-remote-code"):
        open_model(copy)
    (copy / "config.json").write_text("{")
    with pytest.raises(StudyError, match="cannot be read"):
        open_model(copy)
    (copy / "config.json").write_text(json.dumps(content))
    tensors = load_file(copy / "model.safetensors")
    save_file({name: tensor for name, tensor in tensors.items() if "layers.1" not in name}, copy / "model.safetensors", {"format": "pt"})
    with pytest.raises(StudyError, match=r"lacks 9 tensors of its model: model\.layers\.1"):
        open_model(copy)
    (copy / "model.safetensors").write_bytes(b"torn")
    with pytest.raises(StudyError, match="cannot be loaded by transformers"):
        open_model(copy)
    rows = study.model_copy(update={"evaluate": Evaluate(windows="rows")})
    with pytest.raises(StudyError, match="windows: documents"):
        measure_model(folder, store, Measure(), rows, device="cpu")
    long = study.model_copy(update={"evaluate": Evaluate(context=65)})
    with pytest.raises(StudyError, match="64 positions"):
        measure_model(folder, store, Measure(), long, device="cpu")


@pytest.mark.skipif(not (SHARED / "models" / "stories260K").is_dir(), reason="no ../shared/data/models/stories260K")
def test_a_known_model_has_its_known_scores(store, tmp_path):
    (tmp_path / "pairs").mkdir()
    name = "anaphor_number_agreement.jsonl"
    (tmp_path / "pairs" / name).write_bytes((SHARED / "blimp" / name).read_bytes())
    path = SHARED / "models" / "stories260K"
    found = measure_model(path, store, Measure(pairs=str(tmp_path / "pairs")), only=("pairs",), device="cpu")
    assert [one.state for one in found.took] == ["taken"]
    assert pair_scores([found.folder.measure("pairs").table()], "bos").macro == pytest.approx(0.612)


def test_pairs_that_cannot_be_read_stop_before_anything_is_kept(folder, tmp_path):
    (tmp_path / "pairs").mkdir()
    with pytest.raises(DataError, match="has no file of pairs"):
        measure_model(folder, Store(tmp_path / "store"), Measure(pairs=str(tmp_path / "pairs")), device="cpu")
    assert not (tmp_path / "store").exists()
