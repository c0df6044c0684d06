"""How far applications move the stream: against single positions in a plain loop, at a fixed point, and ranks that are known."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ostinato.data.targets import targets
from ostinato.measure import states
from ostinato.measure.context import Context
from ostinato.measure.subject import Label, Ours
from ostinato.measure.windows import some
from ostinato.study.records import Evaluate, Measure


@pytest.fixture
def wanted(small_text):
    return targets(small_text, "validation", Evaluate(), 16)


@pytest.fixture
def subject_of(small_model, small_decoder, small_text):
    def make(**keys):
        return Ours(small_decoder(small_model(**keys), vocab=small_text.vocab, context=16, dtype=torch.float32, bos=small_text.bos))

    return make


def one_position_at_a_time(subject, chosen):
    """The naive twin: (values by application and name, a list of one a position; states [positions, D] by application)."""
    found, after = {}, {}
    for first, last in zip(chosen.offsets[:-1], chosen.offsets[1:], strict=True):
        tokens, seen = torch.from_numpy(chosen.flat[first:last].astype(np.int64))[None], []
        with torch.no_grad():
            subject.hidden(tokens[:, :-1], watch=lambda _, x, seen=seen: seen.append(x[0].double().numpy()))
        for at in np.flatnonzero(chosen.flat_target[first + 1 : last] >= 0):
            x = [stream[at] for stream in seen]
            for a, label in enumerate(subject.labels):
                row = {"size": np.sqrt((x[a + 1] ** 2).mean()), "update": np.linalg.norm(x[a + 1] - x[a]) / np.linalg.norm(x[a])}
                same = [b for b, other in enumerate(subject.labels) if other.layer == label.layer]
                if same[0] < a:
                    b = max(b for b in same if b < a)
                    u, v = x[a + 1] - x[a], x[b + 1] - x[b]
                    row["cosine"] = u @ v / np.linalg.norm(u) / np.linalg.norm(v)
                    row["change"] = np.linalg.norm(x[a + 1] - x[b + 1]) / np.linalg.norm(x[a + 1])
                if len(same) > 1:
                    z = x[same[-1] + 1]
                    row["distance"] = np.linalg.norm(x[a + 1] - z) / np.linalg.norm(z)
                for name, value in row.items():
                    found.setdefault((a, name), []).append(value)
                after.setdefault(a, []).append(x[a + 1])
    return found, {a: np.array(each) for a, each in after.items()}


@pytest.mark.parametrize("keys", [{}, {"schedule": "1..2 1..2:attn", "application_scalars": True}, {"schedule": "1 2 2 1 1"}])
def test_sums_of_single_positions(keys, wanted, subject_of):
    subject = subject_of(**keys)
    rows = states.take(subject, Context(Measure(targets=150), wanted, batch=50)).table.to_pylist()
    twin, after = one_position_at_a_time(subject, some(wanted, 150))
    assert [(row["application"], row["layer"], row["part"], row["pass"], row["passes"]) for row in rows] == [
        (label.index, label.layer, label.part, label.pass_, None) for label in subject.labels]  # fmt: skip
    for a, row in enumerate(rows):
        assert row["positions"] == len(after[a]) > 100
        for name in states.SUMS:
            assert (row[name] is None) == ((a, name) not in twin)
            if row[name] is not None:
                assert row[name] == pytest.approx(np.sum(twin[a, name]), rel=1e-5, abs=1e-4)
        singular = np.linalg.svd(after[a] - after[a].mean(0), compute_uv=False)
        share = singular / singular.sum()
        assert row["rank"] == pytest.approx(np.exp(-(share * np.log(share)).sum()), rel=1e-4)


def test_the_batch_does_not_matter(wanted, subject_of):
    subject = subject_of(schedule="(1..2)x3", inject="linear")
    one, other = (states.take(subject, Context(Measure(targets=150), wanted, batch=batch)).table for batch in (1, 500))
    for name in (*states.SUMS, "rank"):
        np.testing.assert_allclose(*(np.array(each[name].to_pylist(), float) for each in (one, other)), rtol=1e-6, atol=1e-4)


def test_twice_the_passes_where_they_are_free(wanted, subject_of):
    told = []
    context = Context(Measure(), wanted, batch=200, progress=lambda done, every: told.append((done, every)))
    rows = states.take(subject_of(layers=3, schedule="1 (2)x{r} 3", passes=2), context).table.to_pylist()
    assert told == sorted(told) and told[-1] == (2 * len(wanted), 2 * len(wanted)) and len(told) > 4
    assert [(row["passes"], row["layer"], row["pass"]) for row in rows] == [(2, 1, 1), (2, 2, 1), (2, 2, 2), (2, 3, 1), (4, 1, 1),
        (4, 2, 1), (4, 2, 2), (4, 2, 3), (4, 2, 4), (4, 3, 1)]  # fmt: skip
    assert rows[1]["update"] == rows[5]["update"] and rows[2]["change"] == rows[6]["change"]
    assert rows[2]["distance"] == 0 < rows[6]["distance"]


def test_a_pass_that_does_nothing_is_at_its_fixed_point(wanted, subject_of):
    subject = subject_of(schedule="(1..2)x2")
    with torch.no_grad():
        for name, parameter in subject.decoder.named_parameters():
            if name.endswith(("attn.o.weight", "mlp.down.weight")):
                parameter.zero_()
    rows = states.take(subject, Context(Measure(targets=50), wanted)).table.to_pylist()
    assert all(row["update"] == 0 and row["change"] in (0, None) and row["distance"] == 0 and row["cosine"] in (0, None) for row in rows)
    assert all(row["size"] > 0 for row in rows)


def test_applications_of_one_layer_are_compared_where_they_share_a_sublayer():
    labels = tuple(Label(index, layer, part, 1) for index, (layer, part) in
                   enumerate([(1, "attn"), (1, "mlp"), (2, "both"), (1, "both"), (2, "mlp"), (1, "attn")]))  # fmt: skip
    assert states.relations(labels) == ({3: 1, 4: 2, 5: 3}, {0: 5, 1: 3, 2: 4, 3: 5, 4: 4, 5: 5})


def test_effective_ranks_that_are_known():
    assert states.effective_rank(torch.tensor([2.0, 2, 2, 0])) == pytest.approx(3)
    assert states.effective_rank(torch.tensor([1.0, 0])) == 1 and states.effective_rank(torch.zeros(4)) == 0
