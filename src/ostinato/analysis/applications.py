"""Which application is meant, from what was stored of them: ends of passes, the first use of a layer, how each is called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Labels = Sequence[Mapping[str, Any]]
"""index, layer, part and pass_ of every application, in order."""


def called(label: Mapping[str, Any]) -> str:
    """4; 4:attn; 4, pass 2."""
    part = "" if label["part"] == "both" else f":{label['part']}"
    return f"{label['layer']}{part}" + (f", pass {label['pass_']}" if label["pass_"] > 1 else "")


def after(application: int) -> str:
    """The column of the lens after this application."""
    return f"after_{application}"


def without(application: int) -> str:
    """The column of the loss without this application."""
    return f"without_{application}"


def without_pass(number: int) -> str:
    """The column of the loss without this pass."""
    return f"without_pass_{number}"


def pass_ends(labels: Labels) -> dict[int, int]:
    """The last application before a pass of a higher number first begins, by the number of the pass; of the last pass the last of all."""
    numbers = sorted({label["pass_"] for label in labels})
    begins = {number: next(label["index"] for label in labels if label["pass_"] == number) for number in numbers}
    ends = {number: begins[number + 1] - 1 for number in numbers[:-1]}
    return ends | ({numbers[-1]: len(labels) - 1} if numbers else {})


def first_of(labels: Labels, layer: int) -> int | None:
    """The first application of a layer; None where it never runs."""
    return next((label["index"] for label in labels if label["layer"] == layer), None)
