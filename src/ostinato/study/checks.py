"""What the types cannot say: references, divisibility, schedules, ties, windows, budgets. Each problem with the line that made it."""

from __future__ import annotations

import difflib
from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import Any

from ostinato.errors import OstinatoError
from ostinato.schedule import MOST_APPLICATIONS
from ostinato.schedule.terms import length
from ostinato.study import derive, truncation
from ostinato.study.draws import always, least, most
from ostinato.study.fingerprint import fingerprint, run_identity
from ostinato.study.points import clauses
from ostinato.study.predictions import Looked
from ostinato.study.problems import Problem
from ostinato.study.records import Arm, Evaluate, Model, Passes, Recipe, Study
from ostinato.study.resolve import Resolved

SHALLOW = 64
"""Numbers of passes, of those that can be drawn, with which a schedule's groups are looked at before training meets them."""


def check(resolved: Resolved) -> Iterator[Problem]:
    """Every problem of a resolved study, arm by arm and as a whole."""
    study = resolved.study
    for arm in study.arms:
        locate = _Locate(resolved.written[arm.name], arm.name)
        yield from _model(arm, locate)
        yield from _data_and_recipe(arm, locate)
        yield from _evaluation(arm, study.evaluate, resolved.keys, locate)
        yield from _against(arm, study, locate)
        yield from _waits_once(arm, locate)
    yield from _whole(study, resolved.keys)
    run_ifs = {arm.name: resolved.written[arm.name]["run_if"] for arm in study.arms if arm.run_if is not None}
    yield from Looked(study, resolved.keys, run_ifs).problems


class _Locate:
    """Finds the line of a key of an arm, whether the arm or the study wrote it."""

    def __init__(self, keys: dict[str, Any], arm: str = ""):
        self.keys, self.arms = keys, (arm,) if arm else ()

    def __call__(self, *paths: str) -> tuple[int | None, str]:
        """(line, where) of the first of these keys that was written, as recipe.lr; else of the first, without a line."""
        for path in paths:
            value: Any = self.keys
            for step in path.split("."):
                value = value.get(step) if isinstance(value, dict) else None
            below = 0
            while isinstance(value, dict) and value:
                value, below = next(iter(value.values())), below + 1
            if hasattr(value, "line"):
                return value.line, ".".join(value.place[: len(value.place) - below])
        return None, paths[0]

    def problem(self, paths: tuple[str, ...], what: str, rule: str = "", fix: str = "") -> Problem:
        line, place = self(*paths)
        return Problem(line, place, what, rule, fix, self.arms)

    def attempt(self, call: Callable[[], Any], *paths: str) -> Iterator[Problem]:
        """The problem that a call raises, at the first of these keys that was written."""
        try:
            call()
        except OstinatoError as error:
            line, place = self(*paths)
            yield Problem.of(error, line, place, self.arms)


def _model(arm: Arm, locate: _Locate) -> Iterator[Problem]:
    model = arm.model
    yield from locate.attempt(lambda: derive.model_hidden(model), "mlp.hidden", "mlp.ratio", "mlp", "d_model")
    yield from locate.attempt(lambda: derive.kv_heads(model), "kv_heads", "heads")
    widths = list(locate.attempt(lambda: derive.head_dim(model), "heads", "d_model"))
    yield from widths
    if not widths and model.positions == "rope" and "gqa" in model.layers and derive.head_dim(model) % 2:
        yield locate.problem(
            ("head_dim", "heads", "d_model"),
            f"rope with heads of {derive.head_dim(model)} channels",
            "rope turns channels in pairs: head_dim is even",
            f"head_dim: {derive.head_dim(model) + 1}, or positions: alibi",
        )
    refused = list(_drawn(model, model.passes, locate)) if isinstance(model.passes, Passes) else []
    refused = refused or list(locate.attempt(lambda: derive.arm_applications(model), "schedule", "passes", "layers"))
    yield from refused
    if not refused:
        linear = ("inject",) if model.inject == "linear" else ()
        every = [model]
        if isinstance(model.passes, Passes) and derive.counts_passes(model):
            every += [always(model, r) for r in range(least(model.passes), min(most(model.passes), SHALLOW) + 1)]
        unclear = list(locate.attempt(lambda: [derive.pass_groups(one) for one in every], *linear, "pass_norm", "backprop"))
        yield from unclear
        if not unclear:
            yield from locate.attempt(lambda: truncation.check(model), "backprop")
    yield from locate.attempt(lambda: derive.tied_to(model), "tie")
    yield from locate.attempt(
        lambda: [derive.layer_window(model, layer, 1) for layer in range(1, len(model.layers) + 1)], "windows.pattern", "windows", "family"
    )
    if model.value_embeddings != "none":
        if "gdn" in model.layers:
            yield locate.problem(
                ("value_embeddings", "layers"),
                f"value_embeddings {model.value_embeddings} with gdn layers",
                "a value embedding is added to the values of attention",
                "value_embeddings: none",
            )
        if model.d_model < derive.GATE_CHANNELS:
            yield locate.problem(
                ("d_model",),
                f"d_model {model.d_model} with value embeddings",
                f"their gate reads the first {derive.GATE_CHANNELS} channels",
                f"d_model: {derive.GATE_CHANNELS}, or more",
            )
    if model.residual_scaling != "none" and model.init.rule == "loop2":
        yield locate.problem(
            ("residual_scaling", "init.rule"),
            f"residual_scaling {model.residual_scaling} with init loop2",
            "it scales output projections, and loop2 starts them at 0",
            "residual_scaling: none, or init: {rule: normal}",
        )


def _drawn(model: Model, draw: Passes, locate: _Locate) -> Iterator[Problem]:
    """What a number of passes that changes from step to step asks for."""
    try:
        schedule = derive.arm_schedule(model)
    except OstinatoError:
        return  # which is told of as that of any model
    if not schedule.free:
        yield locate.problem(
            ("passes",),
            f"passes are drawn, and the schedule {schedule.text} has no {{r}}",
            "a draw is the value of {r}, anew every training step",
            "schedule: (…)x{r} around what repeats, or leave passes out",
        )
        return
    if schedule.nested:
        yield locate.problem(
            ("passes",),
            f"passes are drawn, and in {schedule.text} {{r}} stands within {{r}}",
            "a group of a draw runs r times, not r times r",
            "one {r} a group, as (1..2)x{r} (3..4)x{r}",
        )
    fits = bisect_right(range(1, MOST_APPLICATIONS + 1), MOST_APPLICATIONS, key=lambda r: sum(length(term, r) for term in schedule.terms))
    if most(draw) > fits:
        uniform = f"uniform: [{draw.uniform[0]}, {fits}]" if draw.uniform and draw.uniform[0] <= fits else ""
        poisson = f"poisson: {fits // 16 - 1}" if draw.poisson and fits >= 32 else ""
        said = f"uniform: [{draw.uniform[0]}, {draw.uniform[1]}]" if draw.uniform else f"poisson: {draw.poisson:g}"
        yield locate.problem(
            ("passes",),
            f"{said} draws up to {most(draw):,} passes, and {schedule.text} has more than {MOST_APPLICATIONS:,} applications then",
            f"the deepest step has at most {MOST_APPLICATIONS:,} applications, which here are {fits:,} passes",
            uniform or poisson or "fewer passes, or fewer layers in (…)x{r}",
        )
    if model.application_scalars:
        yield locate.problem(
            ("passes", "application_scalars"),
            "drawn passes with application_scalars",
            "every application has scalars of its own, and how many there are changes from step to step",
            "application_scalars: no, or passes: 4",
        )


def _data_and_recipe(arm: Arm, locate: _Locate) -> Iterator[Problem]:
    recipe, data = arm.recipe, arm.data
    if (data.tokenizer.bpe is None) == (data.tokenizer.file is None):
        yield from locate.attempt(
            lambda: derive.vocab(data.tokenizer), "data.tokenizer.file", "data.tokenizer.bpe", "data.tokenizer", "data"
        )
    yield from locate.attempt(lambda: derive.recipe_steps(recipe), *_budget_keys(recipe))
    yield from locate.attempt(lambda: derive.optimizer_groups(recipe, arm.model), "recipe.groups", "recipe.optimizer")
    if recipe.micro_batch is not None and recipe.micro_batch < recipe.context:
        yield locate.problem(
            ("recipe.micro_batch",),
            f"micro_batch {recipe.micro_batch:,} is less than one row of context {recipe.context:,}",
            "a forward pass holds whole rows",
            f"micro_batch: {recipe.context}",
        )
    rates = recipe.lr_schedule
    if rates.warmup + rates.decay > 1 + 1e-9:
        yield locate.problem(
            ("recipe.lr_schedule.decay", "recipe.lr_schedule.warmup"),
            f"warmup {rates.warmup:g} and decay {rates.decay:g} are more than the whole run",
            "both are shares of the tokens, and do not overlap",
            f"decay: {1 - rates.warmup:g}",
        )
    if len(set(arm.seeds)) < len(arm.seeds) or not arm.seeds:
        yield locate.problem(
            ("seeds",),
            "no seed" if not arm.seeds else f"seeds {', '.join(map(str, arm.seeds))} name one twice",
            "each seed is one run",
            "seeds: [1, 2]",
        )
    for seed in set(arm.seed_names) - set(arm.seeds):
        yield locate.problem(
            ("seed_names",), f"seed_names names seed {seed}", f"the seeds here are {', '.join(map(str, arm.seeds))}", "name one of these"
        )


def _budget_keys(recipe: Recipe) -> tuple[str, ...]:
    small = recipe.batch < recipe.context
    return ("recipe.batch", "recipe.context") if small else ("recipe.tokens", "recipe.batch")


def _evaluation(arm: Arm, evaluate: Evaluate, keys: dict[str, Any], locate: _Locate) -> Iterator[Problem]:
    context = evaluate.context or arm.recipe.context
    at = _Locate(keys)
    if arm.model.positions == "learned" and context > arm.recipe.context:
        yield locate.problem(
            ("positions",),
            f"learned positions for {arm.recipe.context:,} tokens, measured at {context:,}",
            "there is one row of positions a token of the recipe's context",
            f"evaluate: {{context: {arm.recipe.context}}}",
        )
    if evaluate.windows == "documents" and context < 2:
        yield (at if evaluate.context else locate).problem(
            ("evaluate.context",) if evaluate.context else ("recipe.context",),
            f"documents measured through windows of {context} token",
            "such a window holds BOS and at least one token of the document",
            "evaluate: {context: 2}, or windows: rows",
        )
    elif evaluate.stride is not None and evaluate.windows == "documents" and evaluate.stride >= context:
        yield at.problem(
            ("evaluate.stride",),
            f"stride {evaluate.stride:,} is not less than the context {context:,}",
            "every target is measured once, and each window begins with BOS",
            f"stride: {context // 2}",
        )
    if evaluate.batch < context:
        yield at.problem(
            ("evaluate.batch", "evaluate.context"),
            f"batch {evaluate.batch:,} is less than one window of {context:,}",
            "a forward pass holds whole windows",
            f"batch: {context}",
        )


def _against(arm: Arm, study: Study, locate: _Locate) -> Iterator[Problem]:
    if arm.against is None:
        return
    others = [other.name for other in study.arms if other.name != arm.name]
    if arm.name == study.reference:
        yield locate.problem(
            ("against",),
            f"{arm.name} is the reference and is against {arm.against!r}",
            "the reference is what arms are compared with when they name no other",
            "leave against out here, or name another reference",
        )
    elif arm.against not in others:
        near = difflib.get_close_matches(arm.against, others, n=1)
        own = arm.against == arm.name
        yield locate.problem(
            ("against",),
            f"{arm.name} is against itself" if own else f"{arm.against!r} is no arm",
            "an arm is compared with another arm of this study, in the same size",
            f"against: {near[0] if near and not own else study.reference}",
        )


def _waits_once(arm: Arm, locate: _Locate) -> Iterator[Problem]:
    if arm.contingent is not None and arm.run_if is not None:
        yield locate.problem(
            ("run_if",),
            "both run_if and contingent",
            "an arm runs by itself once a condition holds (run_if), or only when a person names it (contingent)",
            "keep one of them",
        )


def _whole(study: Study, keys: dict[str, Any]) -> Iterator[Problem]:
    locate = _Locate(keys)
    names = [arm.name for arm in study.arms]
    if study.reference not in names:
        near = difflib.get_close_matches(study.reference, names, n=1)
        line = getattr(keys.get("reference"), "line", None)
        yield Problem(
            line,
            "reference",
            f"{study.reference!r} is no arm",
            "gains are taken against an arm of this study",
            near[0] if near else f"one of {', '.join(names[:8])}",
        )
    yield from locate.attempt(lambda: clauses(study.evaluate.every), "evaluate.every")
    yield from locate.attempt(lambda: clauses(study.checkpoints.every), "checkpoints.every")
    if study.evaluate.stride is not None and study.evaluate.windows == "rows":
        yield locate.problem(
            ("evaluate.stride",),
            "stride with windows: rows",
            "rows follow each other; a stride is for documents",
            "leave stride out, or windows: documents",
        )
    called = [*names, *(name for arm in study.arms for name in arm.seed_names.values())]
    for name in sorted({name for name in called if called.count(name) > 1}):
        yield Problem(None, "arms", f"the name {name!r} is given twice", "an arm or a run has one name", "rename it in seed_names")


def same_arms(study: Study) -> list[str]:
    """A warning for arms that are one and the same run."""
    found: dict[str, str] = {}
    warnings = []
    for arm in study.arms:
        identity = fingerprint([run_identity(arm, 0, ""), arm.data])
        if identity in found:
            warnings.append(f"arms {found[identity]} and {arm.name} are the same model with the same recipe: they share their runs")
        found.setdefault(identity, arm.name)
    return warnings
