"""Minimal pairs whose sentences are the same, tie, differ in their number of tokens, or end in a period that is a token of its own."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch

from ostinato.analysis.minimal_pairs import compare_pairs, pair_scores
from ostinato.data.minimal_pairs import read_pairs
from ostinato.measure.all import take
from ostinato.measure.context import Context
from ostinato.study.records import Measure

WORDS = {"a": [1], "b": [2], "c": [3], "ab": [4], ".": [5], "A": [1]}
LOG = np.log([1e-9, 0.4, 0.2, 0.1, 0.2, 0.1])


class Unigram:
    """A model to whom what came before is nothing, so that every sum can be written down: id 0 is BOS."""

    name, vocab, bos, context, device, labels = "unigram", 6, 0, None, torch.device("cpu"), ()

    def losses(self, tokens_BT, targets_BT, documents_BT=None):
        return torch.where(targets_BT >= 0, -torch.from_numpy(LOG)[targets_BT.clamp_min(0)], 0.0)


class Words:
    """A tokenizer of words that are separated by spaces, the final period a token of its own; it does not tell `A` from `a`."""

    def encode_all(self, texts):
        return [np.array([token for word in text.replace(".", " .").split() for token in WORDS[word]]) for text in texts]


def pairs(folder, paradigms):
    for name, rows in paradigms.items():
        lines = (json.dumps({"sentence_good": good, "sentence_bad": bad, "UID": name, "field": "f"}) for good, bad in rows)
        (folder / f"{name}.jsonl").write_text("\n".join(lines))
    found = take(Unigram(), "pairs", Context(Measure(pairs=str(folder)), vocabulary=Words()))
    assert found.settings == {"content": read_pairs(folder).id[:16]} and found.about["bos"] is True
    return found.table


def test_every_kind_of_pair(tmp_path):
    table = pairs(tmp_path, {
        "one": [("a b.", "a b."), ("A b.", "a b."), ("a a.", "a b."), ("a c.", "a b."), ("ab.", "a b.")],
        "two": [("b.", "c.")],
    })  # fmt: skip
    rows = table.to_pylist()
    assert [row["identical"] for row in rows] == [True, False, False, False, False, False]
    assert rows[1]["good_bos"] == rows[1]["bad_bos"], "other text, but the same tokens: a tie"
    assert [rows[4]["good_tokens"], rows[4]["bad_tokens"]] == [2, 3], "the period is a token"
    assert math.exp(rows[4]["good_bos"]) == pytest.approx(0.2 * 0.1) and math.exp(rows[4]["bad_bos"]) == pytest.approx(0.4 * 0.2 * 0.1)
    assert math.exp(rows[4]["good_skip_first"]) == pytest.approx(0.1) and math.exp(rows[4]["bad_skip_first"]) == pytest.approx(0.2 * 0.1)
    bos, skip = (pair_scores([table], convention) for convention in ("bos", "skip_first"))
    assert bos.paradigms["one"].record() == {"pairs": 4, "right": 2, "tied": 1, "identical": 1, "accuracy": 2.5 / 4}
    assert bos.macro == (2.5 / 4 + 1) / 2, "the mean over paradigms, however many pairs each has"
    assert bos.total.accuracy == 3.5 / 5
    assert skip.paradigms["two"].record() == {"pairs": 1, "right": 0, "tied": 1, "identical": 0, "accuracy": 0.5}, "only the period is left"


def test_nothing_but_identical_pairs_is_not_estimable(tmp_path):
    table = pairs(tmp_path, {"one": [("a.", "a."), ("b.", "b.")]})
    found = pair_scores([table])
    assert found.macro is None and found.total.identical == 2
    assert compare_pairs({1: (table, table)}).words == "not estimable"
