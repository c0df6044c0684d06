"""From the conditions of a prediction to its verdict, in a fixed order, and from a family of predictions to their adjusted p values.

1. killed holds                     KILLED
2. killed is not estimable          NOT ESTIMABLE: it may hold
3. supported holds                  SUPPORTED
4. supported is not estimable       NOT ESTIMABLE
5. else                             BETWEEN

Several conditions of a kind are an `or`; the first that holds names the outcome. A verdict is clear when each condition that it took is:
SUPPORTED takes supported, and that killed does not hold; BETWEEN that neither does, and the condition that names it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from ostinato.claims import Outcome, parse_condition, parse_expression
from ostinato.errors import OstinatoError
from ostinato.judge.estimable import NotEstimable
from ostinato.judge.evaluate import Measurements, Truth, all_of, any_of, decide, estimate
from ostinato.judge.holm import holm
from ostinato.judge.value import DOCUMENTS, SEEDS, STATED
from ostinato.judge.verdicts import BETWEEN, CLEAR, KILLED, NOT_ESTIMABLE, SUPPORTED, WITHIN_NOISE, Clause, Guess, Judged, Quantity, Verdict

if TYPE_CHECKING:
    from ostinato.study.records import Prediction

OTHERWISE = ("", "otherwise")
"""A condition that holds where none before it does."""


class Conclusions:
    """The verdicts of a family of predictions on some measurements; a prediction may ask for the outcome of another."""

    def __init__(self, predictions: Iterable[Prediction], measurements: Measurements):
        self.predictions = {one.name: one for one in predictions}
        self.measurements = measurements
        self._found: dict[str, Verdict] = {}
        self._asked: list[str] = []

    def verdicts(self) -> dict[str, Verdict]:
        """By name, in order, with Holm's p over all of them that have one."""
        found = {name: self.verdict(name) for name in self.predictions}
        tested = [name for name, verdict in found.items() if verdict.p is not None]
        adjusted = dict(zip(tested, holm(found[name].p for name in tested), strict=True))
        return {name: replace(verdict, holm=adjusted.get(name)) for name, verdict in found.items()}

    def verdict(self, name: str) -> Verdict:
        """Of one prediction."""
        if name not in self._found:
            self._asked.append(name)
            try:
                self._found[name] = self._conclude(self.predictions[name])
            finally:
                self._asked.pop()
        return self._found[name]

    def holds(self, text: str) -> Truth:
        """Whether a condition holds, also one of an arm (`run_if`)."""
        try:
            return decide(parse_condition(text), self.measurements, self._outcome)
        except NotEstimable as error:
            return Truth(None, False, None, (), error.reason)
        except OstinatoError as error:
            return Truth(None, False, None, (), error.what)

    def _outcome(self, node: Outcome) -> Truth:
        """Of `outcome(E3) is KILL`: a kind of verdict, or the user's own word."""
        text, name = str(node), node.prediction
        if name not in self.predictions or name in self._asked:
            reason = f"outcome({name}) asks for itself" if name in self.predictions else f"there is no prediction {name}"
            return Truth(None, False, None, (Clause(text, None, False, reason=reason),), reason)
        verdict, wanted = self.verdict(name), node.named.casefold()
        same = wanted in (verdict.kind.casefold(), verdict.outcome.casefold())
        if verdict.kind == NOT_ESTIMABLE and not same:
            reason = f"{name} is not estimable"
            return Truth(None, False, None, (Clause(text, None, False, reason=reason),), reason)
        said = f"{name} is {verdict.outcome}"
        clear = verdict.strength == CLEAR
        doubt = "on nothing measured" if verdict.kind == NOT_ESTIMABLE else "within noise"
        clause = Clause(text, same, clear, p=verdict.p, reason=said if clear else f"{said}, {doubt}")
        return Truth(same, clear, verdict.p, (clause,), "" if clear else clause.reason)

    def _conclude(self, prediction: Prediction) -> Verdict:
        supported = self._conditions(prediction.supported, ())
        killed = self._conditions(prediction.killed, tuple(supported.values()))
        holds, dies = any_of(supported.values()), any_of(killed.values())
        judged = [*_judged(prediction.supported, supported, SUPPORTED), *_judged(prediction.killed, killed, KILLED)]
        if dies.holds:
            kind, outcome, decided = KILLED, _first(killed), dies
        elif dies.holds is None or holds.holds is None:
            kind, outcome, decided = NOT_ESTIMABLE, NOT_ESTIMABLE, all_of(truth for truth in (dies, holds) if truth.holds is None)
        elif holds.holds:
            kind, outcome, decided = SUPPORTED, _first(supported), all_of([holds, ~dies])
        else:
            between = self._conditions(prediction.between, ())
            judged += _judged(prediction.between, between, BETWEEN)
            kind, outcome, decided = BETWEEN, _first(between) or BETWEEN, all_of([~holds, ~dies, *_naming(between)])
        strength = "" if kind == NOT_ESTIMABLE else CLEAR if decided.clear else WITHIN_NOISE
        guesses = tuple(_guess(text, guessed, self.measurements) for text, guessed in prediction.guess.items())
        return Verdict(prediction.name, prediction.claim, kind, outcome, strength, decided.reason, tuple(judged), guesses, decided.p)

    def _conditions(self, given: Mapping[str, str], before: tuple[Truth, ...]) -> dict[str, Truth]:
        """By the user's word.  before: what `otherwise` comes after."""
        found: dict[str, Truth] = {}
        for name, text in given.items():
            rest = text.strip().lower() in OTHERWISE
            found[name] = ~any_of([*before, *found.values()]) if rest else self.holds(text)
        return found


def _judged(given: Mapping[str, str], found: Mapping[str, Truth], kind: str) -> list[Judged]:
    listed = []
    for name, truth in found.items():
        rest = given[name].strip().lower() in OTHERWISE
        text, clauses = ("otherwise", ()) if rest else (given[name], truth.clauses)  # whose clauses stand with the conditions before
        listed.append(Judged(name, kind, text, truth.holds, truth.clear, truth.p, clauses, truth.reason))
    return listed


def _first(found: Mapping[str, Truth]) -> str:
    return next((name for name, truth in found.items() if truth.holds), "")


def _naming(found: Mapping[str, Truth]) -> list[Truth]:
    """What it takes to name the outcome: each before the first that holds does not, and that one does."""
    taken = []
    for truth in found.values():
        if truth.holds is None:
            taken.append(Truth(True, False, None, (), f"its name is not sure: {truth.reason}"))
            continue
        taken.append(truth if truth.holds else ~truth)
        if truth.holds:
            break
    return taken


def _guess(text: str, guessed: float, measurements: Measurements) -> Guess:
    try:
        found = estimate(parse_expression(text), measurements)
    except OstinatoError as error:
        return Guess(text, guessed, None, reason=error.what)
    return Guess(text, guessed, found.value.point, found.interval, found.value.unit)


def quantities(named: Mapping[str, str], measurements: Measurements) -> tuple[Quantity, ...]:
    """Numbers that are shown with their intervals and not judged.  named: {name: expression}."""
    listed = []
    for name, text in named.items():
        try:
            found = estimate(parse_expression(text), measurements)
        except OstinatoError as error:
            listed.append(Quantity(name, text, None, reason=error.what))
            continue
        interval = found.ranges.get(DOCUMENTS) or found.ranges.get(STATED)
        listed.append(Quantity(name, text, found.value.point, interval, "", found.value.unit, found.ranges.get(SEEDS)))
    return tuple(listed)
