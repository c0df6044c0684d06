"""A run as a folder: loaded by transformers, it gives the run's logits, generates from a cache, and survives being saved again."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
import torch
from safetensors import safe_open

from ostinato.data.targets import targets
from ostinato.errors import StoreError
from ostinato.export import export_run
from ostinato.measure import measure_losses
from ostinato.measure.foreign import Foreign
from ostinato.measure.load import load_decoder
from ostinato.model import build, generate, save_weights
from ostinato.store import Store
from ostinato.study.records import Evaluate

transformers = pytest.importorskip("transformers")
EVALUATE = Evaluate(batch=512)
MODEL = {"family": "loop2", "layers": "gqa gdn gqa", "heads": 4, "windows": {"pattern": "SSL", "short": 5}, "schedule": "1..3 1..3",
         "mlp": {"hidden": 40, "ratio": None}, "pass_norm": True, "inject": "linear", "h0": "noise", "bigram_table": 64,
         "tie_embeddings": True, "tie": {"3:mlp": "1:mlp"}}  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory, small_text, small_arm):
    """A store with one run of every difficulty: two checkpoints, the later one measured."""
    arm = small_arm(model=MODEL)
    decoder = build(arm.model, small_text.vocab, 16, 1, bos=small_text.bos)
    store = Store(tmp_path_factory.mktemp("store"))
    folder = store.run("ab" * 32, "evaluation")
    resolved = {"arm": arm.model_dump(mode="json"), "seed": 1, "data_fingerprint": small_text.fingerprint}
    folder.write_record({"arm": "small", "study": "tests"}, resolved, {})
    folder.write_evaluation(EVALUATE.model_dump(mode="json"))
    noise = torch.Generator().manual_seed(0)
    for tokens in (640, 1280):
        with torch.no_grad():
            for parameter in decoder.parameters():
                parameter.add_(torch.randn(parameter.shape, generator=noise) * 0.06)
        path = folder.checkpoints_path / f"{tokens:012d}"
        save_weights(decoder, path / "weights.safetensors")
        (path / "manifest.json").write_text(json.dumps({"device": "cpu", "threads": 1}))
    wanted = targets(small_text, "validation", EVALUATE, 16)
    folder.write_losses("validation", 1280, measure_losses(decoder, wanted, EVALUATE.batch, False, small_text.bos), wanted)
    store.write_floors(wanted.id, small_text.fingerprint, {"unigram": 4.5, "bigram": 2.25})
    return store, folder


@pytest.fixture(scope="module")
def exported(run, small_text, tmp_path_factory):
    """The folder of its newest checkpoint."""
    return export_run(run[1], tmp_path_factory.mktemp("out") / "small-run", store=run[0], cache=small_text.cache)


@pytest.fixture(scope="module")
def loaded(exported):
    return transformers.AutoModelForCausalLM.from_pretrained(exported, trust_remote_code=True).eval()


@pytest.fixture(scope="module")
def tokenizer(exported):
    return transformers.AutoTokenizer.from_pretrained(exported, trust_remote_code=True)


@pytest.fixture(scope="module")
def decoder(run, small_text):
    return load_decoder(run[1], small_text)


def texts(small_text, count=3):
    stream, starts = small_text.tokens("validation"), small_text.doc_starts("validation")
    return [small_text.decode(stream[first + 1 : first + 12 + 3 * i].tolist()) for i, first in enumerate(starts[:count])]


@torch.no_grad()
def test_equal_logits_and_loss(loaded, decoder, small_text):
    rows = torch.from_numpy(small_text.tokens("validation")[:32].astype("int64")).view(2, 16)
    out = loaded(rows, labels=rows)
    torch.testing.assert_close(out.logits, decoder(rows), rtol=1e-5, atol=1e-5)
    nats = decoder.losses(rows[:, :-1].contiguous(), rows[:, 1:].contiguous()).mean()
    assert out.loss.item() == pytest.approx(nats.item(), rel=1e-6)


def test_every_tensor_once(exported, decoder):
    with safe_open(exported / "model.safetensors", "pt") as file:
        names = set(file.keys())
        assert sum(file.get_tensor(name).numel() for name in names) == sum(part.numel() for part in decoder.parameters())
    assert names == {f"model.{name}" for name, _ in decoder.named_parameters()}
    assert {file.name for file in exported.iterdir()} == {
        "README.md", "config.json", "generation_config.json", "model.safetensors", "modeling_ostinato.py", "special_tokens_map.json",
        "tokenizer.json", "tokenizer_config.json"}  # fmt: skip


def test_the_tokenizer_is_that_of_the_run(tokenizer, small_text):
    for text in (*texts(small_text), "", "  two  spaces\n\tnaïve 日本 👍", "it spells <|bos|> out"):
        ids = tokenizer(text).input_ids
        assert ids == [small_text.bos, *small_text.encode(text)]
        assert tokenizer.decode(ids, skip_special_tokens=True) == text
        assert tokenizer(text, add_special_tokens=False).input_ids == small_text.encode(text)
    assert tokenizer("a", "b").input_ids == [small_text.bos, *small_text.encode("a"), small_text.bos, *small_text.encode("b")]
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id) == (small_text.bos,) * 3
    assert len(tokenizer) == small_text.vocab and tokenizer.model_max_length == 16


def test_a_batch_padded_on_the_left_writes_what_each_prompt_writes_alone(loaded, tokenizer, decoder, small_text):
    prompts = texts(small_text)
    batch = tokenizer(prompts, return_tensors="pt", padding=True)
    assert (batch.attention_mask[:, 0] == 0).any()
    ask = {"max_new_tokens": 12, "do_sample": False, "eos_token_id": None}
    written = loaded.generate(**batch, **ask)[:, batch.input_ids.shape[1] :]
    uncached = loaded.generate(**batch, **ask, use_cache=False)[:, batch.input_ids.shape[1] :]
    assert torch.equal(written, uncached)
    for prompt, row in zip(prompts, written.tolist(), strict=True):
        ids = tokenizer(prompt).input_ids
        assert loaded.generate(torch.tensor([ids]), **ask)[0, len(ids) :].tolist() == row
        assert generate(decoder, ids, 12) == row


def test_beams_and_samples(loaded, tokenizer, small_text):
    batch = tokenizer(texts(small_text), return_tensors="pt", padding=True)
    beams = loaded.generate(**batch, max_new_tokens=6, num_beams=3, do_sample=False, eos_token_id=None)
    again = loaded.generate(**batch, max_new_tokens=6, num_beams=3, do_sample=False, eos_token_id=None, use_cache=False)
    assert torch.equal(beams, again)
    torch.manual_seed(0)
    several = loaded.generate(**batch, max_new_tokens=4, do_sample=True, num_return_sequences=2, eos_token_id=None)
    assert several.shape == (6, batch.input_ids.shape[1] + 4)


def test_a_text_ends_where_the_model_predicts_bos_and_begins_with_one(loaded, decoder):
    """`generate` without a mask takes no BOS for padding, whatever ends a text."""
    assert loaded.generation_config.eos_token_id == loaded.generation_config.bos_token_id == decoder.bos
    for other in (None, 5):
        prompt = [decoder.bos, 40, 41, 42]
        written = loaded.generate(torch.tensor([prompt]), max_new_tokens=1, do_sample=False, eos_token_id=other)
        assert written[0, 4:].tolist() == generate(decoder, prompt, 1)


@torch.no_grad()
def test_saved_and_loaded_again(loaded, tokenizer, tmp_path, small_text):
    loaded.save_pretrained(tmp_path / "again")
    tokenizer.save_pretrained(tmp_path / "again")
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "again", trust_remote_code=True)
    rows = torch.arange(24).view(2, 12)
    assert torch.equal(again(rows).logits, loaded(rows).logits)
    assert again.config.applications == loaded.config.applications
    again = transformers.AutoTokenizer.from_pretrained(tmp_path / "again", trust_remote_code=True)
    assert again("the stone").input_ids == tokenizer("the stone").input_ids
    with safe_open(tmp_path / "again" / "model.safetensors", "pt") as file:
        assert set(file.keys()) == {f"model.{name}" for name, _ in loaded.model.named_parameters()}


@torch.no_grad()
def test_the_stream_alone_and_a_classifier(exported, loaded, tokenizer, decoder, small_text):
    batch = tokenizer(texts(small_text), return_tensors="pt", padding=True)
    base = transformers.AutoModel.from_pretrained(exported, trust_remote_code=True).eval()
    stream = base(**batch).last_hidden_state
    alone = tokenizer(texts(small_text)[0], return_tensors="pt").input_ids
    torch.testing.assert_close(stream[:1, -alone.shape[1] :], decoder.hidden(alone), rtol=1e-5, atol=1e-5)
    kind = transformers.AutoModelForSequenceClassification.from_pretrained(exported, trust_remote_code=True, num_labels=3).eval()
    left = kind(**batch, labels=torch.tensor([0, 2, 1]))
    right = kind(**tokenizer(texts(small_text), return_tensors="pt", padding=True, padding_side="right"))
    torch.testing.assert_close(left.logits, right.logits, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(left.logits, stream[:, -1] @ kind.score.weight.T, rtol=1e-5, atol=1e-5)
    assert left.loss.item() == pytest.approx(torch.nn.functional.cross_entropy(left.logits, torch.tensor([0, 2, 1])).item())


@torch.no_grad()
def test_it_is_measured_like_any_model_of_transformers(loaded, decoder, small_text):
    """Its applications, norm, head and softcap are found by `Foreign`, and are the run's own."""
    rows = torch.from_numpy(small_text.tokens("validation")[:33].astype("int64"))
    tokens, targets_BT = rows[:-1].view(2, 16), rows[1:].view(2, 16)
    found, seen = Foreign(loaded, "an export", small_text.bos), []
    assert [label.layer for label in found.labels] == [application.layer for application in decoder.applications]
    torch.testing.assert_close(found.losses(tokens, targets_BT), decoder.losses(tokens, targets_BT), rtol=1e-5, atol=1e-5)
    found.hidden(tokens, watch=lambda index, x_BTD: seen.append(x_BTD))
    ours = []
    decoder.hidden(tokens, watch=lambda application, x_BTD: ours.append(x_BTD))
    for one, other in zip(seen[1:], ours[1:], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(found.readout(seen[-1]), decoder(tokens), rtol=1e-5, atol=1e-5)


def test_the_card_says_what_the_store_says(exported, run):
    card = (exported / "README.md").read_text(encoding="utf-8")
    summary = run[1].read_loss_summary("validation", 1280)
    assert f"{summary['sum_nats'] / summary['targets']:.4f}" in card and "| bigram counts of the training text | 2.2500" in card
    assert "study tests" in card and "after 1,280 of 1,280 tokens" in card and "from_pretrained" in card
    assert "layer" in card and run[1].name in card and "text.txt" in card and str(run[1].path.parent) not in card


def test_the_card_has_minimal_pairs_where_they_were_scored(run, tmp_path, small_text):
    rows = {"paradigm": ["a", "a", "b"], "field": ["f"] * 3, "term": ["t"] * 3, "pair": [0, 1, 0], "identical": [False] * 3,
            "good_bos": [-1.0, -1.0, -1.0], "bad_bos": [-2.0, -0.5, -3.0], "good_skip_first": [-1.0, -1.0, -1.0],
            "bad_skip_first": [-2.0, -1.5, -0.5]}  # fmt: skip
    run[1].write_measure("pairs", {"content": "x"}, 640, pa.table(rows), {"source": "/home/me/blimp", "bos": True})
    card = (export_run(run[1], tmp_path / "scored", tokens=640, cache=small_text.cache) / "README.md").read_text(encoding="utf-8")
    assert "Minimal pairs (blimp, 2 paradigms, 3 pairs), accuracy averaged over paradigms: 0.750 with" in card and "0.500 without" in card


def test_another_checkpoint(run, small_text, tmp_path):
    path = export_run(run[1], tmp_path / "early", tokens=640, cache=small_text.cache)
    assert "The validation loss was not measured" in (path / "README.md").read_text(encoding="utf-8")
    with safe_open(path / "model.safetensors", "pt") as file:
        wanted = load_decoder(run[1], small_text, 640).final_norm.weight is None
        assert wanted and torch.equal(file.get_tensor("model.embedding.weight"), load_decoder(run[1], small_text, 640).embedding.weight)


def test_what_cannot_be_written_is_said_and_nothing_is_left(run, small_text, tmp_path):
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "mine.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    for name in ("taken", "file"):
        with pytest.raises(StoreError, match="exists already"):
            export_run(run[1], tmp_path / name, cache=small_text.cache)
    with pytest.raises(StoreError, match="its checkpoints, in tokens: 640, 1,280"):
        export_run(run[1], tmp_path / "none", tokens=7, cache=small_text.cache)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "mine.txt", "taken"]
