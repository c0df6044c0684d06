"""Fingerprints: the same configuration has the same one, in every process, on every machine, whatever the arm is called."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, is_dataclass
from typing import Any

from pydantic import BaseModel

from ostinato.schedule import effective_depth
from ostinato.study.derive import arm_applications, head_dim, kv_heads, model_hidden, tied_to
from ostinato.study.records import Arm, Model, Passes
from ostinato.study.truncation import without_gradient

RULES = 1
"""Raised when a change to the code changes the numbers of a run, so that stored runs of before are not taken for new ones."""

MEMORY_ONLY = {"micro_batch", "activation_checkpointing"}
"""Keys of the recipe that change memory and time, never results."""

LATER = ("attn_gate", "h0", "pass_norm", "backprop", "streams")
"""Keys of the model that came after runs were stored: at their defaults they are no part of an identity, so that those runs keep theirs."""


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    raise TypeError(f"{type(value).__name__} has no canonical form")


def canonical(record: Any) -> str:
    """JSON with sorted keys, no spaces and no NaN. Records and dataclasses count as their fields."""
    return json.dumps(record, default=_plain, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def fingerprint(record: Any) -> str:
    """sha256, in hex, of the canonical JSON of a record, a dataclass or plain data."""
    return hashlib.sha256(canonical(record).encode()).hexdigest()


def run_identity(arm: Arm, seed: int, data_fingerprint: str) -> dict[str, Any]:
    """All that a run's numbers follow from, in one form: the arm's name, note and evaluation are no part of it.

    Ways of writing the same model agree: no schedule and `1..8`; ratio 4 and the same hidden; a tie in one range or in two; residual
    scaling by the effective depth and by the same number; `backprop: half` of four passes and 2. `again` keeps the runs of one model
    and recipe apart.
    """
    model = arm.model.model_dump(mode="json", exclude={"schedule", "passes", "mlp", "heads", "kv_heads", "head_dim", "tie"})
    if isinstance(arm.model.passes, Passes):
        model["passes"] = arm.model.passes.model_dump(mode="json", exclude_none=True)
    else:
        model["backprop"] = sorted(without_gradient(arm.model)) or None
    for key in LATER:
        if model[key] == Model.model_fields[key].default:
            del model[key]
    model["mlp"] = {"kind": arm.model.mlp.kind, "hidden": model_hidden(arm.model)}
    model["heads"] = [arm.model.heads, kv_heads(arm.model), head_dim(arm.model)]
    model["tie"] = sorted([layer, part, owner] for (layer, part), owner in tied_to(arm.model).items())
    model["applications"] = [[application.layer, application.part] for application in arm_applications(arm.model)]
    if model["residual_scaling"] == effective_depth(arm_applications(arm.model)):
        model["residual_scaling"] = "effective"
    recipe = arm.recipe.model_dump(mode="json", exclude=MEMORY_ONLY)
    return ({} if arm.again is None else {"again": arm.again}) | {
        "rules": RULES,
        "model": model,
        "recipe": recipe,
        "document_mask": arm.data.document_mask,
        "packing": [arm.data.packing, arm.data.buffer if arm.data.packing == "best-fit" else None],
        "data": data_fingerprint,
        "seed": seed,
    }


def run_fingerprint(arm: Arm, seed: int, data_fingerprint: str) -> str:
    """The name of a run in the store: sha256 of `run_identity`."""
    return fingerprint(run_identity(arm, seed, data_fingerprint))
