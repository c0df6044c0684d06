"""Which windows a measure reads: whole ones, the same for every model, fewer or more of one order; each target once."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import torch

from ostinato.data import document_ids
from ostinato.data.targets import targets
from ostinato.errors import DataError
from ostinato.measure.context import Context
from ostinato.measure.windows import over_windows, some
from ostinato.study.records import Evaluate, Measure

CPU = torch.device("cpu")


@pytest.fixture(params=[Evaluate(), Evaluate(windows="rows"), Evaluate(context=7, stride=3)], ids=["documents", "rows", "overlapping"])
def wanted(request, small_text):
    return targets(small_text, "validation", request.param, 16)


def indices(chosen):
    return set(chosen.flat_target[chosen.flat_target >= 0].tolist())


def test_whole_windows_of_so_many_targets_and_more_hold_fewer(wanted):
    whole = {tuple(wanted.flat_target[first:last]) for first, last in zip(wanted.offsets[:-1], wanted.offsets[1:], strict=True)}
    before: set[int] = set()
    for most in (1, 40, 100, len(wanted), 10**9):
        chosen = some(wanted, most)
        assert {tuple(chosen.flat_target[first:last]) for first, last in zip(chosen.offsets[:-1], chosen.offsets[1:], strict=True)} <= whole
        found = indices(chosen)
        assert len(found) <= max(most, len(indices(some(wanted, 1)))) and len(found) >= min(most, len(wanted)) - wanted.context
        assert before <= found and len(chosen) == len(wanted) and chosen.id == wanted.id
        before = found
    assert before == set(range(len(wanted)))


def test_they_are_spread_over_the_text(wanted):
    documents = wanted.document[sorted(indices(some(wanted, len(wanted) // 2)))]
    assert documents.min() == wanted.document.min() and documents.max() == wanted.document.max()


@pytest.mark.parametrize("document_mask", [False, True])
@pytest.mark.parametrize("batch", [1, 37, 10**6])
def test_every_target_once_behind_its_own_inputs(wanted, document_mask, batch):
    """What a pass is given at a target's place: the inputs up to there of the only window that scores it."""
    told = []
    context = Context(Measure(targets=100), wanted, document_mask, batch, progress=lambda done, every: told.append((done, every)))

    def read(windows):
        assert windows.tokens_BT.numel() <= max(batch, wanted.context) and not torch.is_grad_enabled()
        assert (windows.documents_BT is None) is not document_mask
        if document_mask:
            np.testing.assert_array_equal(windows.documents_BT, document_ids(windows.tokens_BT.numpy(), wanted.bos))
        b, t = windows.at_BT.nonzero().T
        return [(place, windows.tokens_BT[row, : last + 1].tolist(), token) for place, row, last, token in
                zip(windows.place_N.tolist(), b, t, windows.wanted_N.tolist(), strict=True)]  # fmt: skip

    found = {place: (inputs, token) for part in over_windows(read, context, CPU, "testing") for place, inputs, token in part}
    chosen = some(wanted, 100)
    assert set(found) == indices(chosen) and told[-1] == (len(found), len(found)) and told == sorted(told)
    for window in range(len(chosen.lengths)):
        tokens = chosen.flat[chosen.offsets[window] : chosen.offsets[window + 1]].tolist()
        for at, place in enumerate(chosen.flat_target[chosen.offsets[window] : chosen.offsets[window + 1]].tolist()):
            if place >= 0:
                assert found[place] == (tokens[:at], tokens[at]) and tokens[at] == wanted.token[place]


def test_what_does_not_fit_is_done_with_fewer_windows_and_nothing_twice(small_text, caplog):
    wanted = targets(small_text, "validation", Evaluate(windows="rows"), 16)

    def read(windows):
        if len(windows.tokens_BT) > 9:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        return windows.place_N

    with caplog.at_level(logging.WARNING, "ostinato"):
        found = np.concatenate(over_windows(read, Context(Measure(), wanted, batch=300), CPU, "testing"))
    assert sorted(found.tolist()) == list(range(len(wanted))) and "testing: out of memory" in caplog.text


def test_a_part_without_targets_is_refused(small_text):
    none = some(targets(small_text, "validation", Evaluate(), 16), 1)
    none.flat_target[:] = -1
    with pytest.raises(DataError, match="the validation part has no targets"):
        over_windows(len, Context(Measure(), none), CPU, "testing")
