"""A gain in words, so that no reader has to remember which sign is good: better by, worse by, about zero, not estimable."""

from __future__ import annotations

from ostinato.analysis.intervals import Interval

NOT_ESTIMABLE = "not estimable"
NATS, BITS = "nats/token", "bits/byte"
"""The units of a gain: nats a token where two arms score the same targets, bits a byte of whole documents where tokenizers differ."""

SAID = {NATS: "nats", BITS: "bits a byte"}


def gain_in_words(gain: float | None, interval: Interval | None = None, noise: float = 0.0, unit: str = NATS) -> str:
    """gain, noise: in `unit`. "About zero" when the interval holds 0 or the gain is no larger than `noise`."""
    if gain is None:
        return NOT_ESTIMABLE
    shown = f"{abs(gain):.3f} {SAID[unit]}"
    if gain == 0 or abs(gain) <= noise or (interval is not None and interval.holds(0.0)):
        return f"about zero ({signed(gain)} {SAID[unit]})"
    return f"better by {shown}" if gain > 0 else f"worse by {shown}"


def signed(value: float, digits: int = 3) -> str:
    """+0.050, −0.031 (with a minus sign of the width of the plus)."""
    return f"{value:+.{digits}f}".replace("-", "−")


def range_in_words(interval: Interval | None) -> str:
    """ "+0.031 to +0.044", or not estimable."""
    return NOT_ESTIMABLE if interval is None else f"{signed(interval.low)} to {signed(interval.high)}"
