"""What a judgement says, as frozen records: clauses make conditions, conditions make verdicts, verdicts make the judgement of a study.

Numbers are in the unit that stands beside them; an interval is (low, high) at 95%, None where it is not known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SUPPORTED, KILLED, BETWEEN, NOT_ESTIMABLE = "SUPPORTED", "KILLED", "BETWEEN", "NOT ESTIMABLE"
CLEAR, WITHIN_NOISE = "clear", "within noise"
COUNTED = ("done", "failed", "missing", "partial", "not asked")
"""What a run can be: partial is begun and not at its end; not asked is of a contingent arm whose condition has not called for it."""
RAN, FAILED, PARTIAL, DUE, NOT_RUN, UNDECIDED = "ran", "failed", "partial", "due", "not run", "undecided"
SOMETHING_KILLED, SOMETHING_MISSING = 10, 20

Range = tuple[float, float]


@dataclass(frozen=True)
class Clause:
    """One comparison.  holds: None where it is not estimable, for `reason`.  clear: whether it could not be noise; else `reason` says why.

    margin: how far it is from its border, positive where it holds; seeds: the same of each seed; intervals: of the margin.
    p: two-sided, of so large a margin where the truth is none; None where the noise is not known.
    """

    text: str
    holds: bool | None
    clear: bool
    left: float | None = None
    right: float | None = None
    margin: float | None = None
    interval_documents: Range | None = None
    interval_seeds: Range | None = None
    unit: str = ""
    p: float | None = None
    seeds: Mapping[int, float] = field(default_factory=dict)
    reason: str = ""


@dataclass(frozen=True)
class Judged:
    """One condition.  name: the user's own word for it.  kind: of the verdict that it gives, SUPPORTED, KILLED or BETWEEN."""

    name: str
    kind: str
    text: str
    holds: bool | None
    clear: bool
    p: float | None
    clauses: tuple[Clause, ...]
    reason: str = ""


@dataclass(frozen=True)
class Guess:
    """A point guess beside what was measured (None: not estimable, for `reason`).  interval: over documents, else over seeds."""

    text: str
    guessed: float
    measured: float | None
    interval: Range | None = None
    unit: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Quantity:
    """A named number that is shown and not judged.  interval: over documents, else of the stated noise; interval_seeds: over seeds."""

    name: str
    text: str
    value: float | None
    interval: Range | None = None
    reason: str = ""
    unit: str = ""
    interval_seeds: Range | None = None


@dataclass(frozen=True)
class Verdict:
    """What became of one prediction.  kind: SUPPORTED, KILLED, BETWEEN or NOT ESTIMABLE; outcome: the user's own word for it.

    strength: clear or within noise, "" where nothing is estimable; reason: why not clear, or not estimable.  conditions: all of them.
    p: of what decided it; holm: p adjusted for all predictions of the study.  registered: the number of the registration, at: its time,
    UTC.  exploratory: not sealed before.  after_results: what of its arms was measured before it was sealed.  changed: what is another in
    the study since.  withdrawn: sealed, and no longer in the file.
    """

    name: str
    claim: str
    kind: str
    outcome: str
    strength: str = ""
    reason: str = ""
    conditions: tuple[Judged, ...] = ()
    guesses: tuple[Guess, ...] = ()
    p: float | None = None
    holm: float | None = None
    registered: int | None = None
    at: str | None = None
    exploratory: bool = True
    after_results: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    withdrawn: bool = False


@dataclass(frozen=True)
class Contingent:
    """An arm that runs only where its condition holds.  state: ran (a run has ended), failed (all have), partial (begun, none at its end),
    due (it holds and the runs are not there yet), not run (it does not hold, or rests on an arm that is not run), undecided (it is not
    estimable yet).  reason: with the numbers.  holds: whether the condition does, None while undecided.
    """

    arm: str
    condition: str
    state: str
    reason: str
    clauses: tuple[Clause, ...] = ()
    holds: bool | None = None

    @property
    def due(self) -> bool:
        """Whether its runs are to be made now."""
        return self.state == DUE


@dataclass(frozen=True)
class HeldOut:
    """An arm's gain on the validation part and on the held-out one, in `unit`, with intervals over documents."""

    unit: str
    validation: float | None
    held_out: float | None
    interval_validation: Range | None = None
    interval_held_out: Range | None = None
    reason: str = ""


@dataclass(frozen=True)
class Judgement:
    """A study as it is judged.  registrations: how many there are.  counts: {arm: {done, failed, missing, partial, not asked: runs}}.

    held_out: {arm: its gain on both parts}, of the arms that are compared.  notes: what a reader should know of the whole.
    transcribed: of a replay, how its predictions came here, which nobody could seal; "" for a study.  faults: what is not as it was sealed
    in the registrations: where there is one nothing counts as sealed, and no verdict names a registration.
    """

    study_name: str
    registrations: int
    verdicts: tuple[Verdict, ...]
    quantities: tuple[Quantity, ...] = ()
    counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    contingent: tuple[Contingent, ...] = ()
    notes: tuple[str, ...] = ()
    held_out: Mapping[str, HeldOut] = field(default_factory=dict)
    transcribed: str = ""
    faults: tuple[str, ...] = ()

    @property
    def totals(self) -> dict[str, int]:
        """The counts of all arms together."""
        return {state: sum(counts.get(state, 0) for counts in self.counts.values()) for state in COUNTED}

    @property
    def exit_status(self) -> int:
        """0; 10 something is killed; 20 something is missing, failed, partial, not estimable or not as it was sealed; 30 both."""
        kinds = {verdict.kind for verdict in self.verdicts}
        totals = self.totals
        lacking = bool(self.faults) or NOT_ESTIMABLE in kinds or any(totals[state] for state in ("failed", "missing", "partial"))
        return SOMETHING_KILLED * (KILLED in kinds) + SOMETHING_MISSING * lacking

    def record(self) -> dict[str, Any]:
        """As JSON types."""
        return {**_plain(self), "totals": self.totals, "exit_status": self.exit_status}


def _plain(value: Any) -> Any:
    if hasattr(value, "__dataclass_fields__"):
        return {name: _plain(getattr(value, name)) for name in value.__dataclass_fields__}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, tuple | list) else value
