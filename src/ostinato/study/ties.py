"""Tied sublayers: `9..16:attn` taken from `1..8:attn` means that layer 9's attention *is* layer 1's, and so on."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ostinato.errors import StudyError

_PLACE = re.compile(r"(\d{1,6})(?:\.\.(\d{1,6}))?(?::(attn|mlp))?")
_RULE = "a tie names sublayers of layers of this model, as 9..16:attn: 1..8:attn"


def resolve(tie: Mapping[str, str], kinds: Sequence[str]) -> dict[tuple[int, str], int]:
    """For each tied sublayer (layer from 1, "attn" or "mlp") the layer that owns its parameters, chains followed to the end.

    One source layer may serve a whole range. Raises StudyError for a place outside the model, ranges of different
    lengths, a sublayer tied to itself, in a circle or twice, and attention tied across kinds of layer.
    """
    direct: dict[tuple[int, str], int] = {}
    for target, source in tie.items():
        to, to_parts = _places(target, len(kinds))
        origin, from_parts = _places(source, len(kinds))
        if to_parts != from_parts:
            raise StudyError(
                f"tie {target!r}: {source!r} is another sublayer", _RULE, f"write {source.split(':')[0]}:{target.partition(':')[2] or ''}"
            )
        if len(origin) == 1:
            origin = origin * len(to)
        if len(to) != len(origin):
            raise StudyError(f"tie {target!r} names {len(to)} layers and {source!r} names {len(origin)}", _RULE, "name as many, or one")
        for layer, owner in zip(to, origin, strict=True):
            for part in to_parts:
                _check(target, source, layer, owner, part, direct, kinds)
                direct[layer, part] = owner
    return {place: _owner(place, direct) for place in direct}


def _places(text: str, layers: int) -> tuple[list[int], tuple[str, ...]]:
    match = _PLACE.fullmatch(str(text).strip())
    if not match:
        raise StudyError(f"tie {text!r} is not a layer or a range of layers", _RULE, "write 9..16:attn, or 9:mlp, or 9 for both sublayers")
    first, last = int(match[1]), int(match[2] or match[1])
    if not 1 <= first <= last <= layers:
        raise StudyError(f"tie {text!r} is outside the model's layers 1..{layers}", _RULE, "name layers that exist, the smaller first")
    return list(range(first, last + 1)), (match[3],) if match[3] else ("attn", "mlp")


def _check(target: str, source: str, layer: int, owner: int, part: str, direct: dict, kinds: Sequence[str]) -> None:
    if layer == owner:
        raise StudyError(f"tie {target!r}: {source!r} ties layer {layer}'s {part} to itself", _RULE, "leave that layer out")
    if (layer, part) in direct:
        raise StudyError(f"tie {target!r}: layer {layer}'s {part} is already tied to layer {direct[layer, part]}", _RULE, "tie it once")
    if part == "attn" and kinds[layer - 1] != kinds[owner - 1]:
        raise StudyError(
            f"tie {target!r}: layer {layer} is {kinds[layer - 1]} and layer {owner} is {kinds[owner - 1]}",
            "a mixer can be tied only to one of its own kind",
            "tie layers of one kind",
        )


def _owner(place: tuple[int, str], direct: dict[tuple[int, str], int]) -> int:
    layer, part = place
    seen = [layer]
    while (layer, part) in direct:
        layer = direct[layer, part]
        if layer in seen:
            raise StudyError(
                f"tie: the {part} of layers {', '.join(map(str, seen))} are tied in a circle", _RULE, "let one of them own its parameters"
            )
        seen.append(layer)
    return layer
