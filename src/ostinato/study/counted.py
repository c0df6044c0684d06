"""Numbers with their nouns, for every room that says them."""

from __future__ import annotations


def several(number: int, one: str, many: str | None = None) -> str:
    """A number with its noun: 1 run, 2 runs."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
