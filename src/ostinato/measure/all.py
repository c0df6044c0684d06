"""Every measure by name: where it is taken, what it needs, what it costs, and which of them a run lacks. No torch before one is taken.

A measure is a function `take(subject, context) -> Taken` in a module of its own; here is all that has to be known before it is called.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ostinato.data.minimal_pairs import read_once
from ostinato.errors import StudyError
from ostinato.measure.context import Context, Taken
from ostinato.store.runs import RunFolder
from ostinato.study.derive import arm_applications
from ostinato.study.passes import trained_passes
from ostinato.study.records import MEASURE_NAMES, Measure, Model

if TYPE_CHECKING:
    from ostinato.measure.subject import Subject


PROBE = 32_768
"""Tokens of a pass of a measure that is not taken on targets; the sentences of BLiMP are 45 such passes."""


@dataclass(frozen=True)
class Kind:
    """One measure.  module: has `take`.  about: what it says, in a few words.

    passes: forward passes over the targets (or PROBE tokens) that it takes, about, of a model with so many applications; for estimates
    of time alone.
    text: taken on targets, and so named by them and by their number.  pairs: needs minimal pairs.  ours: of models of this package only.
    has: whether a model has what is measured.
    """

    module: str
    about: str
    passes: Callable[[int], float]
    text: bool = True
    pairs: bool = False
    ours: bool = False
    has: Callable[[Model], bool] = lambda model: True


def attends(model: Model) -> bool:
    """Does any application have heads to score?"""
    return any(a.attn and model.layers[a.layer - 1] == "gqa" for a in arm_applications(model))


def free_passes(model: Model) -> bool:
    """Could it run another number of passes than it is trained with?"""
    return trained_passes(model) is not None


MEASURES: dict[str, Kind] = {
    "lens": Kind("ostinato.measure.lens", "the loss that the head would have after every application", lambda depth: 1 + depth / 4),
    "skips": Kind("ostinato.measure.skips", "the loss without each application, and without each pass", lambda depth: (depth + 3) / 4),
    "depths": Kind("ostinato.measure.depths", "the loss with other numbers of passes", lambda depth: 6, ours=True, has=free_passes),
    "states": Kind("ostinato.measure.states", "how far each application and each pass moves the stream", lambda depth: 3),
    "heads": Kind("ostinato.measure.heads", "what the heads of each application look at", lambda depth: 4, has=attends),
    "speed": Kind("ostinato.measure.speed", "tokens a second and memory, in forward passes and in generation", lambda depth: 10,
                  text=False, ours=True),
    "pairs": Kind("ostinato.measure.minimal_pairs", "which sentence of a minimal pair is likelier", lambda depth: 45,
                  text=False, pairs=True),
}  # fmt: skip


def asked(names: Collection[str] | None) -> tuple[str, ...] | None:
    """These measures in their order; None for None. Raises StudyError for one that there is not."""
    for name in names or ():
        if name not in MEASURES:
            near = difflib.get_close_matches(name, MEASURES, 1)
            raise StudyError(f"there is no measure {name!r}", "the measures are " + ", ".join(MEASURES),
                             f"did you mean {near[0]}?" if near else "choose one of these")  # fmt: skip
    return tuple(name for name in MEASURE_NAMES if name in names) if names else None


def why_not(name: str, measure: Measure, model: Model | None, text: bool = True, passes: int | None = None) -> str | None:
    """Why a measure cannot be taken, in words; None when it can.  model: of a run of ours.  text: whether there are targets.

    passes: another number of them than trained.
    """
    kind = MEASURES[name]
    if passes is not None and (name == "depths" or not free_passes(model)):
        return "it is of all numbers of passes" if name == "depths" else "the number of passes is not free in this model"
    if kind.ours and model is None:
        return "it is of models of this package"
    if model is not None and not kind.has(model):
        return "this model has nothing of the kind"
    if kind.pairs and measure.pairs is None:
        return "no minimal pairs are named"
    return "no text is named" if kind.text and not text else None


def kept_as(name: str, passes: int | None = None) -> str:
    """The name that a measure is stored under.  passes: not as trained; nobody shall take it for a measure of the model as it is."""
    return name if passes is None else f"{name}@{passes}"


def stored(folder: RunFolder, name: str, measure: Measure, tokens: int, evaluation: str | None, passes: int | None = None) -> bool:
    """Whether this very measurement is there.  evaluation: `store.evaluation_key` of the windows that targets are in."""
    expected = _expected(name, measure, evaluation).items()
    there = folder.measures(kept_as(name, passes))
    return any(one.tokens == tokens and expected <= (one.about | one.settings).items() for one in there)


def lacking(folder: RunFolder, measure: Measure, model: Model | None, tokens: int | None, evaluation: str | None,
            only: Collection[str] | None = None, passes: int | None = None) -> tuple[str, ...]:  # fmt: skip
    """The measures of `measure.take` that the run could have at `tokens` and has not; of `only` all that it could have."""
    able = (name for name in MEASURE_NAMES if name in (only or measure.take) and why_not(name, measure, model, passes=passes) is None)
    return tuple(name for name in able if only or tokens is None or not stored(folder, name, measure, tokens, evaluation, passes))


def check_pairs(measure: Measure, lacks: Iterable[Collection[str]]) -> None:
    """Read the minimal pairs before anything is trained or taken, if any of these runs lacks them. Raises DataError as `read_pairs`."""
    if any("pairs" in names for names in lacks):
        read_once(measure.pairs)


def tokens_of(name: str, measure: Measure, depth: int) -> float:
    """That go through a model of `depth` applications, about, when it is taken: windows overlap by a half."""
    return MEASURES[name].passes(depth) * (2 * measure.targets if MEASURES[name].text else PROBE)


def inputs_by_measure(measure: Measure, model: Model) -> dict[str, float]:
    """Tokens that go through a model for each of the measures that are taken of it, about; for estimates of time."""
    able = (name for name in measure.take if why_not(name, measure, model) is None)
    return {name: tokens_of(name, measure, len(arm_applications(model))) for name in able}


def inputs_of_measures(measure: Measure, model: Model) -> float:
    """The same of all of them."""
    return sum(inputs_by_measure(measure, model).values())


def _expected(name: str, measure: Measure, evaluation: str | None) -> dict[str, Any]:
    """What is said of a measurement that can be known before it is taken."""
    kind = MEASURES[name]
    found: dict[str, Any] = {"evaluation": evaluation, "targets": measure.targets} if kind.text else {}
    return found | ({"pairs": measure.pairs} if kind.pairs else {})


def take(subject: Subject, name: str, context: Context) -> Taken:
    """Take one measure. Raises what its module raises."""
    return importlib.import_module(MEASURES[name].module).take(subject, context)


def keep(folder: RunFolder, name: str, taken: Taken, context: Context, tokens: int, evaluation: str | None,
         passes: int | None = None) -> None:  # fmt: skip
    """Store one measure, under what would make it another measurement: the targets and their number, and what its module says."""
    text = {"target_id": context.targets.id, "targets": context.measure.targets} if MEASURES[name].text and context.targets else {}
    about = taken.about | _expected(name, context.measure, evaluation)
    folder.write_measure(kept_as(name, passes), text | taken.settings, tokens, taken.table, about)
