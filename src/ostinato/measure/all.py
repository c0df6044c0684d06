"""Every measure by name: where it is taken, what it needs, and which of them a run still lacks. No torch before one is taken.

A measure is a function `take(subject, context) -> Taken` in a module of its own; here is all that has to be known before it is called.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ostinato.measure.context import Context, Taken
from ostinato.study.derive import arm_applications
from ostinato.study.passes import trained_passes
from ostinato.study.records import MEASURE_NAMES, Measure, Model

if TYPE_CHECKING:
    from ostinato.measure.subject import Subject


@dataclass(frozen=True)
class Kind:
    """One measure.  module: has `take`.  about: what it says, in a few words.

    text: taken on targets, and so named by them and by their number.  pairs: needs minimal pairs.  ours: of models of this package only.
    has: whether a model has what is measured.
    """

    module: str
    about: str
    text: bool = True
    pairs: bool = False
    ours: bool = False
    has: Callable[[Model], bool] = lambda model: True


def attends(model: Model) -> bool:
    """Does any application have heads to score?"""
    return any(a.attn and model.layers[a.layer - 1] == "gqa" for a in arm_applications(model))


def free_passes(model: Model) -> bool:
    """Can it run with another number of passes: `{r}` in its schedule, or one repeated group, and no parameters an application?"""
    return trained_passes(model) is not None


MEASURES: dict[str, Kind] = {
    "lens": Kind("ostinato.measure.lens", "the loss that the head would have after every application"),
    "skips": Kind("ostinato.measure.skips", "the loss without each application, and without each pass"),
    "depths": Kind("ostinato.measure.depths", "the loss with other numbers of passes", ours=True, has=free_passes),
    "states": Kind("ostinato.measure.states", "how far each application and pass moves the stream"),
    "heads": Kind("ostinato.measure.heads", "what the heads of each application look at", ours=True, has=attends),
    "speed": Kind("ostinato.measure.speed", "tokens a second and memory of forward passes and of generation", text=False, ours=True),
    "pairs": Kind("ostinato.measure.minimal_pairs", "which sentence of a minimal pair is likelier", text=False, pairs=True),
}


def wanted(measure: Measure, model: Model | None = None, text: bool = True) -> tuple[str, ...]:
    """The measures of `measure.take` that can be taken.  model: of a run of ours, None for another's.  text: whether there are targets."""
    return tuple(name for name in MEASURE_NAMES if name in measure.take and why_not(name, measure, model, text) is None)


def why_not(name: str, measure: Measure, model: Model | None, text: bool = True) -> str | None:
    """Why a measure cannot be taken, in words; None when it can."""
    kind = MEASURES[name]
    if kind.ours and model is None:
        return "it is of models of this package"
    if model is not None and not kind.has(model):
        return "this model has nothing of the kind"
    if kind.pairs and measure.pairs is None:
        return "no minimal pairs are named"
    return "no text is named" if kind.text and not text else None


def settings(name: str, measure: Measure, evaluation: str) -> dict[str, Any]:
    """What would make it another measurement, as far as it is known before it is taken.  evaluation: `store.evaluation_key`."""
    kind = MEASURES[name]
    found: dict[str, Any] = {"evaluation": evaluation, "targets": measure.targets} if kind.text else {}
    return found | ({"pairs": measure.pairs} if kind.pairs else {})


def take(subject: Subject, name: str, context: Context) -> Taken:
    """Take one measure. Raises what its module raises."""
    return importlib.import_module(MEASURES[name].module).take(subject, context)
