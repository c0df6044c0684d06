"""Sentence log-probabilities in both conventions: against one sentence at a time, whatever the batches; and those of a known model."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from ostinato.analysis.minimal_pairs import pair_scores
from ostinato.data.minimal_pairs import MinimalPairs, read_pairs
from ostinato.errors import DataError, TrainingError
from ostinato.measure.minimal_pairs import measure_pairs
from ostinato.measure.subject import Ours

SHARED = Path(__file__).parents[3] / "shared" / "data"


def made(*pairs) -> MinimalPairs:
    good, bad = zip(*pairs, strict=True)
    count = len(pairs)
    return MinimalPairs("here", ("p",) * count, ("f",) * count, ("t",) * count, good, bad, tuple(range(count)))


PAIRS = made(
    ("the stone runs over the river .", "the stone runs over river ."),
    ("a bird sees", "a bird sees"),
    ("slow", "quick song returns and then the old stone runs under the river and over the stone."),
    ("the old song.", "the old song ."),
    ("the stone runs over the river .", "a"),
)


class NoBos:
    """The same model as one that has no BOS."""

    def __init__(self, subject):
        self.inner, self.name, self.vocab, self.device, self.bos = subject, subject.name, subject.vocab, subject.device, None
        self.losses, self.context = subject.losses, subject.context


def one_at_a_time(decoder, ids: list[int], bos: int | None) -> tuple[float, float]:
    """The naive twin: logits of one sentence alone, log-softmax in float64, with and without the first token."""
    tokens = torch.tensor([([] if bos is None else [bos]) + ids])
    if tokens.shape[1] < 2:
        return 0.0, 0.0
    with torch.no_grad():
        scores = torch.log_softmax(decoder(tokens[:, :-1]).double(), -1)[0]
    each = scores.gather(1, tokens[0, 1:, None])[:, 0]
    return float(each.sum()), float(each.sum() if bos is None else each[1:].sum())


@pytest.mark.parametrize("batch", [1, 30, 10_000])
def test_agrees_with_one_sentence_at_a_time(decoder, small_text, batch):
    subject, encode = Ours(decoder), small_text.vocabulary.encode_all
    table = measure_pairs(subject, PAIRS, encode, batch)
    bare = measure_pairs(NoBos(subject), PAIRS, encode, batch)
    assert table["identical"].to_pylist() == [False, True, False, False, False]
    for side in ("good", "bad"):
        for number, text in enumerate(getattr(PAIRS, side)):
            ids = small_text.vocabulary.encode(text)
            wanted = one_at_a_time(decoder, ids, small_text.bos)
            found = [table[f"{side}_{convention}"][number].as_py() for convention in ("bos", "skip_first")]
            assert found == pytest.approx(wanted, rel=1e-6, abs=1e-6)
            assert table[f"{side}_tokens"][number].as_py() == len(ids)
            assert bare[f"{side}_bos"][number].as_py() is None
            assert bare[f"{side}_skip_first"][number].as_py() == pytest.approx(one_at_a_time(decoder, ids, None)[1], rel=1e-6, abs=1e-6)


def test_the_conventions_differ_by_the_first_token_alone(decoder, small_text):
    table = measure_pairs(Ours(decoder), PAIRS, small_text.vocabulary.encode_all, 100)
    tokens = torch.tensor([[small_text.bos]])
    with torch.no_grad():
        first = torch.log_softmax(decoder(tokens).double(), -1)[0, 0]
    for number, text in enumerate(PAIRS.good):
        gap = table["good_bos"][number].as_py() - table["good_skip_first"][number].as_py()
        assert gap == pytest.approx(float(first[small_text.vocabulary.encode(text)[0]]), rel=1e-5)


def test_the_same_tokens_tie_exactly_and_are_scored_once(decoder, small_text):
    subject, seen = Ours(decoder), []
    plain = subject.losses
    subject.losses = lambda tokens, wanted: seen.append((wanted >= 0).sum().item()) or plain(tokens, wanted)
    table = measure_pairs(subject, PAIRS, lambda texts: [encoding[:4] for encoding in small_text.vocabulary.encode_all(texts)], 12)
    assert table["good_bos"][1] == table["bad_bos"][1]
    assert table["good_bos"][0] == table["bad_bos"][0], "cut to four tokens both sentences are the same"
    cut = {tuple(small_text.vocabulary.encode(text)[:4]) for text in (*PAIRS.good, *PAIRS.bad)}
    assert sum(seen) == sum(map(len, cut))


def test_a_text_that_is_no_token_has_probability_one(decoder, small_text):
    def encode(texts):
        return [ids[: 0 if text == "a" else 9] for text, ids in zip(texts, small_text.vocabulary.encode_all(texts), strict=True)]

    for subject in (Ours(decoder), NoBos(Ours(decoder))):
        table = measure_pairs(subject, PAIRS, encode, 100)
        assert table["bad_skip_first"][4].as_py() == 0 and table["bad_tokens"][4].as_py() == 0
        assert table["good_skip_first"][4].as_py() < 0


def test_progress_ends_at_all_tokens(decoder, small_text):
    seen = []
    measure_pairs(Ours(decoder), PAIRS, small_text.vocabulary.encode_all, 12, lambda done, total: seen.append((done, total)))
    assert seen == sorted(seen) and len(seen) > 2 and seen[-1][0] == seen[-1][1] > 0


def test_sentences_longer_than_learned_positions_are_named(decoder, small_text):
    subject = NoBos(Ours(decoder))
    subject.bos, subject.context = small_text.bos, 5
    with pytest.raises(DataError, match=r"longer than the 5 positions of decoder(.|\n)*leave their pairs out"):
        measure_pairs(subject, PAIRS, small_text.vocabulary.encode_all, 100)
    subject.context = 10_000
    assert measure_pairs(subject, PAIRS, small_text.vocabulary.encode_all, 100).num_rows == len(PAIRS.good)


def test_a_tokenizer_of_another_model_is_refused(decoder, small_text):
    with pytest.raises(DataError, match=r"token 300, and decoder has a vocabulary of 300"):
        measure_pairs(Ours(decoder), PAIRS, lambda texts: [np.array([1, small_text.vocab])] * len(texts), 100)


def test_memory_that_runs_out_halves_the_batch(decoder, small_text):
    subject, encode = Ours(decoder), small_text.vocabulary.encode_all
    wanted = measure_pairs(subject, PAIRS, encode, 10_000)
    plain = subject.losses

    def small(most):
        def losses(tokens, targets):
            if len(tokens) > most:
                raise MemoryError
            return plain(tokens, targets)

        return losses

    subject.losses = small(2)
    found = measure_pairs(subject, PAIRS, encode, 10_000)
    for name in ("good_bos", "bad_bos", "good_skip_first", "bad_skip_first"):
        np.testing.assert_allclose(found[name].to_numpy(), wanted[name].to_numpy(), rtol=1e-6)
    subject.losses = small(0)
    with pytest.raises(TrainingError, match="scoring minimal pairs: out of memory with one row at once"):
        measure_pairs(subject, PAIRS, encode, 10_000)


# --- a model with known scores


class HuggingFace:
    """As much of a Subject as sentences need."""

    def __init__(self, path: Path):
        transformers = pytest.importorskip("transformers")
        self.model = transformers.AutoModelForCausalLM.from_pretrained(path).eval()
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(path)
        self.name, self.device = path.name, torch.device("cpu")
        self.vocab, self.bos, self.context = self.model.config.vocab_size, self.tokenizer.bos_token_id, None

    def losses(self, tokens_BT, targets_BT):
        scores_NV = self.model(tokens_BT).logits.flatten(0, 1)
        return torch.nn.functional.cross_entropy(scores_NV, targets_BT.flatten(), reduction="none", ignore_index=-1).view(targets_BT.shape)

    def encode(self, texts):
        return [np.array(ids) for ids in self.tokenizer(list(texts), add_special_tokens=False).input_ids]


@pytest.fixture(scope="module")
def stories():
    if not (SHARED / "models" / "stories260K").is_dir():
        pytest.skip("needs ../shared")
    return HuggingFace(SHARED / "models" / "stories260K")


def test_the_known_scores_of_stories260k(stories):
    known = {"determiner_noun_agreement_1": 0.680, "anaphor_number_agreement": 0.612, "adjunct_island": 0.502}
    found = {}
    for name in known:
        table = measure_pairs(stories, read_pairs(SHARED / "blimp" / f"{name}.jsonl"), stories.encode, 8192)
        found[name] = pair_scores([table], "bos").paradigms[name].accuracy
    assert found == pytest.approx(known, abs=1e-9)


def test_sums_are_those_of_lm_evaluation_harness(stories):
    """Per sentence, to 1e-4. An empty context is one BOS there; the harness puts nothing else before a sentence."""
    huggingface = pytest.importorskip("lm_eval.models.huggingface", reason="needs lm-eval")
    lm = huggingface.HFLM(pretrained=stories.model, tokenizer=stories.tokenizer, batch_size=16, add_bos_token=False)
    pairs = read_pairs(SHARED / "blimp" / "anaphor_number_agreement.jsonl")
    table = measure_pairs(stories, pairs, stories.encode, 8192).slice(0, 100)
    for side in ("good", "bad"):
        requests = [SimpleNamespace(args=("", text)) for text in getattr(pairs, side)[:100]]
        theirs = [found[0] for found in lm.loglikelihood(requests, disable_tqdm=True)]
        np.testing.assert_allclose(table[f"{side}_bos"].to_numpy(), theirs, rtol=0, atol=1e-4)
