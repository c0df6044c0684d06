"""A study judged: every prediction as it was sealed, on what the store has of its runs now.

The newest registration's predictions are judged, also those that the file has dropped; predictions of the file that are new or read
otherwise now are exploratory and stand beside them. A prediction counts as sealed when it first stood in a registration as it stands in the
newest one, without a break: amending one prediction does not make another younger. Where registrations are not as they were sealed, none of
them counts: the file's predictions are judged first, then those that stand in the newest registration alone, all of them exploratory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ostinato.analysis.against import other_tokens
from ostinato.analysis.arms import ArmResult
from ostinato.analysis.results import results_table
from ostinato.analysis.words import BITS, NATS
from ostinato.claims import Measure, measures, outcomes, parse_condition
from ostinato.errors import OstinatoError
from ostinato.judge.conclude import OTHERWISE, Conclusions, quantities
from ostinato.judge.contingent import contingent_arms
from ostinato.judge.estimable import NotEstimable
from ostinato.judge.measurements import StudyMeasurements
from ostinato.judge.value import DOCUMENTS
from ostinato.judge.verdicts import COUNTED, Contingent, HeldOut, Judgement, Range, Verdict
from ostinato.store import Store
from ostinato.store.registrations import Registration, backwards, content, differences, of_size
from ostinato.store.seals import faults

if TYPE_CHECKING:
    from ostinato.study.records import Prediction, Study

_TOLD = ("reference", "evaluate", "measure")
"""Keys of a study, beside its arms, whose changes bear on every prediction."""


def judge(study: Study, store: Store) -> Judgement:
    """The verdicts, the quantities, and what became of every run. Held-out gains are in it, and the study's log says when they were shown.

    Raises StoreError when a stored file of losses or a registration is torn.
    """
    judgement, folder = standing(study, store, held_out=True), store.study_folder(study.name)
    if folder.path.exists():
        last = next(reversed(of_size(folder.registrations(), study)), None)
        counts = dict(Counter(one.kind for one in judgement.verdicts))
        try:
            begun = sum(judgement.totals[state] for state in ("done", "partial", "failed"))
            folder.log("judged", size=study.size, fingerprint=last and last.fingerprint, counts=counts, begun=begun)
        except OSError as error:  # somebody else's store, or one that is kept as it is
            said = f"the study's log cannot be written, and does not say that it was judged: {error.strerror}"
            return replace(judgement, notes=(*judgement.notes, said))
    return judgement


def standing(study: Study, store: Store, results: Sequence[ArmResult] | None = None, *, held_out: bool) -> Judgement:
    """How the study stands now, as `judge` says it, and no word of it in the log.

    results: the table of the validation part, if it is at hand.  held_out: without it nothing is read of that part, what needs it is not
    estimable, and there are no held-out gains. Raises StoreError as `judge` does.
    """
    folder, results = store.study_folder(study.name), results_table(study, store) if results is None else results
    looked = next((event for event in folder.events() if event["event"] in ("held_out_shown", "judged")), None)  # by place, not by clock
    measured = StudyMeasurements(study, store, results, held_out)
    family, broken = Family(study, of_size(folder.registrations(), study)), tuple(faults(folder.registrations_path))
    verdicts = tuple(family.unsealed(measured) if broken else family.verdicts(measured))
    waiting = contingent_arms(study, store, StudyMeasurements(study, store, results) if held_out else measured)
    counts = {result.name: _counted(result, waiting.get(result.name)) for result in results}
    gains = {result.name: _held_out(result, measured) for result in results if result.against and held_out}
    late = [] if broken else list(family.after_a_look(verdicts))
    notes = [*_notes_on_seals(family, bool(broken)), *late, *_notes_on_runs(results, bool(store.runs_of(study)))]
    if looked and looked["event"] == "held_out_shown":
        notes.append(f"the held-out part was shown on {looked['at']}, before the study was judged")
    return Judgement(study.name, len(family.registrations), verdicts, quantities(study.quantities, measured), counts,
                     tuple(waiting.values()), tuple(notes), gains, faults=broken)  # fmt: skip


@dataclass(frozen=True)
class Family:
    """The predictions of a study: those sealed, and those of the file."""

    study: Study
    registrations: Sequence[Registration]

    @property
    def newest(self) -> Registration | None:
        return self.registrations[-1] if self.registrations else None

    @property
    def sealed(self) -> tuple[Prediction, ...]:
        """As they stand in the newest registration."""
        return self.newest.study.predictions if self.newest else ()

    @cached_property
    def _as_sealed(self) -> list[dict[str, Any]]:
        """What each registration says of every prediction, by name; the last is the file's."""
        studies = [*(one.study for one in self.registrations), self.study]
        return [{one["name"]: one for one in content(study)["predictions"]} for study in studies]

    def verdicts(self, measured: StudyMeasurements) -> Iterator[Verdict]:
        """Sealed ones first, each followed by how the file has it now where that is another; then those that are new."""
        mine = Conclusions(self.study.predictions, measured).verdicts()
        sealed = Conclusions(self.sealed, measured).verdicts()
        *_, given = self._as_sealed
        for name, verdict in sealed.items():
            since = self._since(name)
            arms = arms_of(name, self.newest.study)
            yield replace(verdict, exploratory=False, registered=since.number, at=since.at, withdrawn=name not in given,
                          after_results=tuple(_known_then(since, arms)), changed=tuple(_changed(since, self.study, arms)))  # fmt: skip
            if name in given and given[name] != self._as_sealed[-2][name]:
                yield mine[name]
        yield from (verdict for name, verdict in mine.items() if name not in sealed)

    def unsealed(self, measured: StudyMeasurements) -> Iterator[Verdict]:
        """Where what was registered is not as it was sealed: the file's first, then those that read otherwise where registered."""
        yield from Conclusions(self.study.predictions, measured).verdicts().values()
        registered, given = self._as_sealed[-2] if self.registrations else {}, self._as_sealed[-1]
        for name, verdict in Conclusions(self.sealed, measured).verdicts().items():
            if given.get(name) != registered[name]:
                yield replace(verdict, withdrawn=True)

    def after_a_look(self, verdicts: Sequence[Verdict]) -> Iterator[str]:
        """A note for every sealed prediction on the held-out part that was registered after that was shown."""
        for one in verdicts:
            if one.registered is not None and (since := self._since(one.name)).held_out_shown and _on_held_out(one.name, self.newest.study):
                yield (f"{one.name} rests on the held-out part, which was first shown on {since.held_out_shown}, before it was registered "
                       f"on {since.at}")  # fmt: skip

    def _since(self, name: str) -> Registration:
        """The registration since which a prediction stands as in the newest."""
        found = self.registrations[-1]
        for registration, said in zip(reversed(self.registrations), reversed(self._as_sealed[:-1]), strict=True):
            if said.get(name) != self._as_sealed[-2][name]:
                break
            found = registration
        return found


def arms_of(name: str, study: Study) -> set[str]:
    """The arms that a prediction rests on: those it names, those that these are compared with, and those of predictions it asks for."""
    found = set()
    against = {arm.name: arm.against or study.reference for arm in study.arms}
    for term in _terms(name, study):
        found |= {term.arm}
        if term.name in ("gain", "won", "crossing"):
            found |= {dict(term.options).get("over") or against.get(term.arm, study.reference)}
    return found


def _on_held_out(name: str, study: Study) -> bool:
    return any(term.option("part") == "held_out" for term in _terms(name, study))


def _terms(name: str, study: Study) -> Iterator[Measure]:
    """The measures that a prediction names, and those of predictions that it asks for."""
    by_name, waiting, done = {one.name: one for one in study.predictions}, [name], set()
    while waiting:
        here = waiting.pop()
        if here in done or here not in by_name:
            continue
        done.add(here)
        for node in _nodes(by_name[here]):
            waiting += [one.prediction for one in outcomes(node)]
            yield from measures(node)


def _nodes(prediction: Prediction) -> Iterator[Any]:
    for text in (*prediction.supported.values(), *prediction.killed.values(), *prediction.between.values()):
        if text.strip().lower() not in OTHERWISE:
            try:
                yield parse_condition(text)
            except OstinatoError:
                continue  # the verdict says so


def _known_then(registration: Registration, arms: set[str]) -> Iterator[str]:
    for result in registration.results:
        if result.arm in arms:
            yield f"{result.arm}, seed {result.seed}: {result.part.replace('_', '-')} at {result.tokens:,} tokens"


def _changed(since: Registration, study: Study, arms: set[str]) -> Iterator[str]:
    """What is another in the study than when it was sealed, of what bears on these arms."""
    for change in differences(content(since.study), content(study)):
        of_arm = change.place[0] == "arms" and (len(change.place) < 2 or change.place[1] in arms)
        if (of_arm and change.place[2:] != ("note",)) or change.place[0] in _TOLD:
            yield str(change)


def _counted(result: ArmResult, contingent: Contingent | None) -> dict[str, int]:
    """How many runs of an arm are in which state; those of a contingent arm that nothing calls for are not asked."""
    due = contingent.due if contingent else result.arm.contingent is None
    found = Counter(_state(run.state, run.final, due) for run in result.runs)
    return {state: found[state] for state in COUNTED}


def _state(state: str, final: bool, due: bool) -> str:
    if state == "failed":
        return "failed"
    if final:
        return "done"
    if state in ("missing", "not asked"):
        return "missing" if due else "not asked"
    return "partial"


def _held_out(result: ArmResult, measured: StudyMeasurements) -> HeldOut:
    """Beside the validation gain, in bits a byte where tokenizers differ."""
    bits = other_tokens(measured.results[result.against], result)
    options: tuple[tuple[str, str], ...] = (("unit", "bits"),) if bits else ()
    unit = BITS if bits else NATS
    try:
        values = [measured.value(Measure("gain", result.name, tuple(sorted((*options, *part))))) for part in ((), (("part", "held_out"),))]
    except NotEstimable as error:
        return HeldOut(unit, None, None, reason=error.reason)
    ranges: list[Range | None] = []
    for value in values:
        interval = value.interval(DOCUMENTS)
        ranges.append(interval and (interval.low, interval.high))
    return HeldOut(unit, values[0].point, values[1].point, *ranges)


def _notes_on_seals(family: Family, broken: bool) -> Iterator[str]:
    if not family.registrations and family.study.predictions and not broken:
        yield "no prediction was registered before it was judged: all of them are exploratory"
    yield from backwards([(one.number, one.at) for one in family.registrations])


def _notes_on_runs(results: Sequence[ArmResult], ran: bool) -> Iterator[str]:
    """What a reader should know of the runs: several arms are said together."""
    if not ran:
        yield "no run of this study, as its file is now, is in the store"
        return
    few: dict[int, list[str]] = {}
    for result in results:
        ended = [run.seed for run in result.runs if run.final]
        lacking = [f"seed {run.seed} {'failed' if run.state == 'failed' else 'is not at its end'}" for run in result.runs if not run.final]
        if ended and lacking:
            yield f"{result.name} is judged on seed{'s' * (len(ended) > 1)} {', '.join(map(str, ended))} alone: {', '.join(lacking)}"
        if len(ended) in (1, 2):
            few.setdefault(len(ended), []).append(result.name)
    if 1 in few:
        yield f"one seed of {', '.join(few[1])}: the noise of seeds is not known, and nothing about them is clear"
    if 2 in few:
        yield f"two seeds of {', '.join(few[2])}: a t interval over two is 12.7 standard errors wide to each side"


