"""What a run remembers of how its first session computed, and whether a value can be one of these."""

from __future__ import annotations

from typing import Any

SESSION = ("device", "threads", "compiled", "rows_at_once")


def possible(name: str, value: Any) -> bool:
    """Whether a session can have computed so.  rows_at_once: what `train.rows.Rows` records, or a checkpoint's number."""
    if name in ("device", "compiled"):
        return isinstance(value, str if name == "device" else bool)
    if name == "threads" or not isinstance(value, dict):
        return _count(value)
    asked, places = value.get("asked", 0), value.get("at")
    if not (asked is None or _count(asked)) or not isinstance(places, list) or not places:
        return False
    pairs = all(isinstance(place, list) and len(place) == 2 and _count(place[0], 0) and _count(place[1]) for place in places)
    return pairs and places[0][0] == 0


def _count(value: Any, least: int = 1) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
