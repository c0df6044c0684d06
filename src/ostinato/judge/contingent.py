"""Arms that run only where a condition on earlier results holds (`run_if`): which are due, which are not, and why.

The condition is read on the validation part of runs that have ended; the outcomes that it may ask for are of the newest registration.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import replace

from ostinato.claims import measures, outcomes, parse_condition
from ostinato.judge.conclude import Conclusions
from ostinato.judge.evaluate import Truth
from ostinato.judge.measurements import StudyMeasurements
from ostinato.judge.verdicts import DUE, FAILED, NOT_RUN, PARTIAL, RAN, UNDECIDED, Clause, Contingent
from ostinato.store import Store
from ostinato.store.registrations import of_size
from ostinato.study.named import compared_with
from ostinato.study.records import Arm, Study

_ADVICE = re.compile(r"\n\s*(?:rule|try): .*?(?:\)(?=, seed \d|;|$)|(?=\n\s*(?:rule|try): )|$)", re.DOTALL)
"""The lines `rule:` and `try:` of an error in the reason of a run that failed."""


def contingent_arms(study: Study, store: Store, measured: StudyMeasurements | None = None) -> dict[str, Contingent]:
    """Every arm with a `run_if`, in the order of the study. Raises StoreError for a torn file."""
    asked = [arm for arm in study.arms if arm.run_if]
    if not asked:
        return {}
    measured = measured or StudyMeasurements(study, store)
    conclusions = _conclusions(study, store, measured)
    states = {arm.name: _state(arm, measured, conclusions) for arm in asked}
    for _ in asked:  # an arm may rest on one that rests on another
        gone = [name for name, one in states.items() if one.state == NOT_RUN]
        for name, one in states.items():
            rests_on = _rests_on(one.clauses, gone, study, conclusions) if one.state == UNDECIDED else set()
            if rests_on:
                named = ", ".join(sorted(rests_on))
                reason = f"it depends on {named}, which {'is' if len(rests_on) == 1 else 'are'} not run"
                states[name] = replace(one, state=NOT_RUN, reason=reason)
    return states


def _rests_on(clauses: Iterable[Clause], gone: Collection[str], study: Study, conclusions: Conclusions) -> set[str]:
    """The arms not run that keep comparisons from being told; none where something else is awaited as well, as that may decide."""
    found: set[str] = set()
    for clause in clauses:
        if clause.holds is None:
            node = parse_condition(clause.text)
            here = {arm for one in measures(node) for arm in (one.arm, compared_with(one, study)) if arm in gone}
            for asked in outcomes(node):
                if asked.prediction in conclusions.predictions:
                    conditions = conclusions.verdict(asked.prediction).conditions
                    here |= _rests_on([one for judged in conditions for one in judged.clauses], gone, study, conclusions)
            if not here:
                return set()
            found |= here
    return found


def _conclusions(study: Study, store: Store, measured: StudyMeasurements) -> Conclusions:
    sealed = of_size(store.study_folder(study.name).registrations(), study)
    return Conclusions(sealed[-1].study.predictions if sealed else study.predictions, measured)


def _state(arm: Arm, measured: StudyMeasurements, conclusions: Conclusions) -> Contingent:
    truth = conclusions.holds(arm.run_if)
    runs = measured.results[arm.name].runs
    begun = [run for run in runs if run.state not in ("missing", "not asked")]
    reason = with_numbers(truth)
    if truth.holds and len(begun) < len(runs):
        state = DUE
    elif begun:
        ended, failed = any(run.final for run in begun), all(run.state == "failed" for run in begun)
        state, reason = RAN if ended else FAILED if failed else PARTIAL, reason if truth.holds else f"it was asked for by name; {reason}"
    else:
        state = UNDECIDED if truth.holds is None else NOT_RUN
    return Contingent(arm.name, arm.run_if, state, reason, truth.clauses, truth.holds)


def with_numbers(truth: Truth) -> str:
    """Why, in one line: each comparison with its numbers."""
    return _one_line("; ".join(map(_said, truth.clauses)) or truth.reason)


def _one_line(text: str) -> str:
    """Without the rules and next steps of errors that runs ended with."""
    return " ".join(_ADVICE.sub(lambda found: ")" * found[0].endswith(")"), text).split())


def _said(clause: Clause) -> str:
    if clause.holds is None or clause.left is None or clause.right is None:
        return clause.reason
    unit = f" {clause.unit}" if clause.unit else ""
    return f"{clause.text} {'holds' if clause.holds else 'does not hold'}: {clause.left:.4g} against {clause.right:.4g}{unit}"
