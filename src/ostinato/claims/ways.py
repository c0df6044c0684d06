"""What an expression is in, and which way it is better: read off the measures in it, so that mistakes show before anything is run."""

from __future__ import annotations

from ostinato.claims import terms as t
from ostinato.claims.measures import MEASURES, unit_of

UNKNOWN = 0


def unit(node: t.Expression) -> str | None:
    """In words; None for a bare number, and where it is not known (a product of two units, a share)."""
    match node:
        case t.Measure():
            return unit_of(node.name, node.option("unit"))
        case t.Negative():
            return unit(node.of)
        case t.Function():
            return next((found for arg in node.args if (found := unit(arg))), None)
        case t.Binary(op="+" | "-"):
            return unit(node.left) or unit(node.right)
        case t.Binary(op="*"):
            return unit(node.left) if _given(node.right) else unit(node.right) if _given(node.left) else None
        case t.Binary():
            return unit(node.left) if _given(node.right) else None
    return None


def _given(node: t.Expression) -> bool:
    """Whether nothing in it is measured."""
    return not any(t.measures(node))


def direction(node: t.Expression) -> int | None:
    """1: higher is better, -1: lower is, 0: unknown or mixed, None: a number, of which neither is."""
    match node:
        case t.Number():
            return None
        case t.Measure():
            return MEASURES[node.name].better
        case t.Negative():
            return _turned(direction(node.of))
        case t.Function(name="abs"):
            return None if direction(node.args[0]) is None else UNKNOWN
        case t.Function():
            return _together([direction(arg) for arg in node.args])
        case t.Binary(op="+"):
            return _together([direction(node.left), direction(node.right)])
        case t.Binary(op="-"):
            return _together([direction(node.left), _turned(direction(node.right))])
        case t.Binary():
            return _scaled(node)
    return UNKNOWN


def _scaled(node: t.Binary) -> int | None:
    """Of a product or ratio: known where all but one factor is a number above 0."""
    left, right = direction(node.left), direction(node.right)
    if left is None and right is None:
        return None
    if right is None and isinstance(node.right, t.Number) and node.right.value:
        return left
    if left is None and node.op == "*" and isinstance(node.left, t.Number) and node.left.value:
        return right
    return UNKNOWN


def _turned(way: int | None) -> int | None:
    return None if way is None else -way


def _together(ways: list[int | None]) -> int | None:
    known = {way for way in ways if way is not None}
    return None if not known else known.pop() if len(known) == 1 else UNKNOWN
