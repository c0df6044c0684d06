"""How many runs at a time with how many threads each, and whether to compile: what ends a study first, by the calibration.

Every split of the cores is tried on the study's own queue. One single-threaded run a core wins nearly always while there are more runs
than cores: threads wait for each other at every operation, runs do not. A few long runs at the end, or fewer runs than cores, are what
threads are for. Without a calibration: one run a core, each with one thread, and nothing is compiled on a CPU.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass

from ostinato.ledger.ledger import Ledger
from ostinato.ledger.seconds import Calibration, RunSeconds, run_seconds, step_seconds
from ostinato.study.counted import several
from ostinato.study.records import Arm, Evaluate

GAIN = 0.03  # more threads are taken only for more than 3%, and for more than the calibration may be off
COMPILE_STEPS = 500
"""On a GPU a graph takes about a minute to compile and saves a tenth of a second and more of a step; shorter runs are over before."""


@dataclass(frozen=True)
class Choice:
    """jobs: runs at a time.  threads: of each.  seconds: until the study is done (None: not known).  calibrated: by a calibration."""

    jobs: int
    threads: int
    seconds: float | None = None
    calibrated: bool = False

    def __str__(self) -> str:
        runs = f"{several(self.jobs, 'run')} at a time"
        return f"{runs}, {several(self.threads, 'thread')} each"


def choose(runs: Sequence[tuple[Arm, int, dict[str, int] | None]], evaluate: Evaluate, calibration: Calibration | None, cores: int,
           jobs: int | None = None, threads: int | None = None) -> Choice:  # fmt: skip
    """What ends `runs` first. runs: (arm, vocabulary, tokens of each part of its text) in the order of the queue.

    jobs, threads: given by the user; what is left open is chosen, and never more threads in all than cores unless both are given.
    """
    if calibration is None or not runs or not all(calibration.known(arm.recipe.dtype) for arm, _, _ in runs):
        each = threads or 1
        return Choice(max(1, jobs or cores // each), each)
    splits = [each for each in range(1, cores + 1) if cores % each == 0 and (each == 1 or each * (jobs or 1) <= cores)]
    tried = [threads] if threads else splits
    worth = 1 - max(GAIN, *(pace.error for pace in calibration.paces))
    best: Choice | None = None
    for each in tried:
        at_once = max(1, min(jobs or cores // each, len(runs)))
        seconds = seconds_left([], _totals(runs, evaluate, calibration, each), at_once, 1.0)
        if best is None or seconds < worth * best.seconds:
            best = Choice(jobs or at_once, each, seconds, True)
    return best


def _totals(runs: Sequence[tuple[Arm, int, dict[str, int] | None]], evaluate: Evaluate, calibration: Calibration,
            threads: int) -> list[float]:  # fmt: skip
    known: dict[int, RunSeconds | None] = {}
    for arm, vocab, parts in runs:
        if id(arm) not in known:
            known[id(arm)] = run_seconds(calibration, arm, vocab, evaluate, parts, threads)
    return [known[id(arm)].total for arm, _, _ in runs]


def seconds_left(running: Sequence[tuple[float, float | None]], waiting: Sequence[float], slots: int, speed: float | None) -> float | None:
    """When the last run ends, if the waiting ones are begun in their order as slots become free.

    running: (work left, work a second or None) of each; waiting: work of each. speed: of a run that has none of its own yet. Work is in
    any one unit: seconds by the calibration at speed 1, or FLOPs. None while no speed is known.
    """
    if not running and not waiting:
        return 0.0
    ends = []
    for left, own in running:
        pace = own or speed
        if not pace:
            return None
        ends.append(left / pace)
    ends += [0.0] * (slots - len(ends))
    heapq.heapify(ends)
    for work in waiting:
        if not speed:
            return None
        heapq.heapreplace(ends, ends[0] + work / speed)
    return max(ends)


def compile_pays(ledgers: Sequence[Ledger], calibration: Calibration | None, gpu: bool, threads: int = 1) -> bool:
    """Whether compiling saves more of these runs than it takes; one answer for all runs of a study, so that they stay comparable.

    On a CPU by the compiled probes of the calibration, each run paying for its own kinds of application; without such probes, no.
    On a GPU, where every run has COMPILE_STEPS steps at least.
    """
    if not ledgers:
        return False
    if gpu:
        return all(ledger.steps >= COMPILE_STEPS for ledger in ledgers)
    if calibration is None or not calibration.compiled or not all(calibration.known(ledger.arm.recipe.dtype) for ledger in ledgers):
        return False
    saved = 0.0
    for ledger in ledgers:
        nearest = min(calibration.compiled, key=lambda one: abs(math.log(one.width / ledger.arm.model.d_model)))
        training = ledger.steps * step_seconds(calibration, ledger.arm, ledger.vocab, threads)
        kinds = len({(row.kind, row.part, row.window, row.enters_pass) for row in ledger.applications})
        saved += training * (1 - 1 / nearest.ratio) - nearest.seconds * kinds
    return saved > 0
