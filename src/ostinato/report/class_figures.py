"""Figures of gains by class: a bar an arm in every class, and how the classes of R add up to the gain over all targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ostinato.analysis.classes import ALL, ArmClasses, ClassGain
from ostinato.analysis.members import FAMILIES
from ostinato.report import numbers
from ostinato.report.figures import WIDTH, short
from ostinato.report.looks import Look
from ostinato.report.svg import Canvas, Scale, decimals, padded, ticks

DRAWN = ("new", "tok-repeat", "bigram-repeat", "k = 1", "k ≥ 2", ALL)
_LEFT, _RIGHT, _ROW, _HEAD, _TOP = 118.0, 64.0, 17.0, 26.0, 8.0


def gain_bars(name: str, found: Sequence[ArmClasses], looks: Mapping[str, Look]) -> str:
    """A bar an arm in each of the classes that are drawn, with its interval; "" when there is nothing to draw."""
    every = [(label, [(arm, part) for arm in found for part in arm.all if part.name == label and part.gain is not None]) for label in DRAWN]
    groups = [(label, bars) for label, bars in every if bars]
    if not groups:
        return ""
    values = [value for _, bars in groups for _, part in bars for value in _ends(part)]
    canvas, x = _frame(values, sum(_HEAD + _ROW * len(bars) for _, bars in groups), "gain within the class, nats a token")
    y = _TOP
    for label, bars in groups:
        share = "" if label == ALL else f", {numbers.percent(bars[0][1].share_of_targets)} of the targets"
        canvas.text(0, y + 17, label + share, "t tag")
        y += _HEAD
        for arm, part in bars:
            low, high = sorted((x(0), x(part.gain)))
            span = f" [{numbers.interval(part.interval.low, part.interval.high)}]" if part.interval else ""
            said = f"{arm.arm}, {label}: {numbers.signed(part.gain)}{span}"
            canvas.text(8, y + 10, short(arm.arm, 16), f"t f{looks[arm.arm].colour}")
            canvas.rect(low, y + 2, max(high - low, 0.6), _ROW - 6, f"f{looks[arm.arm].colour}", said)
            if part.interval:
                middle = y + _ROW / 2 - 1
                canvas.line(x(part.interval.low), middle, x(part.interval.high), middle, "zero")
                for end in (part.interval.low, part.interval.high):
                    canvas.line(x(end), middle - 3, x(end), middle + 3, "zero")
            canvas.text(WIDTH, y + 10, numbers.signed(part.gain), "t num", "end")
            y += _ROW
    said = "; ".join(f"{label}: " + ", ".join(f"{arm.arm} {numbers.signed(part.gain)}" for arm, part in bars) for label, bars in groups)
    return canvas.render(name, "Gain by class of targets", said)


def share_bars(name: str, found: Sequence[ArmClasses], looks: Mapping[str, Look]) -> str:
    """Of every arm, a bar a class of R from where the one before ends, so that they lead to its whole gain; "" without any arm."""
    order = [one.name for one in FAMILIES["R"].classes]
    listed = [(arm, [part for label in order for part in arm.classes if part.name == label]) for arm in found]
    if not listed:
        return ""
    sums = [sum(part.contribution for part in parts[:index]) for _, parts in listed for index in range(len(parts) + 1)]
    canvas, x = _frame(sums, sum(_HEAD + _ROW * len(parts) for _, parts in listed), "added to the whole gain, nats a token")
    y = _TOP
    for arm, parts in listed:
        look, whole = looks[arm.arm], arm.whole
        canvas.text(0, y + 17, f"{short(arm.arm, 24)} over {short(arm.against, 24)}", f"t tag f{look.colour}")
        y, before = y + _HEAD, 0.0
        for part in parts:
            after = before + part.contribution
            low, high = sorted((x(before), x(after)))
            said = f"{arm.arm}, {part.name}: {numbers.signed(part.contribution)} of {numbers.signed(whole.gain)}"
            canvas.text(8, y + 10, part.name, "t small")
            canvas.rect(low, y + 2, max(high - low, 0.6), _ROW - 6, f"f{look.colour}", said)
            canvas.line(x(after), y + 2, x(after), y + _ROW + 2, "leader")
            canvas.text(WIDTH, y + 10, numbers.percent(part.share_of_gain), "t num", "end")
            y, before = y + _ROW, after
        canvas.marker(look.marker, x(before), y - _ROW / 2 - 1, 4, look.dot, f"{arm.arm}: {numbers.signed(whole.gain)} over all targets")
    said = "; ".join(f"{arm.arm}: " + ", ".join(f"{part.name} {numbers.percent(part.share_of_gain)}" for part in parts)
                     for arm, parts in listed)  # fmt: skip
    return canvas.render(name, "What each class adds to the gain", said)


def _ends(part: ClassGain) -> list[float]:
    return [0.0, part.gain or 0.0, *([part.interval.low, part.interval.high] if part.interval else [])]


def _frame(values: Sequence[float], height: float, label: str) -> tuple[Canvas, Scale]:
    """A canvas with a grid of values and a line at zero, and its scale."""
    low, high = padded(list(values), 0.04, 0.0005)
    x, floor = Scale(low, high, _LEFT, WIDTH - _RIGHT), _TOP + height
    canvas = Canvas(WIDTH, floor + 46)
    shown = ticks(low, high, 5)
    for value in shown:
        canvas.line(x(value), _TOP, x(value), floor, "grid")
        canvas.text(x(value), floor + 18, numbers.signed(value, decimals(shown)), "t num", "middle")
    canvas.text((_LEFT + WIDTH - _RIGHT) / 2, floor + 38, label, "t axis-name", "middle")
    canvas.line(x(0), _TOP, x(0), floor, "zero")
    return canvas, x
