"""Seconds that runs take on a machine, from a calibration: what its probes took, and what they did (`work.py`).

A pace is a list of seconds for each count of work, none of them negative, that fits the probes best in relative error (non-negative
least squares, Lawson & Hanson 1974). A probe that is off by a tenth weighs the same whether it took a millisecond or a second. Fitting
is done once, when the machine is calibrated; reading a pace and multiplying needs neither torch nor scipy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ostinato.ledger.work import Work, measuring_work, step_work
from ostinato.study.derive import recipe_steps
from ostinato.study.points import measurements
from ostinato.study.records import Arm, Evaluate

VERSION = 2
"""Of probes and counts together: a calibration of another version is not read."""
ROUGH = 0.1
"""A larger error of its own steps means that others worked on the machine meanwhile: 0.02 where they do not (docs/decisions/0143)."""


@dataclass(frozen=True)
class Pace:
    """Of one process with `threads` threads while `at_once` such processes run, in one number format.

    step, forward: seconds for one of each count of STEP and FORWARD.  start: seconds from the start of a process to its first step.
    error: the median relative error of its own probes.
    """

    threads: int
    at_once: int
    dtype: str
    step: Mapping[str, float]
    forward: Mapping[str, float]
    start: float
    error: float = 0.0


@dataclass(frozen=True)
class CompiledProbe:
    """One model compiled: its width, how many times faster its step was than eager, and the seconds that compiling took."""

    width: int
    ratio: float
    seconds: float


@dataclass(frozen=True)
class Calibration:
    """What a machine does. device: its processor or GPU; made: when, ISO 8601. compiled: empty when compiling was not tried."""

    device: str
    cores: int
    made: str
    paces: tuple[Pace, ...]
    compiled: tuple[CompiledProbe, ...] = ()

    def pace_words(self, threads: int) -> str:
        """How the numbers came about and how far to trust them, for a line of text."""
        error = min(self.paces, key=lambda pace: abs(math.log(pace.threads / threads))).error
        rough = "; rough, as this machine had other work then: `ostinato calibrate` again" if error > ROUGH else ""
        return f"calibrated {self.made[:10]}, within {error:.0%} of its own steps{rough}"

    def known(self, dtype: str) -> bool:
        """Whether this number format was measured."""
        return any(pace.dtype == dtype for pace in self.paces)

    def between(self, dtype: str, threads: int, seconds: Callable[[Pace], float]) -> float:
        """`seconds` at this number of threads: of the pace that has it, else between those below and above, evenly in log and log."""
        paces = sorted((pace for pace in self.paces if pace.dtype == dtype), key=lambda pace: pace.threads)
        below = [pace for pace in paces if pace.threads <= threads] or paces[:1]
        above = [pace for pace in paces if pace.threads >= threads] or paces[-1:]
        first, last = seconds(below[-1]), seconds(above[0])
        if below[-1].threads == above[0].threads or not first or not last:
            return first
        share = math.log(threads / below[-1].threads) / math.log(above[0].threads / below[-1].threads)
        return first ** (1 - share) * last**share


@dataclass(frozen=True)
class RunSeconds:
    """Of one run: before the first step, of all steps, and of all measurements (None: the size of what is measured is not known yet)."""

    start: float
    training: float
    measuring: float | None

    @property
    def total(self) -> float:
        """What is known of it, together."""
        return self.start + self.training + (self.measuring or 0.0)


def fit(works: Sequence[Work], seconds: Sequence[float], names: Sequence[str]) -> tuple[dict[str, float], float]:
    """Seconds for one of each count, and the median relative error of the fit."""
    import numpy as np
    from scipy.optimize import nnls

    counts_PC = np.array([[work[name] for name in names] for work in works]) / np.array(seconds)[:, None]
    scale_C = np.maximum(counts_PC.max(axis=0), 1e-300)
    found_C = nnls(counts_PC / scale_C, np.ones(len(works)))[0] / scale_C
    errors_P = np.abs(counts_PC @ found_C - 1)
    return dict(zip(names, map(float, found_C), strict=True)), float(np.median(errors_P))


def of_work(pace: Mapping[str, float], work: Work) -> float:
    """Seconds of this work at this pace."""
    return sum(pace.get(name, 0.0) * count for name, count in work.items())


def step_seconds(calibration: Calibration, arm: Arm, vocab: int, threads: int, rows_at_once: int | None = None) -> float | None:
    """Of one training step; None for a number format that was not measured."""
    if not calibration.known(arm.recipe.dtype):
        return None
    work = step_work(arm, vocab, rows_at_once)
    return calibration.between(arm.recipe.dtype, threads, lambda pace: of_work(pace.step, work))


def run_seconds(calibration: Calibration, arm: Arm, vocab: int, evaluate: Evaluate, parts: Mapping[str, int] | None,
                threads: int) -> RunSeconds | None:  # fmt: skip
    """Of one run of `arm`; None for a number format that was not measured.

    parts: tokens of each part of the text; without them, and without a number of targets in `evaluate`, measuring is not known.
    """
    training = step_seconds(calibration, arm, vocab, threads)
    if training is None:
        return None
    steps, dtype = recipe_steps(arm.recipe), arm.recipe.dtype
    context = evaluate.context or arm.recipe.context
    read: float | None = 0.0
    for points in measurements(evaluate, steps.tokens, steps.tokens_per_step).values():
        for part in points:
            size = (parts or {}).get(part, evaluate.targets)
            if size is None or read is None:
                read = None
                break
            inputs, counted = inputs_of(size, evaluate, arm.recipe.context)
            work = measuring_work(arm, vocab, context, counted, inputs, evaluate.batch)
            read += calibration.between(dtype, threads, lambda pace, work=work: of_work(pace.forward, work))
    start = calibration.between(dtype, threads, lambda pace: pace.start)
    return RunSeconds(start, steps.steps * training, read)


def inputs_of(tokens: int, evaluate: Evaluate, context: int) -> tuple[float, float]:
    """Tokens that one measurement of a part reads, about, and targets for each of these: documents are read again where windows overlap."""
    tokens = min(tokens, evaluate.targets or tokens)
    if evaluate.windows == "rows":
        return float(tokens), 1.0
    context = evaluate.context or context
    stride = evaluate.stride or max(1, context // 2)
    return tokens * context / stride, stride / context


