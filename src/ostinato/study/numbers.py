"""Numbers as people write them: 500k, 8Ki, 1e-3, 3e4, 0.5B, 012, 1_000. Every scalar of a study file arrives as text."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Annotated, Any

from pydantic import BeforeValidator

_NUMBER = re.compile(r"([+-]?)((?:\d[\d_]*)?\.?\d*(?:[eE][+-]?\d+)?)\s*(k|K|M|G|B|T|Ki|Mi|Gi)?")
_SCALE = {None: 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "B": 10**9, "T": 10**12,
          "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}  # fmt: skip
_SWITCH = {"yes": True, "true": True, "on": True, "no": False, "false": False, "off": False}


def decimal(value: Any) -> Decimal:
    """The exact number that a text or a number stands for. Raises ValueError with the rule when there is none."""
    if isinstance(value, bool) or value is None:
        raise ValueError(f"{value!r} is not a number")
    text = str(value).strip()
    match = _NUMBER.fullmatch(text)
    if not match or not re.search(r"\d", match[2]):
        raise ValueError(f"{text!r} is not a number (write 500000, 500k, 0.5M, 1e-3 or 8Ki)")
    return Decimal(match[1] + match[2].replace("_", "")) * _SCALE[match[3]]


def count(value: Any) -> int:
    """A whole number: tokens, layers, steps."""
    number = decimal(value)
    if number != number.to_integral_value():
        raise ValueError(f"{value!r} is not a whole number")
    return int(number)


def switch(value: Any) -> Any:
    """yes/no, true/false, on/off; anything else is left for the type to refuse."""
    return _SWITCH.get(value.strip().lower(), value) if isinstance(value, str) else value


Count = Annotated[int, BeforeValidator(count)]
Real = Annotated[float, BeforeValidator(lambda value: float(decimal(value)))]
Switch = Annotated[bool, BeforeValidator(switch)]
