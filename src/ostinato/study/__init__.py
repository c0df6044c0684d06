"""The study file: frozen, strict records, what follows from them, the shipped studies, and fingerprints."""

from ostinato.study.derive import (
    GroupResolved,
    Steps,
    arm_applications,
    arm_schedule,
    has_value_table,
    head_dim,
    kv_heads,
    layer_window,
    model_hidden,
    optimizer_groups,
    recipe_steps,
    tied_to,
    vocab,
)
from ostinato.study.fingerprint import fingerprint, run_fingerprint
from ostinato.study.load import load_study, shipped, sizes, template
from ostinato.study.points import measurements, points

__all__ = [
    "GroupResolved",
    "Steps",
    "arm_applications",
    "arm_schedule",
    "fingerprint",
    "has_value_table",
    "head_dim",
    "kv_heads",
    "layer_window",
    "load_study",
    "measurements",
    "model_hidden",
    "optimizer_groups",
    "points",
    "recipe_steps",
    "run_fingerprint",
    "shipped",
    "sizes",
    "template",
    "tied_to",
    "vocab",
]
