"""Which figures the page of a study has, and with what numbers: every one that there are numbers for."""

from __future__ import annotations

from collections.abc import Sequence

from ostinato.analysis import BITS, NATS, ArmResult
from ostinato.ledger.compare import ABOUT
from ostinato.ledger.plan import Plan
from ostinato.report import courses as course
from ostinato.report import figures, gain_figures, numbers
from ostinato.report.looks import COLOURS, Look, looks
from ostinato.report.results import floors_of
from ostinato.report.units import WORDS, factor, only_base, unit_of
from ostinato.study.records import Arm, Study

TOKENS, FLOPS = "training tokens", "training FLOPs"
HEADROOM = {NATS: 2.0, BITS: 1.0}  # above the lowest loss; a curve that comes from higher up is cut there
MOST_MARKS = 4
SEVERAL = "the other arm"  # that each arm is compared with


def panels(study: Study, results: Sequence[ArmResult], found: Sequence[course.Course], plan: Plan) -> dict[str, str]:
    """Inline SVG by name: forest, cost, gain, tokens, flops, training; "" where nothing is measured yet."""
    unit, base = unit_of(study), only_base(results)
    drawn, over, said_unit = arm_looks(study, results), base or SEVERAL, WORDS[unit]
    loss = f"validation loss, {said_unit}"
    gains = gains_of(results, drawn, unit)
    floors = tuple((name.removesuffix(" model"), value) for name, value in _floors(results, unit))
    validation = course.validation_curves(found, drawn, unit)
    flops = course.validation_curves(found, drawn, unit, {ledger.name: ledger.flops_per_token for ledger in plan.ledgers})
    gained = course.gain_curves(results, drawn, unit)
    tokens = {arm.name for arm in study.arms if arm.data.tokenizer == _reference(study).data.tokenizer}
    training = course.training_curves([one for one in found if one.arm in tokens], drawn)
    top, above = _top(validation, unit), _top(validation if unit == NATS else training, NATS)
    ends = "At the last point: " + "; ".join(f"{line.arm} {numbers.fixed(line.mean[-1][1])}" for line in validation)
    said = "; ".join(f"{one.title} {numbers.signed(one.gain)}" for one in gains)
    costs = "; ".join(f"{one.title} {numbers.signed(one.gain)} at {numbers.times(one.cost)}" for one in gains)
    title = f"Gain of every arm over {over}"
    noise = course.reference_noise(found, study.reference, unit) if base else None
    return {
        "forest": gain_figures.forest("f-forest", title, said, gains, reference=over, unit=said_unit, noise=noise),
        "cost": gain_figures.against_cost("f-cost", f"Gain against {FLOPS}", costs, gains, reference=over, unit=said_unit),
        "gain": figures.curves(
            "f-gain", f"Gain over {over} during training", "One line an arm; above zero is better.",
            gained, x_label=TOKENS, y_label=f"gain, {said_unit}", zero=over, marks=first_passes(plan, [line.arm for line in gained]),
        ),
        "tokens": figures.curves(
            "f-tokens", f"Validation loss against {TOKENS}", ends, validation,
            x_label=TOKENS, y_label=loss, floors=floors, marks=first_passes(plan, [line.arm for line in validation]), top=top,
        ),
        "flops": figures.curves(
            "f-flops", f"Validation loss against {FLOPS}", ends, flops, x_label=FLOPS, y_label=loss, floors=floors, log_x=True, top=top
        ),
        "training": figures.curves(
            "f-training", f"Training loss against {TOKENS}", "The mean over seeds.", training,
            x_label=TOKENS, y_label=f"training loss, {WORDS[NATS]}", marks=first_passes(plan, [line.arm for line in training]),
            top=above and above + 0.5, markers=False,
        ),
    }  # fmt: skip


def _reference(study: Study) -> Arm:
    return next(arm for arm in study.arms if arm.name == study.reference)


def _floors(results: Sequence[ArmResult], unit: str) -> list[tuple[str, float]]:
    """Every different floor in `unit`."""
    found = []
    for name, nats, arms in floors_of(results):
        times = 1.0 if unit == NATS else factor(arms[0], unit)
        if times is not None:
            found.append((name, nats * times))
    return found


def ranked(results: Sequence[ArmResult]) -> list[ArmResult]:
    """The arms that have a gain, the largest first."""
    return sorted((one for one in results if one.seeds and one.seeds.mean is not None), key=lambda one: -one.seeds.mean)


def arm_looks(study: Study, results: Sequence[ArmResult]) -> dict[str, Look]:
    """Every arm's look; with more arms than there are colours, the reference and the arms of the largest gain are told apart."""
    names = [arm.name for arm in study.arms]
    best = [one.name for one in ranked(results)]
    return looks(names, study.reference, best if best and len(names) - 1 > COLOURS else None)


def gains_of(results: Sequence[ArmResult], drawn: dict[str, Look], unit: str) -> list[gain_figures.Gain]:
    """What the forest and the cost figure show of each arm, in `unit`."""
    by_name, base = {one.name: one for one in results}, only_base(results)
    gains = []
    for one in ranked(results):
        interval, times = one.pairing.interval if one.pairing else None, factor(one, unit)
        if times is None:
            continue
        gains.append(
            gain_figures.Gain(
                arm=one.name,
                look=drawn[one.name],
                gain=one.seeds.mean * times,
                low=interval.low * times if interval else None,
                high=interval.high * times if interval else None,
                seeds=tuple(gain * times for gain in one.seeds.gains.values()),
                cost=one.cost_ratios["flops_total"],
                same_parameters=abs(one.ledger.params_total / by_name[one.against].ledger.params_total - 1) < ABOUT,
                against="" if base else one.against,
            )
        )
    return gains


def _top(validation: Sequence[figures.Curve], unit: str) -> float | None:
    """Where the axis of losses is cut: above where the curves begin, unless they begin far above where they end."""
    if not validation:
        return None
    lowest, room = min(y for line in validation for _, y in line.mean), HEADROOM[unit]
    return max([lowest + room / 4, *(min(line.mean[0][1], lowest + room) for line in validation)]) + 0.05


def first_passes(plan: Plan, arms: Sequence[str]) -> tuple[tuple[str, float], ...]:
    """Where the first pass over the text ends in these arms, each different end with the arms that it is of."""
    ends: dict[int, list[str]] = {}
    for ledger in plan.ledgers:
        if ledger.name in arms and ledger.first_pass_ends is not None:
            ends.setdefault(ledger.first_pass_ends, []).append(ledger.name)
    if len(ends) == 1 and sum(map(len, ends.values())) == len(arms):
        return (("first pass ends", float(next(iter(ends)))),)
    named = {end: f"first pass of {numbers.listed(names, 2)}" if len(ends) <= MOST_MARKS else "" for end, names in ends.items()}
    return tuple((label, float(end)) for end, label in sorted(named.items()))
