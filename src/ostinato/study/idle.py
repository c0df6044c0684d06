"""Keys that are set and do nothing in any arm: each is a warning, because its reader believes that it does something."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ostinato.study.derive import draws_h0, layer_window, optimizer_groups, pass_groups
from ostinato.study.draws import deepest
from ostinato.study.families import DEFAULTS
from ostinato.study.ready import CORPORA, hub_id
from ostinato.study.records import Arm, Data, Init, LrSchedule, Model, Muon, Recipe, Record, Study, Windows
from ostinato.study.truncation import without_gradient


class Rule(NamedTuple):
    """A key of an arm, the record that has its default, when it has an effect, and what it is for in words."""

    path: str
    record: type[Record]
    works: Callable[[Arm], bool]
    purpose: str


def _attends(arm: Arm) -> bool:
    return "gqa" in arm.model.layers


def _short_windows(arm: Arm) -> bool:
    return any(layer_window(arm.model, layer, 2**62) < 2**62 for layer in range(1, len(arm.model.layers) + 1))


def _with_muon(arm: Arm) -> bool:
    return any(group.kind == "muon" for group in optimizer_groups(arm.recipe, arm.model).values())


def _decays(arm: Arm) -> bool:
    return any(group.weight_decay for group in optimizer_groups(arm.recipe, arm.model).values())


def _own_text(arm: Arm) -> bool:
    return arm.data.corpus not in CORPORA


def _own_files(arm: Arm) -> bool:
    return _own_text(arm) and hub_id(arm.data.corpus) is None


def _repeats(arm: Arm) -> bool:
    return arm.model.inject != "linear" or bool(pass_groups(arm.model))


_NO_ATTENTION = "it is for attention, and no layer here is gqa"
RULES = (
    Rule("model.kv_heads", Model, _attends, _NO_ATTENTION),
    Rule("model.qk_norm", Model, _attends, _NO_ATTENTION),
    Rule("model.windows.pattern", Windows, _attends, _NO_ATTENTION),
    Rule("model.positions", Model, lambda arm: _attends(arm) or arm.model.positions in ("none", "learned"), _NO_ATTENTION),
    Rule("model.rope_base", Model, lambda arm: arm.model.positions == "rope" and _attends(arm), "it is for positions: rope, in attention"),
    Rule("model.windows.short", Windows, _short_windows, "it is for layers whose letter in windows.pattern is S"),
    Rule("model.init.std", Init, lambda arm: arm.model.init.rule == "normal" or arm.model.positions == "learned",
         "init.rule loop2 has scales of its own"),
    Rule("model.attn_gate", Model, _attends, "gdn layers have an output gate of their own"),
    Rule("model.inject", Model, _repeats, "inject linear is for a repeated group, as (1..4)x2, and no schedule here has one"),
    Rule("model.pass_norm", Model, lambda arm: bool(pass_groups(arm.model)), "no schedule here has a repeated group, as (1..4)x2"),
    Rule("model.backprop", Model, lambda arm: bool(without_gradient(deepest(arm.model))),
         "no schedule here has a repeated group, as (1..2)x4, of more passes than that"),
    Rule("model.h0", Model, lambda arm: draws_h0(arm.model), "it is for inject: linear and a repeated group, as (1..4)x2"),
    Rule("recipe.decay_to_zero", Recipe, _decays, "no weight decays"),
    Rule("recipe.lr_schedule.shape", LrSchedule, lambda arm: arm.recipe.lr_schedule.decay > 0, "with decay 0 the rate never falls"),
    Rule("recipe.lr_schedule.final", LrSchedule, lambda arm: arm.recipe.lr_schedule.decay > 0, "with decay 0 the rate never falls"),
    *(Rule(f"recipe.muon.{key}", Muon, _with_muon, "Muon holds no parameter") for key in Muon.model_fields if key != "momentum_steps"),
    Rule("recipe.muon.momentum_steps", Muon, lambda arm: _with_muon(arm) and arm.recipe.muon.momentum_start is not None,
         "it is the length of the ramp from momentum_start"),
    Rule("data.buffer", Data, lambda arm: arm.data.packing == "best-fit", "it is for packing: best-fit"),
    Rule("data.field", Data, _own_text, "it is for JSONL and Parquet"),
    Rule("data.separator", Data, _own_files, "it is for text files"),
    Rule("data.encoding", Data, _own_files, "it is for text and JSONL files"),
    *(Rule(f"data.{key}", Data, _own_text, "it is for text of your own") for key in ("config", "split", "join")),
)  # fmt: skip


def idle(study: Study) -> list[str]:
    """One sentence for each key that differs from its default, and from its family's, in some arm and has no effect where it does."""
    found = []
    for rule in RULES:
        default = rule.record.model_fields[rule.path.rpartition(".")[2]].default
        arms = [arm for arm in study.arms if _value(arm, rule.path) not in (default, _of_family(arm, rule.path))]
        if arms and not any(rule.works(arm) for arm in arms):
            found.append(f"{rule.path} is set and does nothing: {rule.purpose}")
    return found


def _value(arm: Arm, path: str) -> Any:
    value: Any = arm
    for key in path.split("."):
        value = getattr(value, key)
    return value


def _of_family(arm: Arm, path: str) -> Any:
    value: Any = {"model": DEFAULTS[arm.model.family]}
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value
