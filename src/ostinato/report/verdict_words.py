"""A verdict in words, for the terminal and the page alike: its shape, its headline, the numbers that gave it, and by how much.

Kinds are told apart by shape and word first and by colour besides: a full circle, a cross, a half circle, an empty one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ostinato.judge.verdicts import (
    BETWEEN,
    CLEAR,
    COUNTED,
    DUE,
    FAILED,
    KILLED,
    NOT_ESTIMABLE,
    NOT_RUN,
    PARTIAL,
    RAN,
    SUPPORTED,
    UNDECIDED,
    Clause,
    Contingent,
    Judged,
    Judgement,
    Range,
    Verdict,
)
from ostinato.report import numbers
from ostinato.report.tables import Tone

SHAPES = {SUPPORTED: "●", KILLED: "✕", BETWEEN: "◐", NOT_ESTIMABLE: "○"}
NOTHING_SEALED = "The registrations were edited or are torn: nothing counts as sealed."
UNSEALED_TEXT = "as it stands in a registration that is not as it was sealed"
TONES: dict[str, Tone] = {SUPPORTED: "better", KILLED: "worse", BETWEEN: "warn", NOT_ESTIMABLE: "muted"}


def standing(verdict: Verdict) -> str:
    """How sure it is, and where it was sealed with results of its arms already there; "" where nothing is estimable."""
    late = bool(verdict.after_results) and not verdict.exploratory
    return ", ".join(part for part in (verdict.strength, "sealed after results" if late else "") if part)


def headline(verdict: Verdict) -> str:
    """As ● SUPPORTED."""
    return f"{SHAPES[verdict.kind]} {verdict.kind}"


def outcome(verdict: Verdict) -> str:
    """The user's own word for it; "" where it is the word for the kind, and where nothing came out."""
    return "" if verdict.kind == NOT_ESTIMABLE or verdict.outcome == verdict.kind else verdict.outcome


def one_line(verdict: Verdict) -> str:
    """As ● SUPPORTED E3 (PASS), clear: the claim."""
    own = f" ({outcome(verdict)})" if outcome(verdict) else ""
    return f"{headline(verdict)} {verdict.name}{own}" + (f", {standing(verdict)}" if standing(verdict) else "") + (
        f": {verdict.claim}" if verdict.claim else ""
    )  # fmt: skip


def deciding(verdict: Verdict) -> tuple[Judged, ...]:
    """The conditions that gave the verdict: those that hold, of its kind; for a verdict in between also those that did not hold."""
    if verdict.kind == NOT_ESTIMABLE:
        return tuple(one for one in verdict.conditions if one.holds is None)
    named = tuple(one for one in verdict.conditions if one.kind == verdict.kind and one.name == verdict.outcome and one.holds)
    if verdict.kind == BETWEEN:
        return named + tuple(one for one in verdict.conditions if one.kind != BETWEEN)
    if named and not any(one.clauses for one in named):  # otherwise: it holds because the others do not
        return tuple(one for one in verdict.conditions if one.clauses)
    return named


def deciding_clause(verdict: Verdict) -> Clause | None:
    """The comparison whose numbers stand beside the verdict: of those that gave it the weakest, the first of equals; None without one."""
    clauses = [clause for one in deciding(verdict) for clause in one.clauses if clause.holds == one.holds]
    estimable = [clause for clause in clauses if clause.margin is not None]
    same = {clause.unit for clause in estimable}
    if len(same) == 1:
        return min(estimable, key=lambda clause: (clause.clear, abs(clause.margin or 0.0)))
    return min(estimable or clauses, key=lambda clause: clause.clear, default=None)


def number(value: float | None) -> str:
    """A measured number: four decimals, more where that would leave fewer than three digits, large ones as counts."""
    if value is None:
        return numbers.NONE
    size = abs(value)
    if size >= 10_000:
        return numbers.human(value)
    digits = 4
    while digits < 10 and 0 < size < 10 ** (2 - digits):
        digits += 1
    return numbers.fixed(value, digits)


def interval(range_: Range | None) -> str:
    """As +0.0300 to +0.0700, an end without bound as such; an en dash when there is none."""
    return numbers.NONE if range_ is None else numbers.interval(*range_)


def clause_words(clause: Clause) -> str:
    """One comparison with its numbers, by how much it holds or not, its intervals, and why it is not clear."""
    if clause.holds is None or clause.margin is None:
        return f"{clause.text}: not estimable, {clause.reason}" if clause.holds is None else f"{clause.text}: {_holds(clause.holds)}"
    unit = f" {clause.unit}" if clause.unit else ""
    said = f"{clause.text}: {number(clause.left)} and {number(clause.right)}{unit}, {_holds(clause.holds)} by {number(abs(clause.margin))}"
    given = (("documents", clause.interval_documents), ("seeds", clause.interval_seeds))
    ranges = [f"{interval(range_)} over {what}" for what, range_ in given if range_]
    said += f" (95% of the margin: {', '.join(ranges)})" if ranges else ""
    return said + (", clear" if clause.clear else f", within noise{f': {clause.reason}' if clause.reason else ''}")


def _holds(holds: bool) -> str:
    return "holds" if holds else "does not hold"


def condition_words(judged: Judged) -> str:
    """A condition and whether it holds."""
    state = "not estimable" if judged.holds is None else _holds(judged.holds)
    name = judged.kind if judged.name == judged.kind else f"{judged.kind} ({judged.name})"
    return f"{name}: {judged.text}: {state}" + (f", {judged.reason}" if judged.reason and judged.holds is None else "")


def lines(verdict: Verdict) -> Iterator[str]:
    """What stands under a verdict: why it is not clear, the numbers of every condition that gave it, when it was sealed, what changed."""
    told: dict[str, None] = {}
    for one in deciding(verdict):
        if len(one.clauses) != 1 or one.clauses[0].text != one.text:
            told[condition_words(one)] = None
        told |= dict.fromkeys(map(clause_words, one.clauses))
    if verdict.reason and verdict.strength != CLEAR and not any(verdict.reason in line for line in told):
        yield f"{verdict.strength or 'not estimable'}: {verdict.reason}"
    yield from told
    ps = [f"{name} {value:.2g}" for name, value in (("p", verdict.p), ("by Holm over all predictions", verdict.holm)) if value is not None]
    if ps:
        yield ", ".join(ps)
    yield sealed_words(verdict)
    for change in verdict.changed:
        yield f"changed since: {change}"


def sealed_words(verdict: Verdict) -> str:
    """Whether it was sealed, when, and after which results."""
    when = f"registration {verdict.registered}, sealed {moment(verdict.at)}" if verdict.registered is not None else UNSEALED_TEXT if (
        verdict.withdrawn) else "not registered"  # fmt: skip
    said = f"exploratory: {when}" if verdict.exploratory else when
    known = numbers.listed(list(verdict.after_results), 4)
    said += f", after results that it rests on: {known}" if known else ""
    return said + (", no longer in the study file" if verdict.withdrawn else "")


def moment(at: str | None) -> str:
    """A time of the store, as 2026-11-01 10:00:00 UTC."""
    return (at or "").replace("T", " ").replace("+00:00", " UTC")


def tally(verdicts: tuple[Verdict, ...]) -> str:
    """How many of each kind, as 3 SUPPORTED (2 clear), 1 KILLED (within noise)."""
    said = []
    for kind in SHAPES:
        found = [one for one in verdicts if one.kind == kind]
        clear = sum(one.strength == CLEAR for one in found)
        strength = "clear" if clear == len(found) else f"{clear} clear" if clear else "within noise"
        said += [f"{len(found)} {kind}" + (f" ({strength})" if kind != NOT_ESTIMABLE else "")] if found else []
    return numbers.listed(said)


def runs_words(judgement: Judgement) -> str:
    """How many runs are in which state, and of which arms those that are not done."""
    said = _states(judgement.totals)
    arms = [f"{arm} {_states({**counts, 'done': 0})}" for arm, counts in judgement.counts.items() if _states({**counts, "done": 0})]
    return f"Runs: {said or 'none'}." + (f" Not done: {'; '.join(arms)}." if arms else "")


def _states(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{counts[state]:,} {state}" for state in COUNTED if counts.get(state))


def contingent_words(one: Contingent) -> str:
    """What became of an arm that runs only if, with the numbers."""
    verb = {RAN: "ran", FAILED: "failed", PARTIAL: "partial, no run is at its end", DUE: "is due", NOT_RUN: "not run",
            UNDECIDED: "not decided yet"}[one.state]  # fmt: skip
    return f"{one.arm} ({one.condition}): {verb}" + (f", {one.reason}" if one.reason else "")


def registered_words(judgement: Judgement) -> str:
    """One sentence on what was sealed."""
    if judgement.transcribed:
        return f"A replay, so every verdict is exploratory. {judgement.transcribed}."
    if judgement.faults:
        return NOTHING_SEALED
    if not judgement.registrations:
        return "Nothing is registered, so every verdict is exploratory."
    newest = max(((one.registered, one.at) for one in judgement.verdicts if one.registered is not None), default=None)
    when = f", the newest of {moment(newest[1])}" if newest else ""
    return f"Judged as sealed: {numbers.several(judgement.registrations, 'registration')}{when}."
