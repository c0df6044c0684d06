"""Numbers as readers see them: the same rounding in the page, the terminal and the notebook.

Losses and gains in nats carry four decimals (a gain its sign), counts three or four significant digits with k, M, G, T;
wherever a rounded number stands, the exact one is beside it (a title in HTML, a field in JSON).
"""

from __future__ import annotations

from collections.abc import Sequence

from ostinato.study.counted import several as several

MINUS = "\N{MINUS SIGN}"
NONE = "\N{EN DASH}"
_COUNT = (("", 1.0), ("k", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12), ("P", 1e15), ("E", 1e18))
_BYTES = (("B", 1.0), ("KiB", 2.0**10), ("MiB", 2.0**20), ("GiB", 2.0**30), ("TiB", 2.0**40))


def fixed(value: float | None, digits: int = 4) -> str:
    """A plain decimal, as 3.5620; an en dash when there is none."""
    return NONE if value is None else f"{value:.{digits}f}".replace("-", MINUS)


def signed(value: float | None, digits: int = 4) -> str:
    """A difference with its sign, as +0.0500; zero after rounding has no sign."""
    if value is None:
        return NONE
    text = f"{value:+.{digits}f}"
    return (text[1:] if float(text) == 0 else text).replace("-", MINUS)


def interval(low: float, high: float, digits: int = 4) -> str:
    """An interval of a difference, as +0.0300 to +0.0700: with more digits where rounding would move an end that is not zero onto it."""
    most = digits + 8
    while digits < most and any(end and float(f"{end:.{digits}f}") == 0 for end in (low, high)):
        digits += 1
    return f"{signed(low, digits)} to {signed(high, digits)}"


def _scaled(value: float, scale: tuple[tuple[str, float], ...], gap: str) -> str:
    size = abs(value)
    for index, (unit, factor) in enumerate(scale):
        number = size / factor
        digits = 0 if number >= 99.95 else 1 if number >= 9.995 else 2
        last = index == len(scale) - 1
        if round(number, digits) < (1024 if scale is _BYTES else 1000) or last:
            text = f"{number:.0f}" if unit in ("", "B") and float(size).is_integer() else f"{number:.{digits}f}"
            return (MINUS if value < 0 else "") + text + (gap + unit if unit else "")
    raise AssertionError("the last unit takes everything")


def human(value: float | None) -> str:
    """A count in three significant digits, as 1.18M; whole numbers below 1000 as they are."""
    return NONE if value is None else _scaled(value, _COUNT, "")


def tick(value: float) -> str:
    """A round value on an axis, without trailing zeros: 20k, 1.5M; from 1e9 on as 2e10."""
    if abs(value) >= 1e9:
        mantissa, exponent = f"{value:.2e}".split("e")
        return f"{float(mantissa):g}e{int(exponent)}"
    unit, factor = next((unit, factor) for unit, factor in reversed(_COUNT) if abs(value) >= factor or factor == 1.0)
    return f"{value / factor:.4g}{unit}".replace("-", MINUS)


def exact(value: float | None) -> str:
    """Every digit, grouped by thousands: 1,180,800."""
    if value is None:
        return NONE
    return (f"{value:,}" if float(value).is_integer() is False else f"{int(value):,}").replace("-", MINUS)


def size(value: float | None) -> str:
    """Bytes in binary units, as 5.50 GiB."""
    return NONE if value is None else _scaled(value, _BYTES, " ")


def power(value: float | None) -> str:
    """A large total in scientific form, as 1.08e17."""
    if value is None:
        return NONE
    if value == 0:
        return "0"
    mantissa, exponent = f"{value:.2e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def percent(share: float | None, digits: int | None = None) -> str:
    """A share with so many decimals, as 50.0%; None: as 50%, below one per cent as 0.4%. A true minus; an en dash when there is none."""
    if share is None:
        return NONE
    digits = digits if digits is not None else 0 if share == 0 or abs(share) >= 0.00995 else 1
    text = f"{100 * share:.{digits}f}"
    return f"{abs(float(text)):.{digits}f}%" if float(text) == 0 else f"{text}%".replace("-", MINUS)


def depth(value: float | None) -> str:
    """A depth in whole layers with halves only where they occur: 8, 12.5."""
    return NONE if value is None else f"{value:g}"


def times(value: float | None) -> str:
    """A ratio, as 1.88×; exactly one as 1×."""
    if value is None:
        return NONE
    return f"{1 if value == 1 else format(value, '.2f')}×"


def duration(seconds: float | None) -> str:
    """Wall time in the two largest units: 44 s, 3 min 20 s, 2 h 5 min."""
    if seconds is None:
        return NONE
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min" + (f" {whole % 60} s" if whole % 60 else "")
    return f"{whole // 3600} h" + (f" {whole % 3600 // 60} min" if whole % 3600 // 60 else "")


def listed(words: Sequence[str], most: int = 8) -> str:
    """a; a and b; a, b and c; of more than `most` words the last ones are counted: a, b and 7 more."""
    words = list(words) if len(words) <= most else [*words[: most - 1], f"{len(words) - most + 1} more"]
    return " and ".join(part for part in (", ".join(words[:-1]), *words[-1:]) if part)
