"""A schedule as one self-contained SVG: layers are columns, every application has a row of its own, time runs downward.

    upper half of a mark: attention; lower half: MLP; a half that does not run is an outline; a half tied to another layer is striped
    pass: colour (Okabe and Ito 2008), outline (box, pill, hexagon, hourglass) and number
    an arrow from the left: the input comes in again

Text and lines take the page's `currentColor`; pass colours are the CSS variables --pass-1 … --pass-6, with defaults.
The height is bounded: rows grow thinner as they grow more, 48 of them fit half a page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from ostinato.schedule.application import Application, effective_depth, unique_layers
from ostinato.schedule.groups import injected

COLOURS = ("#1a7abf", "#d55e00", "#009e73", "#b8578f", "#a87800", "#3b8dbd")
TALLEST, THINNEST, HEIGHT = 18.0, 1.0, 460.0
HEAD, FOOT = 20.0, 8.0
_KIND = {"attn": "attention", "mlp": "MLP"}
_INJECTED = {"add": ("input added again", "The input is added again where a later pass begins."),
             "linear": ("linear of input and state", "Every pass of a repeated group begins with a linear map of the group's input and the "
                                                     "state.")}  # fmt: skip


@dataclass(frozen=True)
class _Grid:
    """Where things stand. column, row: distances; left, top: where the first column and row begin; index: right end of the row numbers."""

    column: float
    row: float
    left: float
    top: float
    index: float
    layers: int
    rows: int

    def x(self, layer: int) -> float:
        return self.left + (layer - 0.5) * self.column

    def y(self, index: int) -> float:
        return self.top + (index + 0.5) * self.row

    @property
    def half_width(self) -> float:
        return min(self.column * 0.42, 14.0)

    @property
    def half_height(self) -> float:
        return self.row * (0.37 if self.row > 8 else 0.42)

    @property
    def right(self) -> float:
        return self.left + self.layers * self.column

    @property
    def bottom(self) -> float:
        return self.top + self.rows * self.row


def draw_svg(
    applications: Sequence[Application],
    layers: int,
    kinds: Sequence[str],
    ties: Mapping[tuple[int, str], int],
    inject: str = "none",
) -> str:
    """The drawing as an <svg> element with a viewBox, a title and a description.

    kinds: of every layer.  ties: (layer, sublayer) to the layer it is taken from.  inject: the model's setting.
    """
    entered = injected(tuple(applications), inject)
    entering = [application for application in applications if application.index in entered]
    said_of_input = _INJECTED[inject] if entering else None
    heads = _heads(layers, kinds, ties)
    row = max(THINNEST, min(TALLEST, HEIGHT / len(applications)))
    column = max(14.0, min(32.0, 560.0 / layers))
    left = 54.0 if any(name.endswith("of") for name, _ in heads) else 44.0 if entering else 34.0
    top = HEAD + 12.0 * (len(heads) - 1) + 6
    grid = _Grid(column, row, left, top, left - (16.0 if entering else 6.0), layers, len(applications))
    width = max(grid.right + (40.0 if any(application.pass_ > 1 for application in applications) else 8.0), 240.0)
    legend, bottom = _legend(applications, ties, said_of_input, grid.bottom + FOOT, width)
    height = bottom + 2
    body = [
        *_columns(grid, heads, {application.layer for application in applications}),
        *_path(applications, grid),
        *_injection(entering, grid),
        *_marks(applications, ties, grid),
        *_margins(applications, grid),
        *legend,
    ]
    title, said = _words(applications, ties, said_of_input)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_n(width)} {_n(height)}" width="{_n(width)}" height="{_n(height)}" '
        f'role="img" style="max-width:100%;height:auto" font-family="system-ui,sans-serif" font-size="9" fill="currentColor">'
        f"<title>{escape(title)}</title><desc>{escape(said)}</desc>{''.join(body)}</svg>"
    )


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _text(x: float, y: float, text: str, anchor: str = "middle", **style: str) -> str:
    extra = "".join(f' {key.replace("_", "-")}="{value}"' for key, value in style.items())
    return f'<text x="{_n(x)}" y="{_n(y)}" text-anchor="{anchor}"{extra}>{escape(text)}</text>'


def _words(applications: Sequence[Application], ties: Mapping[tuple[int, str], int], enters: tuple[str, str] | None) -> tuple[str, str]:
    """Title and description for readers who do not see the drawing."""
    depth, unique = effective_depth(applications), unique_layers(applications)
    title = f"Schedule of {len(applications)} applications of {unique} layers, effective depth {depth:g}"
    said = ["In order, layers by number: " + " ".join(map(str, applications)) + "."]
    if ties:
        said.append(
            "Tied: " + ", ".join(f"{layer}:{part} is that of layer {source}" for (layer, part), source in sorted(ties.items())) + "."
        )
    return title, " ".join([*said, *([enters[1]] if enters else [])])


def _heads(layers: int, kinds: Sequence[str], ties: Mapping[tuple[int, str], int]) -> list[tuple[str, list[str]]]:
    """Lines above the columns: a name and a text for each layer."""
    lines = [("layer", [str(layer) for layer in range(1, layers + 1)])]
    if len(set(kinds)) > 1:
        lines.append(("", list(kinds)))
    for part in ("attn", "mlp"):
        sources = [str(ties.get((layer, part), "")) for layer in range(1, layers + 1)]
        if any(sources):
            lines.append((f"{_KIND[part]} of", sources))
    return lines


def _columns(grid: _Grid, heads: list[tuple[str, list[str]]], used: set[int]) -> list[str]:
    every = next(step for step in (1, 2, 5, 10, 20, 50, 100, 1000, 5000) if step * grid.column >= 6 * len(str(grid.layers)) + 4)
    drawn = ['<g stroke="currentColor" stroke-opacity=".13">']
    for layer in range(1, grid.layers + 1):
        dash = "" if layer in used else ' stroke-dasharray="1 3"'
        drawn.append(f'<path d="M{_n(grid.x(layer))} {_n(grid.top)}V{_n(grid.bottom)}"{dash}/>')
    drawn.append("</g>")
    for line, (name, cells) in enumerate(heads):
        y = HEAD - 8 + 12 * line
        strong = {"font_weight": "600"} if line == 0 else {"font_size": "8", "opacity": ".75"}
        drawn.append(_text(grid.left - 6, y, name, "end", font_size="8", opacity=".75"))
        for layer, cell in enumerate(cells, 1):
            if cell and (layer == 1 or layer % every == 0):
                faint = {"opacity": ".4"} if line == 0 and layer not in used else {}
                drawn.append(_text(grid.x(layer), y, cell, **{**strong, **faint}))
    return drawn


def _path(applications: Sequence[Application], grid: _Grid) -> list[str]:
    """The way of the stream: one line through all marks, turning in the gaps between rows."""
    steps = [f"M{_n(grid.x(applications[0].layer))} {_n(grid.top - 4)}V{_n(grid.y(0))}"]
    for before, after in pairwise(applications):
        if after.layer != before.layer:
            between = (grid.y(before.index) + grid.y(after.index)) / 2
            turn = min(grid.row * 0.2, 3.0) * (1 if after.layer > before.layer else -1)
            x0, x1, r = grid.x(before.layer), grid.x(after.layer), abs(turn)
            steps.append(f"V{_n(between - r)}Q{_n(x0)} {_n(between)} {_n(x0 + turn)} {_n(between)}"
                         f"H{_n(x1 - turn)}Q{_n(x1)} {_n(between)} {_n(x1)} {_n(between + r)}")  # fmt: skip
        steps.append(f"V{_n(grid.y(after.index))}")
    steps.append(f"V{_n(grid.bottom + 4)}")
    weight = "1.2" if grid.row > 8 else ".8"
    return [f'<path d="{"".join(steps)}" fill="none" stroke="currentColor" stroke-opacity=".55" stroke-width="{weight}"/>']


def _injection(entering: list[Application], grid: _Grid) -> list[str]:
    if not entering:
        return []
    rail = grid.left - 4
    last = grid.y(entering[-1].index)
    drawn = [f"M{_n(rail)} {_n(grid.top - 4)}V{_n(last)}"]
    heads = []
    for application in entering:
        tip, y, size = grid.x(application.layer) - grid.half_width - 1, grid.y(application.index), min(grid.row * 0.25, 3.0)
        drawn.append(f"M{_n(rail)} {_n(y)}H{_n(tip - size)}")
        heads.append(f"M{_n(tip)} {_n(y)}l{_n(-1.4 * size)} {_n(-size)}v{_n(2 * size)}Z")
    return [
        f'<path d="{"".join(drawn)}" fill="none" stroke="currentColor" stroke-dasharray="2 1.5" stroke-width=".9" stroke-opacity=".8"/>',
        f'<path d="{"".join(heads)}"/>',
    ]


def _half(shape: int, x: float, y: float, w: float, h: float, up: bool) -> str:
    """The upper or lower half of an outline of half-width w and half-height h around (x, y): box, pill, hexagon, hourglass."""
    edge = y - h if up else y + h
    inset = min(h, w * 0.45)
    left, right = _n(x - w), _n(x + w)
    near, far = _n(x - w + inset), _n(x + w - inset)
    if shape == 0:
        return f"M{left} {_n(y)}V{_n(edge)}H{right}V{_n(y)}Z"
    if shape == 1:
        arc = f"A{_n(inset)} {_n(h)} 0 0 {1 if up else 0}"
        return f"M{left} {_n(y)}{arc} {near} {_n(edge)}H{far}{arc} {right} {_n(y)}Z"
    if shape == 2:
        return f"M{left} {_n(y)}L{near} {_n(edge)}H{far}L{right} {_n(y)}Z"
    return f"M{near} {_n(y)}L{left} {_n(edge)}H{right}L{far} {_n(y)}Z"


def _fill(pass_: int) -> str:
    place = (pass_ - 1) % len(COLOURS)
    return f'fill="{COLOURS[place]}" style="fill:var(--pass-{place + 1},{COLOURS[place]})"'


def _marks(applications: Sequence[Application], ties: Mapping[tuple[int, str], int], grid: _Grid) -> list[str]:
    drawn = []
    for pass_ in sorted({application.pass_ for application in applications}):
        drawn.append(f"<g {_fill(pass_)}>")
        for application in applications:
            if application.pass_ == pass_:
                x, y = grid.x(application.layer), grid.y(application.index)
                tied = tuple(part for part in ("attn", "mlp") if (application.layer, part) in ties)
                mark = _mark(application.part, pass_, x, y, grid.half_width, grid.half_height, tied)
                clear = [sublayer for sublayer in application.sublayers if sublayer not in tied]
                place = clear[0] if len(clear) == 1 else application.part
                number = _number(place, pass_, x, y, grid.half_height) if grid.half_height >= 4.4 else ""
                drawn.append(f"<g><title>{_said(application)}</title>{mark}{number}</g>")
        drawn.append("</g>")
    return drawn


def _said(application: Application) -> str:
    """What a pointer over the mark shows."""
    part = "" if application.part == "both" else f", {_KIND[application.part]} only"
    return f"application {application.index + 1}: layer {application.layer}, pass {application.pass_}{part}"


def _mark(part: str, pass_: int, x: float, y: float, w: float, h: float, tied: tuple[str, ...] = ()) -> str:
    """One application: two halves, filled where they run, outlined where they do not, striped where they are another layer's."""
    shape, drawn = (pass_ - 1) % 4, []
    for sublayer, up in (("attn", True), ("mlp", False)):
        outline = _half(shape, x, y + (-0.4 if up else 0.4), w, h, up)
        if part not in ("both", sublayer):
            drawn.append(
                f'<path d="{outline}" fill="none" stroke="currentColor" stroke-width=".6" stroke-opacity=".45" style="fill:none"/>'
            )
            continue
        drawn.append(f'<path d="{outline}"/>')
        if sublayer in tied:
            drawn.append(_stripes(x, y, w, h, up))
    return "".join(drawn)


def _stripes(x: float, y: float, w: float, h: float, up: bool) -> str:
    top, bottom = (y - h, y - 0.4) if up else (y + 0.4, y + h)
    lines = "".join(
        f"M{_n(x - w + step)} {_n(bottom)}l{_n(bottom - top)} {_n(top - bottom)}" for step in _steps(0.5, 2 * w - (bottom - top), 4.0)
    )
    return f'<path d="{lines}" stroke="#fff" stroke-width=".9" fill="none" style="fill:none"/>'


def _legend(
    applications: Sequence[Application], ties: Mapping[tuple[int, str], int], enters: tuple[str, str] | None, top: float, width: float
) -> tuple[list[str], float]:
    """What the marks mean, as far as they occur, in lines of at most `width`; and where it ends."""
    parts = {application.part for application in applications}
    passes = sorted({application.pass_ for application in applications})[: len(COLOURS)]
    grey = 'fill="currentColor" fill-opacity=".6"'
    entries: list[tuple[str, str, str]] = [("pass " + str(pass_), _fill(pass_), _mark("both", pass_, 9, 0, 9, 4.5)) for pass_ in passes]
    if len(passes) == 1:
        entries = []
    entries.append(("attention above MLP", grey, _mark("both", 1, 9, 0, 9, 4.5)))
    entries += [(f"{_KIND[part]} only", grey, _mark(part, 1, 9, 0, 9, 4.5)) for part in ("attn", "mlp") if part in parts]
    if ties:
        entries.append(("of another layer", grey, _mark("both", 1, 9, 0, 9, 4.5, tuple(sorted({part for _, part in ties})))))
    if enters:
        entries.append((enters[0], 'fill="currentColor"', '<path d="M0 0H13" stroke="currentColor" stroke-dasharray="2 1.5"/>'
                                                                     '<path d="M18 0l-4.5 -3v6Z"/>'))  # fmt: skip
    drawn, x, y = [], 6.0, top + 8
    for text, fill, icon in entries:
        needed = 18 + 5 + 4.6 * len(text)
        if x > 6 and x + needed > width:
            x, y = 6.0, y + 14
        drawn.append(f'<g transform="translate({_n(x)} {_n(y)})"><g {fill}>{icon}</g>{_text(23, 2.8, text, "start", font_size="8")}</g>')
        x += needed + 10
    return drawn, y + 8


def _steps(start: float, end: float, by: float) -> list[float]:
    return [start + by * index for index in range(int((end - start) / by) + 1)] if end >= start else []


def _number(part: str, pass_: int, x: float, y: float, h: float) -> str:
    """The pass in white, in the middle of what runs (of the half without stripes, where one has them)."""
    size = min(1.44 * h, 10) if part == "both" else min(1.05 * h, 10)
    middle = {"both": y, "attn": y - h / 2, "mlp": y + h / 2}[part]
    return _text(x, middle + size * 0.36, str(pass_), font_size=_n(size), font_weight="700", style="fill:#fff")


def _margins(applications: Sequence[Application], grid: _Grid) -> list[str]:
    """Left the number of an application, right the pass where a stretch of it begins, as far as there is room."""
    drawn, last = [], -99.0
    for application in applications:
        y = grid.y(application.index) + 2.8
        begins = application.index == 0 or applications[application.index - 1].pass_ != application.pass_ or application.enters_pass
        final = application.index == len(applications) - 1
        if (begins or final) and y - last >= 8.5:
            if begins and any(a.pass_ > 1 for a in applications):
                drawn.append(_text(grid.right + 6, y, f"pass {application.pass_}", "start", font_size="8", opacity=".75"))
            drawn.append(_text(grid.index, y, str(application.index + 1), "end", font_size="8", opacity=".6"))
            last = y
    return drawn
