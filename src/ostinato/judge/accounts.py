"""The accounts of a gain in one study: shares, parts, rates, frontiers and interactions of the arms that are finished.

Each account is a pure function of its own file (`shares`, `parts`, `rates`, `frontier`, `interactions`) on contrasts of losses; here is
only which arms of a study they are taken of. Everything is on the validation part at the end of training.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ostinato.analysis.arms import ArmResult
from ostinato.analysis.words import BITS, NATS
from ostinato.claims import Measure
from ostinato.judge.contrast import Contrast, OfRuns, gain
from ostinato.judge.estimable import NotEstimable
from ostinato.judge.frontier import Frontier, frontier
from ostinato.judge.interactions import Interaction, all_settings, changes, interaction, quadruples
from ostinato.judge.measurements import StudyMeasurements
from ostinato.judge.parts import Division, PartsOfAGain, divisions, parts_of_gain
from ostinato.judge.rates import Rate, rate, steps
from ostinato.judge.shares import Share, is_control, largest_control, share
from ostinato.judge.value import Value
from ostinato.ledger import Ledger
from ostinato.store import Store
from ostinato.study import arm_applications
from ostinato.study.pairs import bases
from ostinato.study.records import Arm, Study

FLOPS, PARAMETERS, SECONDS = "training FLOPs", "parameters", "seconds of training"


@dataclass(frozen=True)
class ArmShare:
    """One arm's share of the gain of the whole, and its training FLOPs as a multiple of those of the whole."""

    arm: str
    share: Share
    flops: float


@dataclass(frozen=True)
class Accounts:
    """whole: the arm whose gain is shared out, the largest control, None where the study has none. missing: arms without a finished run."""

    reference: str
    unit: str
    whole: str | None
    shares: tuple[ArmShare, ...]
    parts: tuple[PartsOfAGain, ...]
    rates: tuple[Rate, ...]
    frontiers: tuple[Frontier, ...]
    interactions: tuple[Interaction, ...]
    missing: tuple[str, ...] = ()

    def record(self) -> dict[str, Any]:
        """As JSON types."""
        return {
            "reference": self.reference, "unit": self.unit, "whole": self.whole, "missing": list(self.missing),
            "shares": [{"arm": one.arm, "flops": one.flops, **one.share.record()} for one in self.shares],
            "parts": [one.record() for one in self.parts],
            "rates": [one.record() for one in self.rates],
            "frontiers": {one.axis: [place.record() for place in one.places] for one in self.frontiers},
            "interactions": [one.record() for one in self.interactions],
        }  # fmt: skip


def accounts(study: Study, store: Store, results: Sequence[ArmResult]) -> Accounts | None:
    """None before the reference and another arm are finished. Raises StoreError when a stored file is torn.

    With several tokenizers everything is in bits a byte, else in nats a token.
    """
    measured = StudyMeasurements(study, store, results)
    unit = BITS if len({arm.data.tokenizer for arm in study.arms}) > 1 else NATS
    options = (("unit", "bits"),) if unit == BITS else ()

    def read(arm: str, seed: int) -> Value:
        return measured.value(Measure("loss", arm, (("seed", str(seed)), *options)))

    contrast = OfRuns({one.name: one for one in results}, read, unit)
    finished = {one.name: one for one in results if _estimable(lambda one=one: contrast({one.name: 1.0}))}
    if study.reference not in finished or len(finished) < 2:
        return None
    arms, ledgers = [one.arm for one in finished.values()], [one.ledger for one in finished.values()]
    (base,) = (ledger for ledger in ledgers if ledger.name == study.reference)
    controls = [base.name, *(ledger.name for ledger in ledgers if is_control(ledger, base))]
    whole = largest_control(ledgers, study.reference)
    around = dict.fromkeys([study.reference, *bases(study).values()])
    tables = quadruples(arms, [name for name in around if name in finished])
    return Accounts(
        reference=study.reference,
        unit=unit,
        whole=whole,
        shares=tuple(_shares(contrast, ledgers, base, whole) if whole else ()),
        parts=tuple(_each(lambda one: parts_of_gain(contrast, one), all_divisions(arms))),
        rates=tuple(_each(lambda one: rate(contrast, one), steps(ledgers, study.reference, controls))),
        frontiers=tuple(_frontiers(contrast, list(finished.values()))),
        interactions=tuple(_each(lambda one: interaction(contrast, one), tables)),
        missing=tuple(one.name for one in results if one.name not in finished and not one.arm.contingent),
    )


def all_divisions(arms: Sequence[Arm]) -> list[Division]:
    """The parts of every arm that differs from a plain one in its schedule alone."""
    known = {arm.name: all_settings(arm) for arm in arms}
    bags = {arm.name: _bag(arm) for arm in arms}
    found = []
    for base, once in bags.items():
        if max(once.values()) == 1:
            alike = [arm for arm, more in bags.items() if once < more and set(changes(known[arm], known[base])) == {"schedule"}]
            found += divisions({arm: bags[arm] - once for arm in alike}, base)
    return found


def _bag(arm: Arm) -> Counter:
    """How often each sublayer runs, as (layer, "attn" or "mlp")."""
    return Counter((one.layer, part) for one in arm_applications(arm.model) for part in one.sublayers)


def _shares(contrast: Contrast, ledgers: Sequence[Ledger], base: Ledger, whole: str) -> list[ArmShare]:
    """Of every other arm that is trained on as many tokens, the largest gain first."""
    (larger,) = (ledger for ledger in ledgers if ledger.name == whole)
    others = [ledger for ledger in ledgers if ledger.name not in (base.name, whole) and ledger.tokens == base.tokens]

    def one(ledger: Ledger) -> ArmShare:
        found = share(gain(contrast, ledger.name, base.name), gain(contrast, whole, base.name))
        return ArmShare(ledger.name, found, ledger.flops_total / larger.flops_total)

    return sorted(_each(one, others), key=lambda found: -found.share.top.point)


def _frontiers(contrast: Contrast, finished: Sequence[ArmResult]) -> list[Frontier]:
    """Of each cost that is known of at least two arms."""
    costs = {
        FLOPS: {one.name: one.ledger.flops_total for one in finished},
        PARAMETERS: {one.name: float(one.ledger.params_total) for one in finished},
        SECONDS: {one.name: one.seconds for one in finished if one.seconds},
    }
    return [frontier(axis, cost, contrast) for axis, cost in costs.items() if len(cost) > 1]


T, Made = TypeVar("T"), TypeVar("Made")


def _each(make: Callable[[T], Made], things: Iterable[T]) -> list[Made]:
    """What can be estimated of them."""
    return [found for thing in things if (found := _estimable(lambda thing=thing: make(thing))) is not None]


def _estimable(make: Callable[[], Made]) -> Made | None:
    try:
        return make()
    except NotEstimable:
        return None
