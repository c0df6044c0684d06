"""Numbers as people write them: 500k, 8Ki, 1e-3, 3e4, 0.5B, 012, 1_000. Every scalar of a study file arrives as text.

YAML's own reading is not used: there 012 is ten, 1:30 is ninety, 1e-3 is a word and no is false.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Annotated, Any

from pydantic import BeforeValidator

LARGEST = 2**63 - 1
_DIGITS = r"\d+(?:_\d+)*"
_NUMBER = re.compile(rf"([+-]?)((?:{_DIGITS})?(?:\.(?:{_DIGITS})?)?(?:[eE][+-]?\d{{1,4}})?)\s*(k|K|M|G|B|T|Ki|Mi|Gi)?", re.ASCII)
_SCALE = {None: 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "B": 10**9, "T": 10**12,
          "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}  # fmt: skip
_SWITCH = {"yes": True, "true": True, "on": True, "no": False, "false": False, "off": False}
_LONGEST = 60


def decimal(value: Any) -> Decimal:
    """The exact number that a text or a number stands for. Raises ValueError with the rule when there is none."""
    if isinstance(value, bool) or value is None:
        raise ValueError(f"{value!r} is not a number")
    text = str(value).strip()
    match = _NUMBER.fullmatch(text) if len(text) <= _LONGEST else None
    if not match or not re.match(r"\.?\d", match[2]):
        raise ValueError(f"{text[:_LONGEST]!r} is not a number (write 500000, 500k, 0.5M, 1e-3 or 8Ki)")
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


def switch(value: Any) -> bool:
    """yes/no, true/false, on/off. Raises ValueError for anything else."""
    if isinstance(value, bool):
        return value
    try:
        return _SWITCH[str(value).strip().lower()]
    except KeyError:
        raise ValueError(f"{str(value)[:_LONGEST]!r} is neither yes nor no") from None


Count = Annotated[int, BeforeValidator(count)]
Real = Annotated[float, BeforeValidator(real)]
Switch = Annotated[bool, BeforeValidator(switch)]
