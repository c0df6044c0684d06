"""Laying one set of keys over another, at every depth. Some keys exclude each other: naming one puts away the other."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

EXCLUSIVE = (frozenset({"hidden", "ratio"}), frozenset({"bpe", "file"}), frozenset({"uniform", "poisson"}))


def _keys(value: Any) -> Any:
    return value.model_dump(exclude_unset=True) if isinstance(value, BaseModel) else value


def merge(lower: dict[str, Any], upper: dict[str, Any]) -> dict[str, Any]:
    """A new mapping with the keys of both; where both have one, mappings are merged and anything else is `upper`'s.

    A key of `lower` whose rival (hidden against ratio, bpe against file) has a value in `upper` is left out.
    """
    named = {key for key, value in upper.items() if value is not None}
    put_away = {key for pair in EXCLUSIVE for key in pair if (pair - {key}) & named}
    merged = {key: value for key, value in lower.items() if key not in put_away or key in upper}
    for key, value in upper.items():
        below, above = merged.get(key), _keys(value)
        merged[key] = merge(below, above) if isinstance(below, dict) and isinstance(above, dict) else above
    return merged


def without_nulls(value: Any) -> Any:
    """The same keys without those set to null: a null puts a key back to its default."""
    if not isinstance(value, dict):
        return value
    return {key: without_nulls(item) for key, item in value.items() if item is not None}
