"""Which figures the page of a study has, and with what numbers: every one that there are numbers for."""

from __future__ import annotations

from collections.abc import Sequence

from ostinato.analysis import ArmResult
from ostinato.ledger.compare import ABOUT
from ostinato.ledger.plan import Plan
from ostinato.report import courses as course
from ostinato.report import figures, gain_figures, numbers
from ostinato.report.looks import COLOURS, Look, looks
from ostinato.report.results import floors_of
from ostinato.study.records import Study

UNIT = "nats a token"
TOKENS, FLOPS, LOSS = "training tokens", "training FLOPs", f"validation loss, {UNIT}"
HEADROOM = 2.0  # nats above the lowest loss; a curve that comes from higher up is cut there


def panels(study: Study, results: Sequence[ArmResult], found: Sequence[course.Course], plan: Plan) -> dict[str, str]:
    """Inline SVG by name: forest, cost, gain, tokens, flops, training; "" where nothing is measured yet."""
    reference = study.reference
    drawn = arm_looks(study, results)
    gains = gains_of(results, drawn)
    floors = tuple((name.removesuffix(" model"), nats) for name, nats, _ in floors_of(results))
    marks = _first_pass(plan)
    validation = course.validation_curves(found, drawn)
    flops = course.validation_curves(found, drawn, {ledger.name: ledger.flops_per_token for ledger in plan.ledgers})
    top = _top(validation)
    ends = "At the last point: " + "; ".join(f"{line.arm} {numbers.fixed(line.mean[-1][1])}" for line in validation)
    said = "; ".join(f"{one.arm} {numbers.signed(one.gain)}" for one in gains)
    costs = "; ".join(f"{one.arm} {numbers.signed(one.gain)} at {numbers.times(one.cost)}" for one in gains)
    title = f"Gain of every arm over {reference}"
    noise = course.reference_noise(found, reference)
    return {
        "forest": gain_figures.forest("f-forest", title, said, gains, reference=reference, unit=UNIT, noise=noise),
        "cost": gain_figures.against_cost("f-cost", f"Gain against {FLOPS}", costs, gains, reference=reference, unit=UNIT),
        "gain": figures.curves(
            "f-gain", f"Gain over {reference} during training", "One line an arm; above zero is better.",
            course.gain_curves(found, reference, drawn), x_label=TOKENS, y_label=f"gain, {UNIT}", zero=reference, marks=marks,
        ),
        "tokens": figures.curves(
            "f-tokens", f"Validation loss against {TOKENS}", ends, validation,
            x_label=TOKENS, y_label=LOSS, floors=floors, marks=marks, top=top,
        ),
        "flops": figures.curves(
            "f-flops", f"Validation loss against {FLOPS}", ends, flops, x_label=FLOPS, y_label=LOSS, floors=floors, log_x=True, top=top
        ),
        "training": figures.curves(
            "f-training", f"Training loss against {TOKENS}", "The mean over seeds.", course.training_curves(found, drawn),
            x_label=TOKENS, y_label=f"training loss, {UNIT}", marks=marks, top=top and top + 0.5, markers=False,
        ),
    }  # fmt: skip


def ranked(results: Sequence[ArmResult]) -> list[ArmResult]:
    """The arms that have a gain, the largest first."""
    return sorted((one for one in results if one.seeds and one.seeds.mean is not None), key=lambda one: -one.seeds.mean)


def arm_looks(study: Study, results: Sequence[ArmResult]) -> dict[str, Look]:
    """Every arm's look; with more arms than there are colours, the reference and the arms of the largest gain are told apart."""
    names = [arm.name for arm in study.arms]
    best = [one.name for one in ranked(results)]
    return looks(names, study.reference, best if best and len(names) - 1 > COLOURS else None)


def gains_of(results: Sequence[ArmResult], drawn: dict[str, Look]) -> list[gain_figures.Gain]:
    """What the forest and the cost figure show of each arm."""
    base = next(one.ledger for one in results if one.reference)
    gains = []
    for one in ranked(results):
        interval = one.pairing.interval if one.pairing else None
        gains.append(
            gain_figures.Gain(
                arm=one.name,
                look=drawn[one.name],
                gain=one.seeds.mean,
                low=interval.low if interval else None,
                high=interval.high if interval else None,
                seeds=tuple(one.seeds.gains.values()),
                cost=one.ledger.flops_total / base.flops_total,
                same_parameters=abs(one.ledger.params_total / base.params_total - 1) < ABOUT,
            )
        )
    return gains


def _top(validation: Sequence[figures.Curve]) -> float | None:
    """Where the axis of losses is cut: above where the curves begin, unless they begin far above where they end."""
    if not validation:
        return None
    lowest = min(y for line in validation for _, y in line.mean)
    return max([lowest + 0.5, *(min(line.mean[0][1], lowest + HEADROOM) for line in validation)]) + 0.05


def _first_pass(plan: Plan) -> tuple[tuple[str, float], ...]:
    """Where the first pass over the text ends, when that is known and the same for every arm."""
    ends = {ledger.first_pass_ends for ledger in plan.ledgers}
    end = ends.pop()
    return (("first pass ends", float(end)),) if end is not None and not ends else ()
