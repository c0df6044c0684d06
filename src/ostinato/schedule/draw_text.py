"""A schedule for the terminal: layers are columns, time runs downward, and from left to right within a line.

    layer                1    2    3    4
    attn of                             1
    application 1–4     █1───█1───█1───█1
    application 5–8    +▀2───▀2───▀2───▀2

A line is a stretch of rising layers, and before it stands which applications these are, counted from 1: written apart from a range of
layers, 1..4. The block says what runs (█ layer, ▀ attention, ▄ MLP), the digit which pass it is, a plus that the input comes in again:
nothing depends on colour, and `paint` may add some.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ostinato.schedule.application import Application
from ostinato.schedule.groups import injected

BLOCKS = {"both": "█", "attn": "▀", "mlp": "▄"}
_SAID = {"both": "█ layer", "attn": "▀ attention only", "mlp": "▄ MLP only"}


def draw_text(
    applications: Sequence[Application],
    layers: int,
    kinds: Sequence[str],
    ties: Mapping[tuple[int, str], int],
    inject: str = "none",
    paint: Callable[[str, int], str] | None = None,
) -> str:
    """Lines of text, without a line end at the end.

    kinds: of every layer.  ties: (layer, sublayer) to the layer it is taken from.  inject: the model's setting.
    paint: given a cell's text and its pass, the text to print (for colour; its width must look the same).
    """
    width = _cell_width(applications, layers, kinds)
    labels = [_label(sweep) for sweep in _sweeps(applications)]
    margin = max(map(len, [*labels, "attn of"])) + 2
    lines = [_header("layer", [str(layer) for layer in range(1, layers + 1)], margin, width)]
    if len(set(kinds)) > 1:
        lines.append(_header("kind", list(kinds), margin, width))
    for sublayer in ("attn", "mlp"):
        sources = [str(ties.get((layer, sublayer), "")) for layer in range(1, layers + 1)]
        if any(sources):
            lines.append(_header(f"{sublayer} of", sources, margin, width))
    entered = injected(tuple(applications), inject)
    for label, sweep in zip(labels, _sweeps(applications), strict=True):
        lines.append(label.ljust(margin) + _line(sweep, width, entered, paint))
    return "\n".join([*(line.rstrip() for line in lines), "", *_legend(applications, layers, ties, inject)])


def _sweeps(applications: Sequence[Application]) -> list[list[Application]]:
    sweeps: list[list[Application]] = []
    for application in applications:
        if not sweeps or application.layer <= sweeps[-1][-1].layer:
            sweeps.append([])
        sweeps[-1].append(application)
    return sweeps


def _label(sweep: list[Application]) -> str:
    first, last = sweep[0].index + 1, sweep[-1].index + 1
    return f"application {first if first == last else f'{first}–{last}'}"


def _cell_width(applications: Sequence[Application], layers: int, kinds: Sequence[str]) -> int:
    digits = max(len(str(application.pass_)) for application in applications)
    named = max(map(len, kinds)) if len(set(kinds)) > 1 else 0
    return max(digits + (4 if layers <= 16 else 2), len(str(layers)) + 1, named + 1)


def _header(name: str, cells: list[str], margin: int, width: int) -> str:
    return name.ljust(margin) + "".join(cell.rjust(width) for cell in cells)


def _line(sweep: list[Application], width: int, entered: frozenset[int], paint: Callable[[str, int], str] | None) -> str:
    line, at = "", 0
    for application in sweep:
        enters = application.index in entered
        text = BLOCKS[application.part] + str(application.pass_)
        gap = application.layer * width - len(text) - at - enters
        line += ("─" if at else " ") * gap + ("+" if enters else "") + (paint(text, application.pass_) if paint else text)
        at = application.layer * width
    return line


def _legend(applications: Sequence[Application], layers: int, ties: Mapping[tuple[int, str], int], inject: str) -> list[str]:
    parts = {application.part for application in applications}
    said = [words for part, words in _SAID.items() if part in parts]
    if any(application.pass_ > 1 for application in applications):
        said.append("digit after it: which pass")
    if injected(tuple(applications), inject):
        said.append("+ input added again" if inject == "add" else "+ linear of input and state")
    if ties:
        said.append("of: the layer whose sublayer this is")
    idle = sorted(set(range(1, layers + 1)) - {application.layer for application in applications})
    return [" · ".join(said), *([f"never run: layer {', '.join(map(str, idle))}"] if idle else [])]
