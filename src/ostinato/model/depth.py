"""A decoder that runs another number of passes with the weights that it has.

Where the number of passes is free (schedule/passes.py) no parameter belongs to one application alone, so a model of three passes is one of
two that goes on: the same tensors, arranged along other applications. A pass beyond those trained does what the last of them does.
"""

from __future__ import annotations

import copy

from ostinato.errors import OstinatoError
from ostinato.model.decoder import Decoder
from ostinato.schedule.passes import with_passes
from ostinato.study.derive import arm_schedule, counts_passes
from ostinato.study.passes import trained_passes


def at_passes(decoder: Decoder, passes: int) -> Decoder:
    """`decoder` with `passes` passes; the two share every parameter. Raises OstinatoError where no number of passes is free."""
    model = decoder.model
    trained = trained_passes(model)
    if trained is None:
        raise OstinatoError(f"{passes} passes of {model.schedule or 'a plain stack'}", "the number of passes is not free in this model",
                            "it is in a schedule with {r}, or with one repeated group, without application_scalars")  # fmt: skip
    other = copy.copy(decoder)
    other.arrange(*with_passes(arm_schedule(model), trained, passes, counts_passes(model)))
    return other
