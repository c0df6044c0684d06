"""What could explain a difference between arms beside what a study means to compare, each as one sentence.

These are the ways in which published comparisons of looped models went wrong: input injection in one arm only, residual
scaling in one arm only, one learning rate for every depth, recurrent arms that spend more FLOPs than any control.

A sentence takes three lines of a terminal or so, however many arms there are: it names a few, and counts the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar

from ostinato.ledger.ledger import Ledger
from ostinato.ledger.settings import kin, learning_rates, model_settings, rates_by_role, scaling_words
from ostinato.study.counted import several
from ostinato.study.derive import optimizer_groups, pass_groups, tied_to

NEAR_FLOPS = 0.02
MOST_NAMES, NAMES_WIDTH = 5, 64  # arms that are named, and the characters of their names
MOST_WIDTH = 190  # characters of what several groups of arms have
MOST_VALUES = 6  # numbers that are listed rather than spanned
FAST_CONNECTIONS = 2e-3  # at desk size 4e-3 cost 0.05 to 0.08 nats, 1e-3 up to 0.02, 2e-4 nothing (docs/decisions/0221)
MOST_ALIKE = 4  # sentences of one rule, before they become one
Value = TypeVar("Value")
_OWN_SENTENCE = {"inject", "h0", "pass_norm", "residual_scaling", "positions"}
"""Settings of the model that have a rule of their own here."""


def confounds(ledgers: Sequence[Ledger]) -> list[str]:
    """Warnings, one sentence each; none means that no rule found anything."""
    rules: tuple[Callable[[Sequence[Ledger]], list[str]], ...] = (
        _injection, _pass_norm, _scaling, _same_words, _one_rate, _connections, _unlike_tokens, _controls, _several_changes, _unused,
        _seeds,
    )  # fmt: skip
    return [sentence for rule in rules for sentence in rule(ledgers)]


def _names(ledgers: Sequence[Ledger]) -> str:
    names = [ledger.name for ledger in ledgers]
    most = max((n for n in range(1, MOST_NAMES + 1) if len(", ".join(names[:n])) <= NAMES_WIDTH), default=1)
    return _joined(names if len(names) <= most + 1 else [*names[:most], f"{len(names) - most} more"])


def _joined(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _grouped(ledgers: Sequence[Ledger], key: Callable[[Ledger], Value]) -> dict[Value, list[Ledger]]:
    groups: dict[Value, list[Ledger]] = {}
    for ledger in ledgers:
        groups.setdefault(key(ledger), []).append(ledger)
    return groups


def _by_words(groups: dict[str, list[Ledger]]) -> str:
    """What each group has and which arms it is; their numbers alone where names are too long, and the first groups alone of many."""
    said = [f"{words} in {_names(arms)}" for words, arms in groups.items()]
    if len("; ".join(said)) > MOST_WIDTH:
        said = [f"{words} in {several(len(arms), 'arm')}" for words, arms in groups.items()]
    most = max((n for n in range(1, len(said) + 1) if len("; ".join(said[:n])) <= MOST_WIDTH), default=1)
    return "; ".join(said if most == len(said) else [*said[:most], f"and {len(said) - most} more"])


def _looped(ledgers: Sequence[Ledger]) -> list[Ledger]:
    return [ledger for ledger in ledgers if any(row.enters_pass for row in ledger.applications)]


def _with_looping(what: str, looped: Sequence[Ledger], having: Sequence[Ledger], where: str) -> list[str]:
    """What only looped arms can have, and some or all of them have."""
    others = [ledger for ledger in looped if ledger not in having]
    if having and others:
        return [f"{what} in some looped arms only: {where} {_names(having)}, not in {_names(others)}"]
    if not having:
        return []
    named = _names(having) if len(having) <= MOST_NAMES else f"all {len(having)} looped arms"
    return [f"{what} comes with looping: {where} {named}, and no looped arm goes without"]


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
    roles = {role for ledger in ledgers for role in ledger.params_by_role}
    rates = _grouped(ledgers, lambda ledger: learning_rates(ledger.arm.recipe, ledger.arm.model, roles))
    found = []
    for rate, arms in rates.items():
        depths = {ledger.effective_depth for ledger in arms}
        if len(depths) > 1:
            said = "one set of learning rates" if "," in rate else f"one learning rate, {rate},"
            found.append(f"{said} for effective depths {min(depths):g} to {max(depths):g}: what suits one depth may not suit another")
    if len(rates) > MOST_ALIKE:
        found.append(f"{len(rates)} sets of learning rates: {_rate_spans(ledgers, roles)}")
    elif len(rates) > 1:
        found.append("different learning rates: " + _by_words(rates))
    return found


def _rate_spans(ledgers: Sequence[Ledger], roles: Collection[str]) -> str:
    """From the smallest to the largest of the recipes, and of those of these roles that differ from them."""

    def span(rates: Sequence[float]) -> str:
        low, high = min(rates), max(rates)
        return f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"

    each = [rates_by_role(ledger.arm.recipe, ledger.arm.model) for ledger in ledgers]
    spans = {role: span([rates[role] for rates in each]) for role in each[0] if role in roles}
    base = span([ledger.arm.recipe.lr for ledger in ledgers])
    return ", ".join([base, *(f"{role} {said}" for role, said in spans.items() if said != base)])


def _connections(ledgers: Sequence[Ledger]) -> list[str]:
    """Hyper-connections at the learning rate of matrices that Muon steps: AdamW then moves them far from their start."""
    fast = [ledger for ledger in ledgers if "connection" in ledger.params_by_role
            and optimizer_groups(ledger.arm.recipe, ledger.arm.model)["connection"].kind == "adamw"
            and rates_by_role(ledger.arm.recipe, ledger.arm.model)["connection"] > FAST_CONNECTIONS]  # fmt: skip
    if not fast:
        return []
    rate = rates_by_role(fast[0].arm.recipe, fast[0].arm.model)["connection"]
    return [f"hyper-connections of {_names(fast)} learn at {rate:.4g} by AdamW, fast enough to cost what they gain; as groups: "
            "{connection: {lr: 2e-4}} they have a rate of their own"]  # fmt: skip


def _unlike_tokens(ledgers: Sequence[Ledger]) -> list[str]:
    budgets = sorted(_grouped(ledgers, lambda ledger: ledger.tokens).items())
    if len(budgets) > MOST_VALUES:
        return [f"{len(budgets)} different numbers of training tokens, {budgets[0][0]:,} to {budgets[-1][0]:,}"]
    said = _by_words({f"{tokens:,}": arms for tokens, arms in budgets})
    return [f"different numbers of training tokens: {said}"] if len(budgets) > 1 else []


def _controls(ledgers: Sequence[Ledger]) -> list[str]:
    """Every arm that shares parameters has an untied arm of equal training FLOPs, or is named here with the nearest there is.

    A control has the same tokenizer and positions; total FLOPs are matched, so that a shorter budget may be what matches them.
    """
    found: dict[str, list[Ledger]] = {}
    ratios: list[float] = []
    sharing = [ledger for ledger in ledgers if _shares(ledger)]
    for ledger in sharing:
        controls = [other for other in ledgers if not _shares(other) and kin(other.arm) == kin(ledger.arm)]
        if any(_apart(other, ledger) <= NEAR_FLOPS for other in controls):
            continue
        alike = [other for other in controls if other.tokens == ledger.tokens] or controls
        near = min(alike, key=lambda other: _apart(other, ledger), default=None)
        words = f"the nearest, {near.name}, spends {near.flops_total:.3g}" if near else "there is no untied arm to compare with"
        ratios += [near.flops_total / ledger.flops_total] if near else []
        found.setdefault(words, []).append(ledger)
    if len(found) > MOST_ALIKE:
        without = [ledger for ledger in sharing if any(ledger in arms for arms in found.values())]
        nearest = f"the nearest untied arm of each spends {min(ratios):.2f} to {max(ratios):.2f} times as much"
        alone = f"; {several(len(without) - len(ratios), 'arm')} without any" if len(ratios) < len(without) else ""
        count = "any" if len(without) == len(sharing) else f"{len(without)}"
        return [f"no untied control of equal training FLOPs for {count} of the {len(sharing)} arms that share parameters "
                f"({_names(without)}): {nearest}{alone}"]  # fmt: skip
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
    all_settings = [(ledger, model_settings(ledger.arm.model)) for ledger in ledgers]
    found: dict[tuple[str, ...], list[tuple[Ledger, Ledger]]] = {}
    for ledger, mine in all_settings:
        changes = [(_changed(ledger, mine, other, theirs), other) for other, theirs in all_settings if other is not ledger]
        keys, nearest = min(changes, key=lambda change: len(change[0]), default=((), ledger))
        if len(keys) > 1:
            found.setdefault(keys, []).append((ledger, nearest))
    sentences = []
    for keys, pairs in found.items():
        (first, nearest), one = pairs[0], len(pairs) == 1
        who = f"{first.name} changes" if one else f"{_names([ledger for ledger, _ in pairs])} change"
        most = f"{nearest.name}" if one else f"{nearest.name} for {first.name}"
        sentences.append(f"{who} several settings at once, so that no comparison tells which of them matters: even from the most "
                         f"similar arm ({most}) the difference is in {_joined(keys)}")  # fmt: skip
    return sentences


def _changed(ledger: Ledger, mine: dict[str, Any], other: Ledger, theirs: dict[str, Any]) -> tuple[str, ...]:
    """The settings in which two models differ, less those that follow from one of them: at equal depth, fewer layers with more passes; with
    more channels as many more heads of equal size."""
    keys = [key for key, value in mine.items() if value != theirs[key] and key not in _OWN_SENTENCE]
    if "schedule" in keys and ledger.effective_depth == other.effective_depth:
        keys = [key for key in keys if key != "layers"]
    if "d_model" in keys and all(mine["d_model"] * theirs[key] == theirs["d_model"] * mine[key] for key in ("heads", "kv_heads")):
        keys = [key for key in keys if key not in ("heads", "kv_heads")]
    return tuple(keys)


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
        where = "every arm" if len(single) == len(ledgers) > MOST_NAMES else _names(single)
        found.append(f"one seed only in {where}: a difference cannot be told from the noise between seeds")
    return found
