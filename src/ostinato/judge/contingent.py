"""Arms that run only where a condition on earlier results holds (`run_if`): which are due, which are not, and why.

The condition is read on the validation part of runs that have ended; the outcomes that it may ask for are of the newest registration.
"""

from __future__ import annotations

from ostinato.errors import OstinatoError
from ostinato.judge.conclude import Conclusions
from ostinato.judge.evaluate import Truth
from ostinato.judge.measurements import StudyMeasurements
from ostinato.judge.verdicts import DUE, NOT_RUN, RAN, UNDECIDED, Clause, Contingent
from ostinato.store import Store
from ostinato.store.registrations import of_size
from ostinato.study.records import Arm, Study


def contingent_state(study: Study, store: Store, arm: str, measured: StudyMeasurements | None = None) -> Contingent:
    """Of one arm with a `run_if`.  measured: what was read of the study, if it is at hand.

    Raises OstinatoError for an arm without a condition, StoreError for a torn file.
    """
    found = next((one for one in study.arms if one.name == arm and one.run_if), None)
    if found is None:
        raise OstinatoError(f"arm {arm!r} has no run_if", "a contingent arm says what it depends on", 'write run_if: "gain(ARM) >= 0.01"')
    measured = measured or StudyMeasurements(study, store)
    return _state(found, measured, _conclusions(study, store, measured))


def contingent_arms(study: Study, store: Store, measured: StudyMeasurements | None = None) -> dict[str, Contingent]:
    """Every arm with a `run_if`, in the order of the study. Raises StoreError for a torn file."""
    asked = [arm for arm in study.arms if arm.run_if]
    if not asked:
        return {}
    measured = measured or StudyMeasurements(study, store)
    conclusions = _conclusions(study, store, measured)
    return {arm.name: _state(arm, measured, conclusions) for arm in asked}


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
        state, reason = RAN, reason if truth.holds else f"it was asked for by name; {reason}"
    else:
        state = UNDECIDED if truth.holds is None else NOT_RUN
    return Contingent(arm.name, arm.run_if, state, reason, truth.clauses, truth.holds)


def with_numbers(truth: Truth) -> str:
    """Why: each comparison with its numbers."""
    return "; ".join(map(_said, truth.clauses)) or truth.reason


def _said(clause: Clause) -> str:
    if clause.holds is None or clause.left is None or clause.right is None:
        return clause.reason
    unit = f" {clause.unit}" if clause.unit else ""
    return f"{clause.text} {'holds' if clause.holds else 'does not hold'}: {clause.left:.4g} against {clause.right:.4g}{unit}"
