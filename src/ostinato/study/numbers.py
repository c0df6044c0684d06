"""The scalars of a study file, which arrive as text, as types of its records: numbers as `claims.numbers` reads them, yes and no."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator

from ostinato.claims.numbers import LARGEST, LONGEST, count, decimal, real

__all__ = ["LARGEST", "Count", "Real", "Switch", "count", "decimal", "real", "switch"]

_SWITCH = {"yes": True, "true": True, "on": True, "no": False, "false": False, "off": False}


def switch(value: Any) -> bool:
    """yes/no, true/false, on/off. Raises ValueError for anything else."""
    if isinstance(value, bool):
        return value
    try:
        return _SWITCH[str(value).strip().lower()]
    except KeyError:
        raise ValueError(f"{str(value)[:LONGEST]!r} is neither yes nor no") from None


Count = Annotated[int, BeforeValidator(count)]
Real = Annotated[float, BeforeValidator(real)]
Switch = Annotated[bool, BeforeValidator(switch)]
