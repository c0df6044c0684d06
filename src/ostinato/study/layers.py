"""The inventory of layers, read from text: `8`, `10 x gqa`, `2 x (gdn gdn gqa)`. Layers are numbered from 1 in this order."""

from __future__ import annotations

import re
from typing import Any

MOST_LAYERS = 4096
_WORD = re.compile(r"\s*(?:(\d+)\s*[x×]\s*|([A-Za-z]\w*)|([()]))")


def layer_kinds(value: Any) -> tuple[str, ...]:
    """The kind of each layer. A bare number means that many `gqa` layers; a list names each kind (and may hold such texts).

    Raises ValueError with the rule when the text says something else or more than 4,096 layers.
    """
    if isinstance(value, (list, tuple)):
        kinds = tuple(kind for item in value for kind in _kinds(str(item)))
    else:
        text = str(value).strip()
        kinds = ("gqa",) * _times(text) if text.isdecimal() else _kinds(text)
    if not kinds:
        raise ValueError("a model has at least one layer")
    if len(kinds) > MOST_LAYERS:
        raise ValueError(f"{len(kinds):,} layers are more than {MOST_LAYERS:,}")
    return kinds


def _times(digits: str) -> int:
    if len(digits) > 9 or int(digits) > MOST_LAYERS:
        raise ValueError(f"{digits[:20]} is more than {MOST_LAYERS:,} layers")
    return int(digits)


def _kinds(text: str) -> tuple[str, ...]:
    groups: list[tuple[int, list[str]]] = [(1, [])]
    times, at = 1, 0
    text = text.rstrip()
    while at < len(text):
        match = _WORD.match(text, at)
        if not match:
            raise ValueError(f"{text[:60]!r} is not a list of layers (write 8, 10 x gqa or 2 x (gdn gdn gqa))")
        at = match.end()
        if match[1]:
            times *= _times(match[1])
            continue
        if match[3] == "(":
            groups.append((times, []))
        elif match[3] == ")":
            if len(groups) == 1 or times != 1:
                raise ValueError(f"{text[:60]!r} has a ')' that closes nothing")
            outer, inner = groups.pop()
            groups[-1][1].extend(inner * outer)
        else:
            groups[-1][1].extend([match[2]] * times)
        if len(groups[-1][1]) > MOST_LAYERS:
            raise ValueError(f"{text[:60]!r} is more than {MOST_LAYERS:,} layers")
        times = 1
    if len(groups) > 1 or times != 1:
        raise ValueError(f"{text[:60]!r} stops in the middle of a group or a repetition")
    return tuple(groups[0][1])
