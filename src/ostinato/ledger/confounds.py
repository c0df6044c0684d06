"""What could explain a difference between arms beside what a study means to compare, each as one sentence.

These are the ways in which published comparisons of looped models went wrong: input injection in one arm only, residual
scaling in one arm only, one learning rate for every depth, recurrent arms that spend more FLOPs than any control.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from ostinato.ledger.ledger import Ledger
from ostinato.ledger.settings import kin, model_settings, scaling_words
from ostinato.study.derive import pass_groups, tied_to

NEAR_FLOPS = 0.02
Value = TypeVar("Value")
_OWN_SENTENCE = {"inject", "h0", "pass_norm", "residual_scaling", "positions"}
"""Settings of the model that have a rule of their own here."""


def confounds(ledgers: Sequence[Ledger]) -> list[str]:
    """Warnings, one sentence each; none means that no rule found anything."""
    rules: tuple[Callable[[Sequence[Ledger]], list[str]], ...] = (
        _injection, _pass_norm, _scaling, _same_words, _one_rate, _unlike_tokens, _controls, _several_changes, _unused, _seeds,
    )  # fmt: skip
    return [sentence for rule in rules for sentence in rule(ledgers)]


def _names(ledgers: Sequence[Ledger]) -> str:
    names = [ledger.name for ledger in ledgers]
    shown = names if len(names) <= 6 else [*names[:5], f"{len(names) - 5} more"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _grouped(ledgers: Sequence[Ledger], key: Callable[[Ledger], Value]) -> dict[Value, list[Ledger]]:
    groups: dict[Value, list[Ledger]] = {}
    for ledger in ledgers:
        groups.setdefault(key(ledger), []).append(ledger)
    return groups


def _by_words(groups: dict[str, list[Ledger]]) -> str:
    return "; ".join(f"{words} in {_names(arms)}" for words, arms in groups.items())


def _looped(ledgers: Sequence[Ledger]) -> list[Ledger]:
    return [ledger for ledger in ledgers if any(row.enters_pass for row in ledger.applications)]


def _with_looping(what: str, looped: Sequence[Ledger], having: Sequence[Ledger], where: str) -> list[str]:
    """What only looped arms can have, and some or all of them have."""
    others = [ledger for ledger in looped if ledger not in having]
    if having and others:
        return [f"{what} in some looped arms only: {where} {_names(having)}, not in {_names(others)}"]
    return [f"{what} comes with looping: {where} {_names(having)}, and no looped arm goes without"] if having else []


def _injection(ledgers: Sequence[Ledger]) -> list[str]:
    """Injection matters where a later pass begins; arms that never enter a later pass have nothing to inject."""
    looped = _looped(ledgers)
    injecting = [ledger for ledger in looped if _injects(ledger)]
    idle = [ledger for ledger in ledgers if ledger.arm.model.inject != "none" and ledger not in injecting]
    kinds = _grouped(injecting, lambda ledger: ledger.settings["injection"])
    found = _with_looping("injection", looped, injecting, "the input comes in again in")
    if len(kinds) > 1:
        found.append("different injection: " + _by_words(kinds))
    if idle:
        found.append(f"injection is set but never happens in {_names(idle)}: no later pass begins there")
    return found


def _injects(ledger: Ledger) -> bool:
    """`add` happens wherever a later pass begins, `linear` in repeated groups."""
    model = ledger.arm.model
    return model.inject == "add" or (model.inject == "linear" and bool(pass_groups(model)))


def _pass_norm(ledgers: Sequence[Ledger]) -> list[str]:
    """Like injection, a norm that only looped arms can have."""
    asked = [ledger for ledger in ledgers if ledger.arm.model.pass_norm]
    normed = [ledger for ledger in asked if pass_groups(ledger.arm.model)]
    idle = [ledger for ledger in asked if ledger not in normed]
    found = _with_looping("a norm at the end of a pass", _looped(ledgers), normed, "in")
    if idle:
        found.append(f"pass_norm is set but never happens in {_names(idle)}: no group of layers repeats there")
    return found


def _scaling(ledgers: Sequence[Ledger]) -> list[str]:
    by_kind = _grouped(ledgers, lambda ledger: scaling_words(ledger.arm.model))
    return ["residual scaling at initialisation in some arms only: " + _by_words(by_kind)] if len(by_kind) > 1 else []


def _same_words(ledgers: Sequence[Ledger]) -> list[str]:
    """Settings that a comparison of schedules keeps the same."""
    found = []
    for axis in ("tokenizer", "data", "batch", "positions", "embedding and head", "precision", "initialisation", "optimizer",
                 "learning-rate schedule"):  # fmt: skip
        groups = _grouped(ledgers, lambda ledger, axis=axis: ledger.settings[axis])
        if len(groups) > 1:
            tokenizers = "different tokenizers, so losses a token cannot be compared (bits per byte can)"
            found.append(f"{tokenizers if axis == 'tokenizer' else f'different {axis}'}: {_by_words(groups)}")
    return found


def _one_rate(ledgers: Sequence[Ledger]) -> list[str]:
    rates = _grouped(ledgers, lambda ledger: ledger.settings["learning rate"])
    found = []
    for rate, arms in rates.items():
        depths = {ledger.effective_depth for ledger in arms}
        if len(depths) > 1:
            said = "one set of learning rates" if "," in rate else f"one learning rate, {rate},"
            found.append(f"{said} for effective depths {min(depths):g} to {max(depths):g}: what suits one depth may not suit another")
    if len(rates) > 1:
        found.append("different learning rates: " + _by_words(rates))
    return found


def _unlike_tokens(ledgers: Sequence[Ledger]) -> list[str]:
    budgets = sorted(_grouped(ledgers, lambda ledger: ledger.tokens).items())
    said = _by_words({f"{tokens:,}": arms for tokens, arms in budgets})
    return [f"different numbers of training tokens: {said}"] if len(budgets) > 1 else []


def _controls(ledgers: Sequence[Ledger]) -> list[str]:
    """Every arm that shares parameters has an untied arm of equal training FLOPs, or is named here with the nearest there is.

    A control has the same tokenizer and positions; total FLOPs are matched, so that a shorter budget may be what matches them.
    """
    found: dict[str, list[Ledger]] = {}
    for ledger in ledgers:
        if not _shares(ledger):
            continue
        controls = [other for other in ledgers if not _shares(other) and kin(other.arm) == kin(ledger.arm)]
        if any(_apart(other, ledger) <= NEAR_FLOPS for other in controls):
            continue
        alike = [other for other in controls if other.tokens == ledger.tokens] or controls
        near = min(alike, key=lambda other: _apart(other, ledger), default=None)
        words = f"the nearest, {near.name}, spends {near.flops_total:.3g}" if near else "there is no untied arm to compare with"
        found.setdefault(words, []).append(ledger)
    return [f"no untied control of equal training FLOPs for {_names(arms)} ({_flops(arms)}): {words}" for words, arms in found.items()]


def _shares(ledger: Ledger) -> bool:
    """Does any of its parameters run more than once in a forward pass?"""
    return any(row.pass_ > 1 for row in ledger.applications) or bool(tied_to(ledger.arm.model))


def _apart(other: Ledger, ledger: Ledger) -> float:
    return abs(other.flops_total / ledger.flops_total - 1)


def _flops(ledgers: Sequence[Ledger]) -> str:
    low, high = min(ledger.flops_total for ledger in ledgers), max(ledger.flops_total for ledger in ledgers)
    return f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"


def _several_changes(ledgers: Sequence[Ledger]) -> list[str]:
    """An arm that differs from every other arm in two settings of the model or more cannot say which of them mattered."""
    all_settings = {ledger.name: model_settings(ledger.arm.model) for ledger in ledgers}
    found = []
    for ledger in ledgers:
        mine = all_settings[ledger.name]
        changes = {
            name: [key for key, value in mine.items() if value != other[key] and key not in _OWN_SENTENCE]
            for name, other in all_settings.items()
            if name != ledger.name
        }
        if changes and min(map(len, changes.values())) > 1:
            nearest = min(changes, key=lambda name: len(changes[name]))
            keys = changes[nearest]
            found.append(f"{ledger.name} changes several settings at once: even against {nearest}, {', '.join(keys[:-1])} and {keys[-1]}")
    return found


def _unused(ledgers: Sequence[Ledger]) -> list[str]:
    return [
        f"{ledger.name} has {ledger.params_unused:,} parameters that no application uses: {ledger.unused[0]}"
        + (f" and {len(ledger.unused) - 1} more tensors" if len(ledger.unused) > 1 else "")
        for ledger in ledgers
        if ledger.unused
    ]


def _seeds(ledgers: Sequence[Ledger]) -> list[str]:
    found = []
    groups = _grouped(ledgers, lambda ledger: ledger.settings["seeds"])
    if len(groups) > 1:
        found.append("different seeds: " + _by_words(groups))
    single = [ledger for ledger in ledgers if len(ledger.arm.seeds) == 1]
    if single:
        found.append(f"one seed only in {_names(single)}: a difference cannot be told from the noise between seeds")
    return found
