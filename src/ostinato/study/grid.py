"""Arms spelled as a grid, instead of each written out: looped models of one depth, by width, number of passes and budget.

    grid:
      prelude: 2                                       # layers before the repeated group
      core: 16                                         # applied layers of the group: core/r layers, r times
      coda: 2                                          # layers after it
      r: [1, 2, 4, 8]
      flops: {4.64e17: [384, 512], 1e18: [384, 640]}   # or tokens: {128k: [32, 48]}: the widths that are trained with each budget

is the iso-depth design of a law of recurrence (arXiv 2604.21106). The grid spells `schedule` and `passes`, which `model` then may not give.
Its arm `d384 r2 C4.64e17` has width 384 and 2 + 8 + 2 layers by 1..2 (3..10)x{r} 11..12; C stands for a budget of FLOPs, rounded to whole
steps, D for one of tokens. Injection, the norm at the end of a pass and truncated backpropagation belong to looping: the arms of r = 1,
which loop nothing, go without. Arms are compared with the one of the least r of their width and budget. Heads follow the width where the
model gives head_dim. An arm of the same name under `arms` changes the grid's, and a budget of FLOPs is that of the model as changed, unless
the arm gives tokens of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from pydantic import ValidationError

from ostinato.errors import OstinatoError
from ostinato.schedule import MOST_APPLICATIONS
from ostinato.study.derive import arm_applications, head_dim, kv_heads, layer_window, model_hidden, pass_groups, recipe_steps, vocab
from ostinato.study.draws import always, probabilities
from ostinato.study.merge import merge, without_nulls
from ostinato.study.numbers import LARGEST, count, decimal
from ostinato.study.problems import Problem
from ostinato.study.reading import Text, where
from ostinato.study.records import Data, Grid, Model, Passes, Recipe
from ostinato.study.shape import OF_AN_ARM
from ostinato.study.strict import as_plain
from ostinato.study.truncation import without_gradient

LOOPED_ONLY = {"inject": "none", "pass_norm": "no", "backprop": "none"}
"""What belongs to looping, as it stands in a model that does not loop."""

EXAMPLES = {"flops": "flops: {1e18: [384]}", "tokens": "tokens: {100k: [32, 64]}"}
EXAMPLE = "grid: {core: 4, r: [1, 2, 4], tokens: {100k: [32, 64]}}"


def flops_per_token(model: Model, vocab: int, context: int) -> float:
    """Training FLOPs of a token of a model of attention and MLPs, as the source of the design counts: the ledger's `trainer` convention.

    6 × (matrices of every application + unembedding) + 12 × heads × head dimension × context for each attention; 2 and 4 in a pass
    without gradient; of drawn passes those to be expected. Injection meets each of N residual streams, as do the N + 2 vectors by which
    a sublayer mixes them. The ledger, which stands to the right of the study, counts the same from the parameters themselves (tested).
    """
    if isinstance(model.passes, Passes):
        chances = probabilities(model.passes).items()
        return sum(chance * _of_a_step(always(model, passes), vocab, context) for passes, chance in chances)
    return _of_a_step(model, vocab, context)


def _of_a_step(model: Model, vocab: int, context: int) -> int:
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
    unfit: dict[str, Problem] = {}
    arms: dict[str, dict[str, Any]] = {}
    for letter, key in (("C", "flops"), ("D", "tokens")):
        for budget, widths in getattr(grid, key).items():
            for width in widths:
                for r in sorted(set(grid.r)):
                    name, body = f"d{width} r{r} {letter}{budget}", _body(grid, keys, width, r, at, key)
                    if r > min(grid.r) and name != keys.get("reference"):
                        body["against"] = at.text(f"d{width} r{min(grid.r)} {letter}{budget}", "r")
                    if key == "flops":
                        tokens, problem = _affordable(keys, name, body, budget, at)
                        unfit |= {budget: problem} if problem and budget not in unfit else {}
                    else:
                        tokens = budget
                    arms[name] = {**body, "recipe": {"tokens": at.text(tokens, key, budget)}}
    return arms, [*unfit.values(), *_uncounted(keys, arms, at)] if grid.flops else []


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
    for key in ("schedule", "passes"):
        value = model.get(key)
        if value is not None and str(value).strip().lower() != "none":
            what = f"the model gives {key}, and a grid spells its own"
            rule = "the arms of a grid repeat core/r layers r times, and those of r = 1 nothing"
            yield Problem(getattr(value, "line", None), f"model.{key}", what, rule, f"leave {key} out, or give it in an arm under arms")
    depth = grid.prelude + grid.core + grid.coda
    if depth > MOST_APPLICATIONS:
        what = f"{depth:,} applied layers (prelude {grid.prelude:,} + core {grid.core:,} + coda {grid.coda:,})"
        yield at.problem("core", what, f"a schedule has at most {MOST_APPLICATIONS:,}", "core: 16, or another smaller one")
    if not grid.r:
        yield at.problem("r", "no number of passes", "a grid has an arm for each", "r: [1, 2, 4]")
    for r in grid.r:
        if grid.core % r:
            fits = ", ".join(str(one) for one in range(1, grid.core + 1) if grid.core % one == 0)
            yield at.problem("r", f"{r} passes over a core of {grid.core} layers", "the core is core/r layers, r times", f"r: of {fits}")
    if bool(grid.flops) == bool(grid.tokens):
        what = "both flops and tokens" if grid.flops else "neither flops nor tokens"
        yield at.problem("tokens", what, "a grid is by one kind of budget", EXAMPLE)
    for key in ("flops", "tokens"):
        for budget, widths in getattr(grid, key).items():
            if not widths:
                what = f"no width under {budget}"
                yield at.problem(key, what, "widths stand under the budget that they are trained with", f"{key}: {{{budget}: [32, 64]}}")
            try:
                if decimal(budget) <= 0:
                    raise ValueError(f"{budget!r} is no budget")
                if key == "tokens":
                    count(budget)
            except ValueError as error:
                yield at.problem(key, str(error), "widths stand under the budget that they are trained with", EXAMPLES[key])
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


def _changed(keys: dict[str, Any], name: str, body: dict[str, Any]) -> dict[str, Any]:
    """The grid's arm, with what stands under `arms` by its name."""
    return merge(body, (keys.get("arms") or {}).get(name) or {})


def _resolved(keys: dict[str, Any], body: dict[str, Any]) -> Model:
    own = {key: value for key, value in body.items() if key not in OF_AN_ARM}
    return Model(**as_plain(without_nulls(merge(keys.get("model") or {}, own))))


def _affordable(keys: dict[str, Any], name: str, body: dict[str, Any], budget: str, at: _Place) -> tuple[Any, Problem | None]:
    """The whole number of steps that comes nearest to so many FLOPs, in tokens, for the arm as it is changed; and what is wrong with it."""
    body = _changed(keys, name, body)
    if (body.get("recipe") or {}).get("tokens") is not None:
        return budget, None  # its own tokens are laid over these
    try:
        recipe = Recipe(**as_plain(without_nulls(merge(keys.get("recipe") or {}, body.get("recipe") or {}))))
        step = recipe_steps(recipe.model_copy(update={"tokens": max(recipe.tokens, recipe.batch)})).tokens_per_step
        data = Data(**as_plain(without_nulls(merge(keys.get("data") or {}, body.get("data") or {}))))
        each = Fraction(step * flops_per_token(_resolved(keys, body), vocab(data.tokenizer), recipe.context))
    except (OstinatoError, ValidationError):
        return budget, None  # the model or the recipe is wrong, and is told of as that of any arm
    steps = round(Fraction(decimal(budget)) / each)
    if 1 <= steps <= LARGEST // step:
        return steps * step, None
    if steps:
        what, rule = f"{budget} FLOPs of {name} are more tokens than can be counted", f"a run has at most {LARGEST // step:,} steps"
        return step, at.problem("flops", what, rule, f"{EXAMPLES['flops']}, or another smaller budget")
    least = f"{math.ceil(each):.2e}".replace("e+0", "e").replace("e+", "e")
    what = f"{budget} FLOPs of {name} are less than one step of {step:,} tokens, which takes {least}"
    return step, at.problem("flops", what, "training takes at least one step", f"flops: {{{least}: …}}, or more, or a smaller recipe.batch")


def _uncounted(keys: dict[str, Any], arms: dict[str, dict[str, Any]], at: _Place) -> Iterator[Problem]:
    """What these models have beside attention over the whole context and MLPs."""
    changed = [name for name in keys.get("arms") or {} if name in arms]
    for name in [next(iter(arms)), *changed]:
        yield from _not_counted(keys, _changed(keys, name, arms[name]), at)


def _not_counted(keys: dict[str, Any], body: dict[str, Any], at: _Place) -> Iterator[Problem]:
    try:
        model = _resolved(keys, body)
        short = any(layer_window(model, layer, 2**62) < 2**62 for layer in range(1, len(model.layers) + 1))
    except (OstinatoError, ValidationError):
        return
    extra = {"gates": model.attn_gate != "none", "value embeddings": model.value_embeddings != "none", "short windows": short}
    if found := [name for name, there in extra.items() if there]:
        yield at.problem("flops", f"models with {' and '.join(found)}", "a budget of FLOPs counts attention and MLPs", "a grid by tokens")
