"""Fingerprints: the same configuration has the same one, in every process, on every machine, whatever the arm is called."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, is_dataclass
from functools import lru_cache
from typing import Any

from pydantic import BaseModel

from ostinato.schedule import MOST_APPLICATIONS, Schedule, effective_depth
from ostinato.schedule.terms import Run, Term, length
from ostinato.study.derive import arm_applications, arm_schedule, head_dim, kv_heads, model_hidden, pass_groups, tied_to
from ostinato.study.draws import always, deepest, fixed, least, most
from ostinato.study.records import Arm, Model, Passes
from ostinato.study.truncation import gradient_passes, without_gradient

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
    scaling by the effective depth and by the same number; `backprop: half` of four passes and 2; a draw of one schedule in other words,
    or with a `backprop` that cuts nothing in its deepest step. `again` keeps the runs of one model and recipe apart.
    """
    model = arm.model.model_dump(mode="json", exclude={"schedule", "passes", "mlp", "heads", "kv_heads", "head_dim", "tie"})
    if isinstance(arm.model.passes, Passes):
        model["passes"] = arm.model.passes.model_dump(mode="json", exclude_none=True)
        model["at_every_number"] = at_every_number(arm_schedule(arm.model), max(most(arm.model.passes), 2 * fixed(arm.model.passes), 3))
        model["backprop"] = _learnt(arm.model) or None
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


@lru_cache(maxsize=256)
def at_every_number(schedule: Schedule, last: int) -> str:
    """sha256 of the applications with 1, 2, …, `last` passes, as far as there are 4,096 at most: two schedules of which a draw, or a
    measure with up to twice its middle, could ever tell one from the other have different ones. What a single pass begins and ends with
    follows from two and three."""
    digest = hashlib.sha256()
    for passes in range(1, last + 1):
        if sum(length(term, passes) for term in schedule.terms) > MOST_APPLICATIONS:
            break
        digest.update(b"".join(_applied(term, passes) for term in schedule.terms) + b"\n")
    return digest.hexdigest()


def _applied(term: Term, passes: int, part: str = "both") -> bytes:
    """The applications of a term as bytes, which are repeated faster than applications are made."""
    part = term.part if term.part != "both" else part
    inside = (_run(term.first, term.last, part),) if isinstance(term, Run) else (_applied(inner, passes, part) for inner in term.terms)
    return b"".join(inside) * (passes if term.times is None else term.times)


@lru_cache(maxsize=256)
def _run(first: int, last: int, part: str) -> bytes:
    return b"".join(b"%d:%s " % (layer, part.encode()) for layer in range(first, last + 1))


def _learnt(model: Model) -> list[list[int]]:
    """Where a draw cuts anything: how many passes have a gradient of every number that its groups could have, from those of the step of
    the fewest passes to those of the deepest."""
    if not without_gradient(deepest(model)):
        return []
    numbers = {group.passes for one in (always(model, least(model.passes)), deepest(model)) for group in pass_groups(one)}
    return [[passes, gradient_passes(model, passes)] for passes in range(min(numbers), max(numbers) + 1)]


def run_fingerprint(arm: Arm, seed: int, data_fingerprint: str) -> str:
    """The name of a run in the store: sha256 of `run_identity`."""
    return fingerprint(run_identity(arm, seed, data_fingerprint))
