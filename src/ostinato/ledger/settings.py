"""What an arm sets beside its costs, said in words and by key: the axes on which two arms may differ without costing more or less."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from ostinato.study.derive import ROLES, arm_schedule, head_dim, kv_heads, model_hidden, optimizer_groups, pass_groups, tied_to
from ostinato.study.draws import deepest, fixed
from ostinato.study.fingerprint import MEMORY_ONLY
from ostinato.study.records import Arm, Data, Model, Passes, Recipe
from ostinato.study.truncation import gradient_passes, without_gradient

_MEMORY_ONLY = {f"recipe.{key}" for key in MEMORY_ONLY}
_SAID = (
    "model.family", "model.layers", "model.d_model", "model.heads", "model.kv_heads", "model.head_dim", "model.mlp.", "model.norm.weight",
    "model.positions", "model.rope_base", "model.qk_norm", "model.windows.", "model.value_embeddings", "model.bigram_table",
    "model.embedding_norm", "model.application_scalars", "model.softcap", "model.tie", "model.schedule", "model.passes", "model.inject",
    "model.h0", "model.pass_norm", "model.backprop", "model.streams", "model.attn_gate", "model.residual_scaling", "model.init.",
    "recipe.tokens", "recipe.batch", "recipe.context", "recipe.optimizer", "recipe.lr", "recipe.weight_decay", "recipe.betas",
    "recipe.groups", "recipe.clip", "recipe.dtype", "data.corpus", "data.packing", "data.document_mask", "data.tokenizer.",
    "data.training_share",
)  # fmt: skip
"""Beginnings of the keys that `settings` speaks of, or that a cost follows from."""


def settings(arm: Arm) -> dict[str, str]:
    """The axes that are said in words, in the order in which they are printed."""
    model, recipe, data = arm.model, arm.recipe, arm.data
    schedule = recipe.lr_schedule
    return {
        "schedule": schedule_words(model),
        "injection": f"linear, h0 {model.h0}" if model.inject == "linear" else model.inject,
        "backpropagation": _backprop(model),
        "residual scaling": scaling_words(model),
        "positions": _positions(model),
        "windows": _windows(model),
        "embedding and head": "tied" if model.tie_embeddings else "untied",
        "tied sublayers": ", ".join(f"{key} = {value}" for key, value in model.tie.items()) if tied_to(model) else "none",
        "value embeddings": model.value_embeddings,
        "bigram table": f"{model.bigram_table:,} rows" if model.bigram_table else "none",
        "width": f"d_model {model.d_model}, {model.heads} heads of {head_dim(model)} on {kv_heads(model)}",
        "MLP": f"{model.mlp.kind} {model_hidden(model)}",
        "mixers": model.layers[0] if len(set(model.layers)) == 1 else " ".join(model.layers),
        "block": _block(model),
        "initialisation": f"normal {model.init.std:g}" if model.init.rule == "normal" else model.init.rule,
        "learning rate": learning_rates(recipe, model),
        "learning-rate schedule": f"{schedule.shape}, warm-up {schedule.warmup:g}, decay {schedule.decay:g} to {schedule.final:g}",
        "optimizer": _optimizer(recipe, model),
        "batch": f"{recipe.batch // recipe.context} rows of {recipe.context:,}",
        "precision": recipe.dtype,
        "tokenizer": _tokenizer(data),
        "data": f"{data.corpus}, {data.packing}, document mask {'on' if data.document_mask else 'off'}{_share(data.training_share)}",
        "seeds": ", ".join(map(str, arm.seeds)),
    }


def kin(arm: Arm) -> tuple[str, str, float]:
    """What an arm and its control share at least: tokenizer, positions and the share of the training text."""
    return _tokenizer(arm.data), _positions(arm.model), arm.data.training_share


def other_settings(arm: Arm) -> dict[str, str]:
    """Every setting that `settings` does not speak of and no cost follows from, by its dotted key."""
    flat = {**_flat("model", arm.model.model_dump()), **_flat("recipe", arm.recipe.model_dump()), **_flat("data", arm.data.model_dump())}
    return {key: str(value) for key, value in flat.items() if key not in _MEMORY_ONLY and not key.startswith(_SAID)}


def model_settings(model: Model) -> dict[str, Any]:
    """The model's settings that could be a treatment, in one form whatever way they were written; for counting what changed."""
    said = model.model_dump(exclude={"family", "layers", "schedule", "passes", "mlp", "kv_heads", "head_dim", "tie"})
    plain = schedule_words(model) == f"1..{len(model.layers)}"
    return {
        "layers": model.layers,
        "schedule": "plain" if plain else schedule_words(model),
        "mlp": (model.mlp.kind, model_hidden(model) / model.d_model),
        "kv_heads": kv_heads(model),
        "head_dim": head_dim(model),
        "tie": tuple(sorted(tied_to(model).items())),
        **said,
    }


def schedule_words(model: Model) -> str:
    """The schedule as canonical text, with the value of {r}, or how it is drawn."""
    return arm_schedule(model).text + (f" with r = {model.passes}" if isinstance(model.passes, int) else _drawn(model.passes))


def _drawn(draw: Passes | None) -> str:
    if draw is None:
        return ""
    said = f"uniform from {draw.uniform[0]} to {draw.uniform[1]}" if draw.uniform else f"Poisson-lognormal of {draw.poisson:g}"
    return f" with r drawn every step, {said}; measured at r = {fixed(draw)}"


def learning_rates(recipe: Recipe, model: Model, among: Container[str] = ROLES) -> str:
    """The rate, and those of roles of parameters that differ from it, of these: 0.02, head 0.004."""
    own = [f"{role} {lr:.4g}" for role, lr in rates_by_role(recipe, model).items() if lr != recipe.lr and role in among]
    return ", ".join([f"{recipe.lr:g}", *own])


def rates_by_role(recipe: Recipe, model: Model) -> dict[str, float]:
    """The learning rate of every role of parameter that there is, whether this model has it or not."""
    return {role: group.lr for role, group in optimizer_groups(recipe, model).items()}


def _flat(prefix: str, values: dict[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat.update(_flat(f"{prefix}.{key}", value) if isinstance(value, dict) else {f"{prefix}.{key}": value})
    return flat


def scaling_words(model: Model) -> str:
    """Residual scaling at the start: its name, or the depth that is given."""
    return model.residual_scaling if isinstance(model.residual_scaling, str) else f"for depth {model.residual_scaling:g}"


def _backprop(model: Model) -> str:
    if not without_gradient(deepest(model)):
        return "whole"
    if isinstance(model.passes, Passes):
        return "through the last half of every step's passes" if model.backprop == "half" else f"through the last {model.backprop} passes"
    passes = {gradient_passes(model, group.passes) for group in pass_groups(model)}
    return f"through the last {' or '.join(map(str, sorted(passes)))} passes"


def _tokenizer(data: Data) -> str:
    return data.tokenizer.file or f"BPE {data.tokenizer.bpe:,}"


def _positions(model: Model) -> str:
    return f"rope {model.rope_base:g}" if model.positions == "rope" else model.positions


def _share(share: float) -> str:
    return "" if share == 1 else f", {share:.3g} of the training text"


def _windows(model: Model) -> str:
    return "whole context" if set(model.windows.pattern) == {"L"} else f"{model.windows.pattern}, S = {model.windows.short} keys"


def _block(model: Model) -> str:
    parts = [f"norms {'with' if model.norm.weight else 'without'} weights", f"QK norm {model.qk_norm}"]
    parts += [words for on, words in ((model.embedding_norm, "embedding norm"), (model.application_scalars, "application scalars"),
                                      (model.attn_gate != "none", f"attention gate a {model.attn_gate}"),
                                      (model.pass_norm, "norm at the end of a pass"),
                                      (model.streams > 1, f"{model.streams} streams with hyper-connections")) if on]  # fmt: skip
    return ", ".join(parts + ([f"softcap {model.softcap:g}"] if model.softcap else []))


def _optimizer(recipe: Recipe, model: Model) -> str:
    differing = {role: group for role, group in recipe.groups.items() if group.model_dump(exclude={"lr", "width_base"}, exclude_none=True)}
    groups = "".join(f"; {role} {group.model_dump(exclude={'lr', 'width_base'}, exclude_none=True)}" for role, group in differing.items())
    clip = f"clip {recipe.clip:g}" if recipe.clip else "no clipping"
    return f"{recipe.optimizer}, betas {recipe.betas[0]:g} {recipe.betas[1]:g}, weight decay {recipe.weight_decay:g}, {clip}{groups}"
