"""All trackers as one that never raises. (What TensorBoard draws is in test_loop.py, what runs beside the run in tests/launch.)"""

from __future__ import annotations

import logging

from ostinato.train import trackers
from ostinato.train.trackers import Trackers
from ostinato.train.trainer import StepRecord


class Kept:
    title = "kept"

    def __init__(self, steps_done, wrong=""):
        self.steps_done, self.wrong, self.told, self.closed = steps_done, wrong, [], 0

    def log(self, scalars, step):
        if self.wrong == "log":
            raise OSError("no room\nat all")
        self.told.append((dict(scalars), step))

    def close(self, until):
        self.closed += 1
        if self.wrong == "close":
            raise ValueError


def test_each_has_the_same_scalars():
    both = [Kept(0), Kept(0)]
    one = Trackers([lambda steps_done: both[0], lambda steps_done: both[1]], 3)
    one.step(StepRecord(4, 256, 5.5, 0.1, 2.0, 0.5), 512.0)
    one.validation(5.25, 4)
    one.close()
    one.close()
    values = {"train/loss": 5.5, "train/lr": 0.1, "train/grad_norm": 2.0, "train/tokens_per_s": 512.0}
    assert both[0].told == both[1].told == [(values, 4), ({"validation/nats": 5.25}, 4)]
    assert both[0].closed == 1


def test_what_is_done_is_told_when_one_is_opened():
    opened = []
    Trackers([lambda steps_done: opened.append(steps_done) or Kept(steps_done)], 7)
    assert opened == [7]


def test_one_that_raises_is_dropped_with_a_line_and_the_others_go_on(caplog):
    def fails(steps_done):
        raise ImportError("half of it is missing")

    broken, late, good = Kept(0, "log"), Kept(0, "close"), Kept(0)
    with caplog.at_level(logging.WARNING, "ostinato.trackers"):
        one = Trackers([fails, lambda _: broken, lambda _: late, lambda _: good], 0)
        for step in (1, 2):
            one.validation(5.0, step)
        one.close()
    assert len(good.told) == 2 and good.closed == late.closed == 1 and broken.closed == 0
    assert [record.getMessage() for record in caplog.records] == [
        "a tracker could not be opened: ImportError: half of it is missing; the run goes on without it",
        "kept: OSError: no room; its curves end here, the run goes on",
        "kept: ValueError while it was closed; the run is not hurt",
    ]


def test_all_share_the_time_there_is_to_close(monkeypatch):
    monkeypatch.setattr(trackers, "CLOSE_SECONDS", 5.0)
    given = []

    class Slow(Kept):
        def close(self, until):
            given.append(until)

    Trackers([Slow, Slow], 0).close()
    assert len(given) == 2 and given[0] == given[1]
