"""Numbers as people write them: 500k, 8Ki, 1e-3, 3e4, 0.5B, 012, 1_000; in predictions also 43%. Study files read theirs through here.

YAML's own reading is not used: there 012 is ten, 1:30 is ninety, and 1e-3 is a word.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Any

LARGEST = 2**63 - 1
LONGEST = 60
_DIGITS = r"\d+(?:_\d+)*"
_NUMBER = re.compile(rf"([+-]?)((?:{_DIGITS})?(?:\.(?:{_DIGITS})?)?(?:[eE][+-]?\d{{1,4}})?)\s*(k|K|M|G|B|T|Ki|Mi|Gi)?", re.ASCII)
_SCALE = {None: 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "B": 10**9, "T": 10**12,
          "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}  # fmt: skip


def decimal(value: Any) -> Decimal:
    """The exact number that a text or a number stands for. Raises ValueError with the rule when there is none."""
    if isinstance(value, bool) or value is None:
        raise ValueError(f"{value!r} is not a number")
    text = str(value).strip()
    match = _NUMBER.fullmatch(text) if len(text) <= LONGEST else None
    if not match or not re.match(r"\.?\d", match[2]):
        raise ValueError(f"{text[:LONGEST]!r} is not a number (write 500000, 500k, 0.5M, 1e-3 or 8Ki)")
    return Decimal(match[1] + match[2].replace("_", "")) * _SCALE[match[3]]


def count(value: Any) -> int:
    """A whole number that fits 64 bits: tokens, layers, steps. Raises ValueError."""
    number = decimal(value)
    if number != number.to_integral_value():
        raise ValueError(f"{str(value).strip()!r} is not a whole number")
    if (number and number.adjusted() > 18) or abs(int(number)) > LARGEST:
        raise ValueError(f"{str(value).strip()!r} is larger than any count here ({LARGEST:,})")
    return int(number)


def real(value: Any) -> float:
    """A finite number. Raises ValueError, also for one so large or so close to zero that no float holds it."""
    number = decimal(value)
    result = float(number)
    if not math.isfinite(result) or (number and not result):
        raise ValueError(f"{str(value).strip()!r} is outside what a float can hold")
    return result


def real_or_percent(text: str) -> float:
    """As `real`; 43% is 0.43. Raises ValueError."""
    if not text.endswith("%"):
        return real(text)
    number = float(decimal(text[:-1]) / 100)
    if not math.isfinite(number):
        raise ValueError(f"{text!r} is outside what a float can hold")
    return number


def written(value: float) -> str:
    """The shortest text that reads as the same float: 0.003, 100000, 1e-05."""
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))
