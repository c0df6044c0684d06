"""Which models could run another number of passes than they are trained with: those in which no parameter is of one application alone."""

from __future__ import annotations

from ostinato.schedule.passes import free_passes
from ostinato.study.derive import arm_schedule, counts_passes
from ostinato.study.draws import fixed
from ostinato.study.records import Model, Passes


def trained_passes(model: Model) -> int | None:
    """The number of passes that the model is trained with, or the middle of its draw, where it could run others; None where it could not.

    It could not with per-application scalars, nor where only one pass is trained and a later one would need an injection or a norm.
    """
    if model.application_scalars:
        return None
    passes = free_passes(arm_schedule(model), fixed(model.passes))
    return None if passes == 1 and counts_passes(model) and not isinstance(model.passes, Passes) else passes
