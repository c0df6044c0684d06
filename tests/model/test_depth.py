"""A decoder at other numbers of passes: as one that is built with that number, and as what a deeper one has on its way."""

from __future__ import annotations

import pytest
import torch

from ostinato.errors import OstinatoError
from ostinato.model.depth import at_passes
from ostinato.study.passes import trained_passes

ROWS = torch.tensor([[0, 5, 2, 9, 5, 2, 7], [0, 3, 3, 1, 8, 8, 4]])
FREE = {
    "twice": {"schedule": "1..2 1..2"},
    "partial": {"schedule": "1..2 1..2:attn"},
    "free": {"schedule": "1 (2)x{r}", "passes": 2},
    "core": {"layers": 4, "schedule": "1 (2..3)x{r} 4", "passes": 2, "inject": "add"},
    "linear": {"layers": 3, "schedule": "1 (2 3)x{r} 1", "passes": 2, "inject": "linear", "h0": "noise", "pass_norm": True},
    "linear, written out": {"layers": 3, "schedule": "1 2 3 2 3", "inject": "linear", "pass_norm": True},
    "two groups": {"layers": 3, "schedule": "1x{r} 2 (3 1)x{r}", "passes": 2, "inject": "linear", "h0": "noise"},
    "hybrid": {"layers": "gdn gqa", "schedule": "(1..2)x2", "windows": {"pattern": "S", "short": 3}, "value_embeddings": "all"},
}


@pytest.fixture(params=FREE)
def decoder(request, small_model, small_decoder):
    return small_decoder(small_model(**FREE[request.param]), context=8)


@pytest.mark.parametrize("passes", [2, 3, 4])
def test_as_one_that_is_built_with_that_number(decoder, small_decoder, passes):
    """The same weights under the same names, in a model whose record says so many passes."""
    model = decoder.model
    if "{r}" in model.schedule:
        written = model.model_copy(update={"passes": passes})
    else:
        other = at_passes(decoder, passes).applications
        written = model.model_copy(update={"schedule": " ".join(map(str, other))})
    built = small_decoder(written, context=8, seed=2)
    built.load_state_dict(decoder.state_dict())
    assert torch.equal(at_passes(decoder, passes)(ROWS), built(ROWS))


def test_one_pass_is_what_two_have_on_the_way(small_model, small_decoder):
    """Where nothing follows the group, the stream at the end of pass p is that of p passes, injection and norm of the pass included."""
    for keys in ({"schedule": "(1..2)x3"}, {"schedule": "1 (2)x3", "inject": "linear", "h0": "noise", "pass_norm": True},
                 {"schedule": "(1..2)x{r}", "passes": 3, "inject": "linear", "pass_norm": True}):  # fmt: skip
        decoder, seen = small_decoder(small_model(**keys)), {}
        decoder.hidden(ROWS, watch=lambda application, x, seen=seen: seen.update({application: x}))
        for passes in (1, 2, 3):
            other = at_passes(decoder, passes)
            wanted = seen[other.applications[-1]]
            assert torch.equal(other.hidden(ROWS), decoder.final_norm(wanted))


def test_parameters_are_shared_and_the_decoder_stays(decoder):
    before = decoder(ROWS)
    for passes in (1, 2, 4):
        other = at_passes(decoder, passes)
        assert all(one is another for one, another in zip(other.parameters(), decoder.parameters(), strict=True))
        assert torch.isfinite(other(ROWS)).all()
        assert passes == 2 or not torch.equal(other(ROWS), before)
    assert torch.equal(decoder(ROWS), before) and torch.equal(at_passes(decoder, 2)(ROWS), before)


@pytest.mark.parametrize("keys", [{}, {"schedule": "1 2 2 1 1"}, {"schedule": "1..2 1..2", "application_scalars": True},
                                  {"schedule": "(1..2)x{r}", "passes": 1, "inject": "linear"}])
def test_a_model_whose_passes_are_not_free_is_refused(keys, small_model, small_decoder):
    model = small_model(**keys)
    assert trained_passes(model) is None
    with pytest.raises(OstinatoError, match=r"3 passes of .*\nrule: the number of passes is not free"):
        at_passes(small_decoder(model), 3)


def test_one_pass_that_nothing_begins_or_ends_goes_on(small_model, small_decoder):
    decoder = small_decoder(small_model(schedule="(1..2)x{r}", passes=1, inject="add"))
    twice = small_decoder(small_model(schedule="(1..2)x{r}", passes=2, inject="add"))
    assert torch.equal(at_passes(decoder, 2)(ROWS), twice(ROWS))
