"""Draw up the ledger of an arm from its records alone: no torch, no data, no module."""

from __future__ import annotations

from fractions import Fraction

from ostinato.ledger.every_number import at_every_number
from ostinato.ledger.flops import PUBLISHED, TRAINER, TRAINING, Convention, application_flops, head_flops
from ostinato.ledger.inventory import OUTSIDE, ParameterRow, inventory, used_by
from ostinato.ledger.ledger import ApplicationRow, Ledger
from ostinato.ledger.memory import cache_row, memory
from ostinato.schedule import Application, effective_depth, unique_layers
from ostinato.study.derive import arm_applications, layer_window, recipe_steps
from ostinato.study.draws import always, probabilities, shares
from ostinato.study.records import Arm, Model, Passes
from ostinato.study.truncation import without_gradient


def account(arm: Arm, vocab: int, training_tokens: int | None = None, words: int | None = None) -> Ledger:
    """All that `arm` costs.

    vocab: entries of its tokenizer.  training_tokens, words: size of the training part, where it is known.
    """
    model, context = arm.model, arm.recipe.context
    rows = inventory(model, vocab, context)
    applications = arm_applications(model)
    used = used_by(model, rows, applications)
    steps = recipe_steps(arm.recipe)
    forward = _forward(model, rows, context, PUBLISHED)
    published, total = _training(arm, rows, vocab, PUBLISHED)
    trainer, _ = _training(arm, rows, vocab, TRAINER)
    table = _table(arm, applications, used, forward)
    by_role: dict[str, int] = {}
    for row in rows:
        by_role[row.role] = by_role.get(row.role, 0) + row.size
    names = {row.name for tensors in used for row in tensors}
    unused = [row for row in rows if row.layer is not None and row.name not in names]
    return Ledger(
        arm=arm,
        vocab=vocab,
        params_total=sum(by_role.values()),
        params_nonembedding=sum(size for role, size in by_role.items() if role not in OUTSIDE),
        params_by_role=by_role,
        params_applied=sum(row.params for row in table),
        unused=tuple(row.name for row in unused),
        params_unused=sum(row.size for row in unused),
        applications=table,
        flops_per_token=float(published),
        flops_forward_per_token=float(sum(forward) + head_flops(model, vocab)),
        flops_per_token_trainer=float(trainer),
        flops_total=float(total * steps.tokens),
        tokens=steps.tokens,
        steps=steps.steps,
        tokens_per_step=steps.tokens_per_step,
        epochs=None if training_tokens is None else steps.tokens / training_tokens,
        first_pass_ends=training_tokens,
        words=words,
        effective_depth=effective_depth(applications),
        unique_layers=unique_layers(applications),
        memory=_memory(arm, rows, vocab),
        cache_bytes_per_token=sum(row.cache_bytes_per_token for row in table),
        cache_bytes_per_token_full=sum(row.cache_bytes_per_token for row in table if row.cache_tokens is None),
        cache_bytes_fixed=sum(row.cache_bytes_fixed for row in table),
    )


def _forward(model: Model, rows: list[ParameterRow], context: int, convention: Convention) -> list[Fraction]:
    """Of every application, a token."""
    applications = arm_applications(model)
    return [application_flops(model, tensors, application, context, convention)
            for application, tensors in zip(applications, used_by(model, rows, applications), strict=True)]  # fmt: skip


def _training(arm: Arm, rows: list[ParameterRow], vocab: int, convention: Convention) -> tuple[Fraction, Fraction]:
    """Forward and backward of a token: as is to be expected, and on average over the very steps of the arm's runs, which differ where
    passes are drawn."""

    def of(model: Model) -> Fraction:
        cut, forward = without_gradient(model), _forward(model, rows, arm.recipe.context, convention)
        applied = sum((flops if index in cut else TRAINING * flops for index, flops in enumerate(forward)), Fraction())
        return applied + TRAINING * head_flops(model, vocab)

    draw = arm.model.passes
    if not isinstance(draw, Passes):
        return (whole := of(arm.model)), whole
    expected, planned = probabilities(draw), shares(draw, arm.seeds, recipe_steps(arm.recipe).steps)
    found = at_every_number(arm.model, expected.keys() | planned.keys(), lambda passes: (of(always(arm.model, passes)),))
    return tuple(sum((Fraction(share) * found[passes][0] for passes, share in each.items()), Fraction()) for each in (expected, planned))


def _memory(arm: Arm, rows: list[ParameterRow], vocab: int) -> dict[str, int]:
    """Of the step with the most passes."""
    model = arm.model
    if isinstance(model.passes, Passes):
        model = always(model, max(shares(model.passes, arm.seeds, recipe_steps(arm.recipe).steps)))
    applications = arm_applications(model)
    return memory(rows, applications, used_by(model, rows, applications), model, arm.recipe, vocab)


def _table(
    arm: Arm, applications: tuple[Application, ...], used: list[list[ParameterRow]], forward: list[Fraction]
) -> tuple[ApplicationRow, ...]:
    model, context = arm.model, arm.recipe.context
    scalars = 2 if model.application_scalars else 0
    seen: set[str] = set()
    table = []
    for application, tensors, flops in zip(applications, used, forward, strict=True):
        own = [row for row in tensors if row.role != "value_table"]
        kind = model.layers[application.layer - 1]
        cache = cache_row(model, application, context, arm.recipe.dtype)
        table.append(
            ApplicationRow(
                index=application.index,
                layer=application.layer,
                kind=kind,
                part=application.part,
                pass_=application.pass_,
                enters_pass=application.enters_pass,
                window=layer_window(model, application.layer, context) if application.attn and kind == "gqa" else None,
                params=scalars + sum(row.size for row in own),
                params_new=scalars + sum(row.size for row in own if row.name not in seen),
                flops_forward=float(flops),
                cache_bytes_per_token=cache.per_token,
                cache_tokens=cache.tokens,
                cache_bytes_fixed=cache.fixed,
            )
        )
        seen.update(row.name for row in own)
    return tuple(table)
