"""The measures of one model, one after the other: each is stored as soon as it is taken; one that fails is named, and the others go on."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ostinato.data import Prepared
from ostinato.data.targets import targets
from ostinato.errors import OstinatoError
from ostinato.measure.all import keep, lacking, take, tokens_of, why_not
from ostinato.measure.context import Context, Unfit
from ostinato.measure.load import device_of, load_decoder, load_text, resolved
from ostinato.measure.subject import Ours, Subject
from ostinato.model.depth import at_passes
from ostinato.store import RunFolder, evaluation_key
from ostinato.study.records import MEASURE_NAMES, Arm, Evaluate, Measure

log = logging.getLogger("ostinato")

WAIT_SECONDS = 2.0
"""For another process to let go of a run."""

Told = Callable[[str, float], None]
"""Hears which measure is being taken, and the share of all that is done."""


@dataclass(frozen=True)
class Took:
    """What became of one measure.  state: taken, stored (it was before), left out, or failed.  why: of the last two."""

    measure: str
    state: str
    why: str = ""
    seconds: float = 0.0

    def record(self) -> dict[str, Any]:
        """As JSON types."""
        return asdict(self)


def sorted_out(names: Sequence[str], why_left: Callable[[str], str | None],
               there: Callable[[str], bool]) -> tuple[dict[str, Took], list[str]]:  # fmt: skip
    """What becomes of measures that are not taken, and which are due.  why_left: why one cannot be taken.  there: whether it is stored."""
    left = {name: why for name in names if (why := why_left(name))}
    due = [name for name in names if name not in left and not there(name)]
    return {name: Took(name, "left out", left[name]) if name in left else Took(name, "stored") for name in names}, due


def take_all(subject: Subject, names: Sequence[str], context: Context, folder: RunFolder, tokens: int, evaluation: str | None,
             told: Told | None = None, passes: int | None = None) -> list[Took]:  # fmt: skip
    """Take these measures and store them with the run in `folder`, as it is after `tokens` of training.

    evaluation: the key of the windows that the targets are in.  told: may raise to stop; what was taken before is stored.
    passes: the subject's, where it is not as trained.
    """
    sizes = {name: tokens_of(name, context.measure, len(subject.labels)) for name in names}
    found, before, whole = [], 0.0, max(1.0, sum(sizes.values()))
    for name, size in sizes.items():

        def progress(done: int, count: int, name: str = name, size: float = size, before: float = before) -> None:
            if told:
                told(name, (before + size * done / max(1, count)) / whole)

        progress(0, 1)
        began, why, state = time.monotonic(), "", "failed"
        given = replace(context, progress=progress)
        try:
            keep(folder, name, take(subject, name, given), given, tokens, evaluation, passes)
        except Unfit as error:
            why, state = error.what, "left out"
        except OstinatoError as error:
            log.error("%s: %s", name, why := str(error))
        except Exception as error:
            log.exception("%s: %s", name, why := f"{type(error).__name__}: {error}")
        else:
            state = "taken"
            log.info("%s taken at %s tokens in %.1f s", name, f"{tokens:,}", time.monotonic() - began)
        found.append(Took(name, state, why, time.monotonic() - began))
        before += size
    return found


def measure_run(folder: RunFolder, measure: Measure | None = None, only: Sequence[str] | None = None, tokens: int | None = None,
                device: str = "auto", told: Told | None = None, evaluate: Evaluate | None = None,
                prepared: Prepared | None = None, passes: int | None = None) -> list[Took]:  # fmt: skip
    """Take what a run lacks of the measures in `measure`, or anew what `only` names.

    measure, evaluate, prepared: the study's (default: as the run was first trained for).  tokens: of the checkpoint (default: the newest).
    passes: of the same weights with so many (model/depth.py); kept beside those of the model as trained.
    Raises StoreError without one, InUse for a run that another process works on; DataError for its text; TrainingError for the device.
    """
    content = resolved(folder)
    arm = Arm.model_validate(content["arm"])
    measure = measure or Measure.model_validate(content.get("measure") or {})
    evaluate = evaluate or Evaluate.model_validate(folder.evaluation_record() or content.get("evaluate") or {})
    context, evaluation = evaluate.context or arm.recipe.context, evaluation_key(evaluate, arm.recipe.context)
    names = [name for name in MEASURE_NAMES if name in (only or measure.take)]
    points = folder.checkpoints()
    tokens = max(points, default=None) if tokens is None else tokens

    def due_now() -> tuple[dict[str, Took], list[str]]:
        lacks = lacking(folder, measure, arm.model, tokens, evaluation, only, passes)
        return sorted_out(names, lambda name: why_not(name, measure, arm.model, passes=passes), lambda name: name not in lacks)

    took, due = due_now()
    if due:
        with folder.lock(WAIT_SECONDS, f"process {os.getpid()} of `ostinato measure`"):
            took, due = due_now()  # whoever had the run before may have taken some
            if not due:
                return [took[name] for name in names]
            prepared = prepared or load_text(folder)
            decoder = load_decoder(folder, prepared, tokens, device_of(device))
            decoder = decoder if passes is None else at_passes(decoder, passes)
            given = Context(measure, targets(prepared, "validation", evaluate, context), arm.data.document_mask, evaluate.batch,
                            prepared.vocabulary, arm)  # fmt: skip
            took |= {one.measure: one for one in
                     take_all(Ours(decoder, arm.name), due, given, folder, tokens, evaluation, told, passes)}  # fmt: skip
    return [took[name] for name in names]
