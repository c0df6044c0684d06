"""Arms spelled as a grid, instead of each written out: looped models of one depth, by width, number of passes and budget.

    grid:
      prelude: 2                                       # layers before the repeated group
      core: 16                                         # applied layers of the group: core/r layers, r times
      coda: 2                                          # layers after it
      r: [1, 2, 4, 8]
      flops: {4.64e17: [384, 512], 1e18: [384, 640]}   # or tokens: {128k: [32, 48]}: the widths that are trained with each budget

is the iso-depth design of a law of recurrence (arXiv 2604.21106). Its arm `d384 r2 C4.64e17` has width 384 and 2 + 8 + 2 layers by
1..2 (3..10)x{r} 11..12; C stands for a budget of FLOPs, rounded to whole steps, D for one of tokens. Injection, the norm at the end of
a pass and truncated backpropagation belong to looping: the arms of r = 1, which loop nothing, go without. Looped arms are compared with
the one of r = 1 of their width and budget. Heads follow the width where the model gives head_dim. An arm of the same name under `arms`
changes the grid's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from ostinato.errors import OstinatoError
from ostinato.study.derive import arm_applications, head_dim, kv_heads, layer_window, model_hidden, pass_groups, recipe_steps, vocab
from ostinato.study.merge import merge, without_nulls
from ostinato.study.numbers import decimal
from ostinato.study.problems import Problem
from ostinato.study.reading import Text, where
from ostinato.study.records import Data, Grid, Model, Recipe
from ostinato.study.strict import as_plain
from ostinato.study.truncation import without_gradient

LOOPED_ONLY = {"inject": "none", "pass_norm": "no", "backprop": "none"}
"""What belongs to looping, as it stands in a model that does not loop."""

EXAMPLE = "grid: {core: 4, r: [1, 2, 4], tokens: {100k: [32, 64]}}"


def flops_per_token(model: Model, vocab: int, context: int) -> int:
    """Training FLOPs of a token of a model of attention and MLPs, as the source of the design counts: the ledger's `trainer` convention.

    6 × (matrices of every application + unembedding) + 12 × heads × head dimension × context for each attention; 2 and 4 in a pass without
    gradient. Injection meets each of N residual streams, as do the N + 2 vectors by which a sublayer mixes them. The ledger, which stands
    to the right of the study, counts the same from the parameters themselves (tested).
    """
    width, size, cut = model.d_model, head_dim(model), without_gradient(model)
    attention = 2 * width * size * (model.heads + kv_heads(model)) + 2 * model.heads * size * context
    mlp = (3 if model.mlp.kind == "swiglu" else 2) * width * model_hidden(model)
    mixing = model.streams * (model.streams + 2) * width if model.streams > 1 else 0
    begins = {place for group in pass_groups(model) for place in group.begins} if model.inject == "linear" else set()
    total = 6 * vocab * width
    for index, one in enumerate(arm_applications(model)):
        inside = (attention + mixing) * one.attn + (mlp + mixing) * one.mlp + 2 * width**2 * model.streams * (index in begins)
        total += (2 if index in cut else 6) * inside
    return total


def spelled(keys: dict[str, Any]) -> tuple[dict[str, dict[str, Any]], list[Problem]]:
    """The arms that `keys["grid"]` spells, as they would stand under `arms`, by budget, width and r; and what is wrong with it."""
    given = keys.get("grid")
    if given is None:
        return {}, []
    at = _Place(given)
    try:
        grid = Grid(**as_plain(without_nulls(given)))
    except ValidationError as error:
        first = error.errors()[0]
        key = str(first["loc"][0])
        return {}, [at.problem(key, "not given" if first["type"] == "missing" else first["msg"], "a grid has core, r and budgets", EXAMPLE)]
    if problems := list(_problems(grid, keys.get("model") or {}, at)):
        return {}, problems
    arms: dict[str, dict[str, Any]] = {}
    for letter, key in (("C", "flops"), ("D", "tokens")):
        for budget, widths in getattr(grid, key).items():
            for width in widths:
                for r in grid.r:
                    name, body = f"d{width} r{r} {letter}{budget}", _body(grid, keys, width, r, at, key)
                    if r > 1 and 1 in grid.r:
                        body["against"] = at.text(f"d{width} r1 {letter}{budget}", "r")
                    try:
                        tokens = budget if key == "tokens" else _tokens(keys, body, budget)
                    except (OstinatoError, ValidationError):
                        tokens = budget  # the model or the recipe is wrong, and is told of as that of any arm
                    arms[name] = {**body, "recipe": {"tokens": at.text(tokens, key, budget)}}
    return arms, list(_uncounted(keys, arms, at)) if grid.flops else []


class _Place:
    """Where the grid stands: gives what it spells its lines, and problems theirs."""

    def __init__(self, given: dict[str, Any]):
        self.given, self.place = given, getattr(given, "place", ("grid",))

    def line(self, key: str) -> int | None:
        return getattr(self.given, "key_lines", {}).get(key, getattr(self.given, "line", None))

    def text(self, value: Any, *keys: str) -> Text:
        text = Text(str(value))
        text.line, text.place = self.line(keys[0]), (*self.place, *keys)
        return text

    def problem(self, key: str, what: str, rule: str, fix: str) -> Problem:
        return Problem(self.line(key), where((*self.place, key)), what, rule, fix)


def _problems(grid: Grid, model: dict[str, Any], at: _Place) -> Iterator[Problem]:
    for r in grid.r:
        if grid.core % r:
            fits = ", ".join(str(one) for one in range(1, grid.core + 1) if grid.core % one == 0)
            yield at.problem("r", f"{r} passes over a core of {grid.core} layers", "the core is core/r layers, r times", f"r: of {fits}")
    if bool(grid.flops) == bool(grid.tokens):
        what = "both flops and tokens" if grid.flops else "neither flops nor tokens"
        yield at.problem("tokens", what, "a grid is by one kind of budget", EXAMPLE)
    for key in ("flops", "tokens"):
        for budget in getattr(grid, key):
            try:
                if decimal(budget) <= 0:
                    raise ValueError(f"{budget!r} is no budget")
            except ValueError as error:
                yield at.problem(key, str(error), "widths stand under the budget that they are trained with", f"{key}: {{1e18: [384]}}")
    size = model.get("head_dim")
    for width in sorted({width for widths in (grid.flops | grid.tokens).values() for width in widths}):
        if size is not None and str(size).isdigit() and int(size) and width % int(size):
            near = max(1, round(width / int(size))) * int(size)
            yield at.problem("flops" if grid.flops else "tokens", f"width {width} with heads of {size} channels",
                             "heads of head_dim channels make up the width", f"{near}, or another head_dim")  # fmt: skip


def _body(grid: Grid, keys: dict[str, Any], width: int, r: int, at: _Place, key: str) -> dict[str, Any]:
    """The model keys of one arm."""
    size = (keys.get("model") or {}).get("head_dim")
    layers = grid.core // r
    body: dict[str, Any] = {"d_model": at.text(width, key), "layers": at.text(grid.prelude + layers + grid.coda, "core")}
    if size is not None and str(size).isdigit() and int(size):
        body["heads"] = at.text(width // int(size), key)
    if r == 1:
        return {**body, **{name: at.text(value, "r") for name, value in LOOPED_ONLY.items() if name in (keys.get("model") or {})}}
    first, last = grid.prelude + 1, grid.prelude + layers
    parts = [_span(1, grid.prelude), f"({_span(first, last)})x{{r}}" if layers > 1 else f"{first}x{{r}}", _span(last + 1, last + grid.coda)]
    return {**body, "schedule": at.text(" ".join(part for part in parts if part), "core"), "passes": at.text(r, "r")}


def _span(first: int, last: int) -> str:
    return "" if last < first else str(first) if first == last else f"{first}..{last}"


def _resolved(keys: dict[str, Any], body: dict[str, Any]) -> Model:
    own = {key: value for key, value in body.items() if key not in ("against", "recipe")}
    return Model(**as_plain(without_nulls(merge(keys.get("model") or {}, own))))


def _tokens(keys: dict[str, Any], body: dict[str, Any], budget: str) -> int:
    """The whole number of steps that comes nearest to so many FLOPs, in tokens."""
    recipe = Recipe(**as_plain(without_nulls(keys.get("recipe") or {})))
    step = recipe_steps(recipe.model_copy(update={"tokens": max(recipe.tokens, recipe.batch)})).tokens_per_step
    entries = vocab(Data(**as_plain(without_nulls(keys.get("data") or {}))).tokenizer)
    tokens = decimal(budget) / flops_per_token(_resolved(keys, body), entries, recipe.context)
    return round(tokens / step) * step or max(1, int(tokens))


def _uncounted(keys: dict[str, Any], arms: dict[str, dict[str, Any]], at: _Place) -> Iterator[Problem]:
    """What these models have beside attention over the whole context and MLPs."""
    try:
        model = _resolved(keys, next(iter(arms.values())))
        short = any(layer_window(model, layer, 2**62) < 2**62 for layer in range(1, len(model.layers) + 1))
    except (OstinatoError, ValidationError):
        return
    extra = {"gates": model.attn_gate != "none", "value embeddings": model.value_embeddings != "none", "short windows": short}
    if found := [name for name, there in extra.items() if there]:
        yield at.problem("flops", f"models with {' and '.join(found)}", "a budget of FLOPs counts attention and MLPs", "a grid by tokens")
