"""Learning rate, momentum and weight decay as pure functions of progress in tokens.

Progress is tokens over the run's total tokens, so that two runs of one recipe that cut their steps differently still
follow one curve. A step knows two values of it: `before` (tokens seen when its gradient is taken) and `after` (tokens
seen when it is done). The warm-up follows `after`, so the first step is not wasted at rate 0; the fall at the end
follows `before`, so the last step is not wasted either. Without a warm-up this is the published recipe of loop2
(constant, then linear to 0 over the last half), measured in tokens where upstream measures wall-clock time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ostinato.study.records import LrSchedule, Muon, Recipe


@dataclass(frozen=True)
class Settings:
    """What the optimizers are told for one step.

    rate: factor of every group's learning rate.  momentum: of Muon's first moment.  decay: factor of every weight decay.
    """

    rate: float
    momentum: float
    decay: float


def rate(schedule: LrSchedule, before: float, after: float) -> float:
    """The share (0 to 1) of the full learning rate for a step that goes from progress `before` to `after`.

    The fall begins at 1 - decay, or when the warm-up ends if that is later, and reaches `final` at progress 1.
    """
    if after < schedule.warmup:
        return after / schedule.warmup
    start = max(1.0 - schedule.decay, schedule.warmup)
    if before <= start:
        return 1.0
    fallen = (before - start) / (1.0 - start)
    share = 1.0 - fallen if schedule.shape == "linear" else 0.5 * (1.0 + math.cos(math.pi * fallen))
    return schedule.final + (1.0 - schedule.final) * share


def momentum(muon: Muon, step: int) -> float:
    """Muon's momentum at a step (from 0): a straight line from `momentum_start` to `momentum` over `momentum_steps`."""
    if muon.momentum_start is None:
        return muon.momentum
    share = min(step / muon.momentum_steps, 1.0)
    return (1.0 - share) * muon.momentum_start + share * muon.momentum


def decay(recipe: Recipe, before: float) -> float:
    """The factor of every weight decay: 1, or what is left of the run when the recipe says `decay_to_zero`."""
    return 1.0 - before if recipe.decay_to_zero else 1.0


def settings(recipe: Recipe, tokens: int, step_tokens: int, total_tokens: int) -> Settings:
    """Everything a step needs that begins when `tokens` have been seen; steps are `step_tokens` long."""
    before, after = tokens / total_tokens, (tokens + step_tokens) / total_tokens
    return Settings(rate(recipe.lr_schedule, before, after), momentum(recipe.muon, tokens // step_tokens), decay(recipe, before))
