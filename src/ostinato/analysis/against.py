"""An arm beside the one that it is compared with: the gain where both are measured last, its course over training, and the ratio of costs.

The pair is the same targets where the tokenizer is the same, and whole documents in bits per byte where it is not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ostinato.analysis.arms import ArmResult
from ostinato.analysis.curves import Line, points_of
from ostinato.analysis.documents import Groupings, documents_over_seeds
from ostinato.analysis.paired import Paired, same_targets
from ostinato.analysis.seeds import OverSeeds, paired_over_seeds
from ostinato.errors import StoreError
from ostinato.store import LossTable, RunFolder, Store
from ostinato.store.losses import rates

Folders = Mapping[tuple[str, int], RunFolder]
Tables = Mapping[int, tuple[LossTable, LossTable]]


def against(base: ArmResult, result: ArmResult, folders: Folders, groupings: Groupings) -> ArmResult:
    """`result`, compared with the runs of the same seeds of `base`."""
    store, documents = groupings.store, groupings if other_tokens(base, result) else None
    result = replace(result, cost_ratios=cost_ratios(base, result))
    tables, at, final = losses_compared(base, result, folders)
    if not tables:
        unmeasured = [one.name for one in (result, base) if one.tokens is None]
        shared = f"no point is measured in both this arm and {'the reference' if base.reference else base.name}"
        return replace(result, problem=f"{unmeasured[0]} is not measured yet" if unmeasured else shared)
    try:
        pairing, over = compare_tables(tables, store, documents)
    except StoreError as error:
        return replace(result, problem=f"not comparable: {error.what}" + (f"; {error.fix}" if documents else ""))
    course = _course(base, result, folders, store, documents)
    return replace(result, gain_tokens=at, gain_final=final, pairing=pairing, seeds=over, course=course)


def other_tokens(base: ArmResult, result: ArmResult) -> bool:
    """Whether two arms have different tokenizers, so that documents are compared and not targets."""
    return base.arm.data.tokenizer != result.arm.data.tokenizer


def compare_tables(tables: Tables, store: Store, documents: Groupings | None = None) -> tuple[Paired, OverSeeds]:
    """Target by target, or document by document when `documents` is given. tables: {seed: (losses of the reference, losses of the arm)}.

    Raises StoreError when they cannot be compared.
    """
    first = next(iter(tables.values()))
    for pair in tables.values():
        if not documents:
            same_targets(*pair)
        for one, other in zip(first, pair, strict=True):
            same_targets(one, other)
    if documents:
        return documents_over_seeds(tables, (documents.of(first[0].target_id), documents.of(first[1].target_id)))
    return paired_over_seeds(tables, store.targets(first[0].target_id))


def losses_compared(base: ArmResult, result: ArmResult, folders: Folders) -> tuple[Tables, int, bool]:
    """What two arms are compared on: losses by seed, {} when nothing is shared; the arm's tokens there, and whether that is the end."""
    base_at, at, final, seeds = _shared_point(base, result, folders)
    points = ((base.name, base_at), (result.name, at))
    tables = {seed: tuple(folders[name, seed].read_losses(result.part, tokens) for name, tokens in points) for seed in seeds}
    return tables, at, final


def cost_ratios(base: ArmResult, result: ArmResult) -> dict[str, float]:
    """What `result` costs times what `base` does, of what is known of both."""
    costs = [
        {"flops_total": one.ledger.flops_total, "flops_per_token": one.ledger.flops_per_token,
         "seconds": one.seconds if one.final else None, "tokens_per_s": one.tokens_per_s,
         "peak_bytes": one.peak_bytes, "memory_estimate": one.ledger.memory_total,
         "cache_bytes_per_token": one.ledger.cache_bytes_per_token, "cache_bytes_fixed": one.ledger.cache_bytes_fixed}
        for one in (base, result)
    ]  # fmt: skip
    return {name: value / costs[0][name] for name, value in costs[1].items() if value is not None and costs[0][name]}


def _shared_point(reference: ArmResult, result: ArmResult, folders: Folders) -> tuple[int, int, bool, list[int]]:
    """(tokens of the reference, tokens of the arm, whether both are the end, seeds) of the comparison; no seeds when nothing is shared.

    Runs that are both at their end are compared there; while none are, at the last point that both have measured.
    """
    ends = {one.name: {run.seed: run.tokens for run in one.runs if run.final and run.tokens} for one in (reference, result)}
    ended = [seed for seed in result.arm.seeds if all(seed in seeds for seeds in ends.values())]
    if ended:
        return ends[reference.name][ended[0]], ends[result.name][ended[0]], True, ended
    shared: dict[int, set[int]] = {}
    for seed in result.arm.seeds:
        pair = [folders.get((name, seed)) for name in (reference.name, result.name)]
        if all(pair):
            shared[seed] = set.intersection(*(points_of(folder, result.part) for folder in pair if folder))
    at = max((tokens for points in shared.values() for tokens in points), default=0)
    return at, at, False, [seed for seed, points in shared.items() if at in points]


def _course(base: ArmResult, result: ArmResult, folders: Folders, store: Store, documents: Groupings | None) -> dict[int, Line]:
    """By seed, the gain at every point that both have measured, in the unit of the comparison.

    Arms with another token budget have none: at the same tokens they are elsewhere in their learning-rate schedule.
    """
    if base.ledger.tokens != result.ledger.tokens:
        return {}
    found = {}
    for seed in result.arm.seeds:
        pair = [folders.get((name, seed)) for name in (base.name, result.name)]
        if pair[0] and pair[1] and (one := _line(*pair, result.part, store, documents)):
            found[seed] = one
    return found


def _line(base: RunFolder, arm: RunFolder, part: str, store: Store, documents: Groupings | None) -> Line:
    found = []
    for tokens in sorted(points_of(base, part) & points_of(arm, part)):
        if documents:
            pair = base.read_losses(part, tokens), arm.read_losses(part, tokens)
            gain = compare_tables({0: pair}, store, documents)[0].gain
        else:
            footers = [folder.read_loss_summary(part, tokens) for folder in (base, arm)]
            nats = [rates(footer["sum_nats"], footer["targets"], footer["bytes"])["nats"] for footer in footers]
            same = footers[0]["target_id"] == footers[1]["target_id"]
            gain = nats[0] - nats[1] if same and nats[0] is not None and nats[1] is not None else None
        if gain is not None:
            found.append((tokens, gain))
    return tuple(found)
