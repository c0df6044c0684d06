"""What the predictions, quantities and conditions of a study name, held against its arms and each other.

The language itself is `ostinato.claims`, which says where a text does not parse; what a text names is looked up here: arms, seeds, points
in training, applications and passes, other predictions and their outcomes. Outcomes, and arms that run only if, never wait in a circle.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any

from ostinato.claims import KINDS, Measure, Reading, measures, outcomes, parse_condition, read_condition, read_expression
from ostinato.claims.reading import Mention
from ostinato.errors import ClaimError
from ostinato.study.named import Wrong, compared_with, of_measure
from ostinato.study.outcomes import OUTCOMES, is_otherwise, written
from ostinato.study.problems import Problem
from ostinato.study.reading import Section
from ostinato.study.records import Prediction, Study

DEEPEST = 16
"""How many outcomes may build on each other."""
_TAKEN_AS = {"lens": "lens", "depth": "depths", "pairs": "pairs"}
"""What a measure of predictions is called in `measure.take`."""


class Looked:
    """Reads the texts of one study, in one size; `problems` is what it finds."""

    def __init__(self, study: Study, keys: Mapping[str, Any], run_ifs: Mapping[str, Any]):
        self.study, self.keys = study, keys
        self.arms = {arm.name: arm for arm in study.arms}
        self.predictions = {one.name: one for one in study.predictions}
        self.problems: list[Problem] = []
        self.conditions: dict[str, list[Reading]] = {name: [] for name in self.predictions}
        given = dict(written(keys))
        for one in study.predictions:
            self._prediction(one, given[one.name])
        for name, text in (keys.get("quantities") or {}).items():
            if text is not None:
                self._read(read_expression, text, f"quantities.{name}")
        self._lines = {arm: getattr(text, "line", None) for arm, text in run_ifs.items()}
        read = {arm: self._read(read_condition, text, f"arms.{arm}.run_if") for arm, text in run_ifs.items()}
        self.run_ifs = {arm: reading for arm, reading in read.items() if reading}
        for arm, reading in self.run_ifs.items():
            self._not_held_out(arm, reading)
        self._in_order()

    def _prediction(self, one: Prediction, given: Section) -> None:
        for key in OUTCOMES:
            value = given.get(key)
            several = isinstance(value, dict)
            for own, text in value.items() if several else () if value is None or key == "between" else ((None, value),):
                if not is_otherwise(text):
                    reading = self._read(read_condition, text, f"predictions.{one.name}.{key}" + (f".{own}" if several else ""))
                    self.conditions[one.name] += [reading] if reading else []
        self._told_apart(one, given)
        guesses = given.get("guess")
        for text in guesses or ():
            self._read(read_expression, text, f"predictions.{one.name}.guess", guesses.key_lines[text])

    def _told_apart(self, one: Prediction, given: Section) -> None:
        read = {key: {str(parse_condition(text)) for text in getattr(one, key).values() if not is_otherwise(text) and _reads(text)}
                for key in ("supported", "killed")}  # fmt: skip
        for text in sorted(read["supported"] & read["killed"]):
            self.problems.append(Problem(given.key_lines.get("killed", given.line), f"predictions.{one.name}.killed",
                                         f"{text!r} is what it is supported by, too", "what kills a prediction is not what supports it",
                                         "killed: otherwise"))  # fmt: skip

    def _read(self, read: Callable[[str], Reading], text: str, where: str, line: int | None = None) -> Reading | None:
        line = getattr(text, "line", line)
        try:
            reading = read(str(text))
        except ClaimError as error:
            self.problems.append(Problem.of(error, line, where))
            return None
        if read is read_condition and not reading.mentions:
            error = reading.error(1, "a condition on nothing that is measured", "a condition names a measure or an outcome",
                                  "gain(ARM) >= 0.01")  # fmt: skip
            self.problems.append(Problem.of(error, line, where))
        for mention in reading.mentions:
            for column, what, rule, fix in self._wrong(mention):
                self.problems.append(Problem.of(reading.error(column, what, rule, fix), line, where))
        return reading

    def _wrong(self, mention: Mention) -> Iterator[Wrong]:
        if isinstance(mention.node, Measure):
            yield from of_measure(mention, self.study, self._no_arm)
            return
        name, named = mention.node.prediction, mention.node.named
        if name not in self.predictions:
            rule = f"predictions here are {_few(self.predictions) or 'none'}"
            yield mention.at["prediction"], f"no prediction {name!r}", rule, _near(name, self.predictions)
            return
        one = self.predictions[name]
        known = [*KINDS, *(own for key in OUTCOMES for own in getattr(one, key))]
        if named.casefold() not in [word.casefold() for word in known]:
            rule = f"its outcomes are {', '.join(dict.fromkeys(known))}"
            yield mention.at["named"], f"{name} has no outcome {named!r}", rule, _near(named, known)

    def _no_arm(self, name: str) -> tuple[str, str, str]:
        """What to say of an arm that is not there."""
        if name in (self.keys.get("arms") or {}):
            size = f"the size {self.study.size}" if self.study.size else "this study"
            return (f"{size} leaves out the arm {name!r}", "predictions are of arms that are there, and a size may have its own",
                    f"keep the arm, or give sizes.{self.study.size} its own predictions and quantities")  # fmt: skip
        return f"no arm {name!r}", f"arms here are {_few(self.arms)}", _near(name, self.arms)

    def _not_held_out(self, arm: str, reading: Reading) -> None:
        for mention in reading.mentions:
            if _on_held_out(mention) or (not isinstance(mention.node, Measure) and self._rests_on_held_out(mention.node.prediction)):
                at = mention.at["part"] if _on_held_out(mention) else mention.at["prediction"]
                what = "the held-out part" + ("" if _on_held_out(mention) else f", which {mention.node.prediction} is judged on")
                error = reading.error(at, what, "arms run before the study is judged, and the held-out part "
                                      "is known from then on", "leave part out: the validation part decides")  # fmt: skip
                self.problems.append(Problem.of(error, self._lines[arm], f"arms.{arm}.run_if"))

    def _rests_on_held_out(self, name: str) -> bool:
        """Whether a prediction is judged on it, by itself or through the outcome of another."""
        waiting, seen = [name], set()
        while waiting:
            here = waiting.pop()
            if here not in seen:
                seen.add(here)
                mentions = [mention for reading in self.conditions.get(here, ()) for mention in reading.mentions]
                if any(map(_on_held_out, mentions)):
                    return True
                waiting += [mention.node.prediction for mention in mentions if not isinstance(mention.node, Measure)]
        return False

    # --- nothing waits for itself

    def _in_order(self) -> None:
        asks = {name: {one.prediction for reading in readings for one in outcomes(reading.node)} & self.predictions.keys()
                for name, readings in self.conditions.items()}  # fmt: skip
        try:
            order = list(TopologicalSorter(asks).static_order())
        except CycleError as error:
            circle = error.args[1][::-1]
            said = "its own outcome" if len(set(circle)) == 1 else f"itself: {' asks for '.join(circle)}"
            self._of_prediction(circle[0], f"it asks for {said}", "an outcome follows from predictions that do not wait for it")
            return
        depth: dict[str, int] = {}
        for name in order:
            depth[name] = 1 + max((depth[other] for other in asks[name]), default=-1)
            if depth[name] == DEEPEST + 1:
                self._of_prediction(name, f"it builds on {depth[name]} others, one on the other", f"at most {DEEPEST} build on each other")
        self._arms_in_order(asks)

    def _of_prediction(self, name: str, what: str, rule: str) -> None:
        line = dict(written(self.keys))[name].line
        self.problems.append(Problem(line, f"predictions.{name}", what, rule, "say it by numbers, not by an outcome"))

    def _arms_in_order(self, asks: Mapping[str, set[str]]) -> None:
        waits = {arm: self._named_by([reading], asks) & self.run_ifs.keys() for arm, reading in self.run_ifs.items()}
        try:
            TopologicalSorter(waits).prepare()
        except CycleError as error:
            circle = error.args[1][::-1]
            own = len(set(circle)) == 1
            said = f"{circle[0]} runs only if it has run" if own else f"arms wait for each other: {' for '.join(circle)}"
            rule = "an arm waits for results of other arms, and for those that they are compared with"
            self.problems.append(Problem(self._lines[circle[0]], f"arms.{circle[0]}.run_if", said, rule, "name another arm, or over=ARM"))

    def _named_by(self, readings: Iterable[Reading], asks: Mapping[str, set[str]]) -> set[str]:
        """Arms whose results decide these conditions, also through outcomes of predictions."""
        waiting, seen, found = list(readings), set(), set()
        while waiting:
            reading = waiting.pop()
            for one in measures(reading.node):
                found |= {one.arm, compared_with(one, self.study)}
            new = {one.prediction for one in outcomes(reading.node) if one.prediction in asks} - seen
            seen |= new
            waiting += [reading for name in new for reading in self.conditions[name]]
        return found - {None}


def _on_held_out(mention: Mention) -> bool:
    return isinstance(mention.node, Measure) and mention.node.option("part") == "held_out"


def _reads(text: str) -> bool:
    try:
        return bool(parse_condition(text))
    except ClaimError:
        return False  # which is told of


def _few(names: Iterable[str]) -> str:
    names = list(names)
    return ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")


def _near(name: str, names: Iterable[str]) -> str:
    return next(iter(difflib.get_close_matches(name, names, n=1, cutoff=0.4)), "name one of these")


def untaken(study: Study) -> list[str]:
    """A warning for each measure that predictions name and that runs of this study, as it is, do not take."""
    texts = [text for one in study.predictions for key in OUTCOMES for text in getattr(one, key).values() if not is_otherwise(text)]
    conditions = [*texts, *(arm.run_if for arm in study.arms if arm.run_if)]
    expressions = [*study.quantities.values(), *(text for one in study.predictions for text in one.guess)]
    nodes = [read_condition(text).node for text in conditions] + [read_expression(text).node for text in expressions]
    named = {one.name for node in nodes for one in measures(node)}
    absent = {name: kind for name, kind in _TAKEN_AS.items() if name in named and kind not in study.measure.take}
    found = [f"predictions name {name}(…), and measure.take leaves out {kind} (`ostinato measure`)" for name, kind in absent.items()]
    if "pairs" in named and study.measure.pairs is None and "pairs" in study.measure.take:
        found.append("predictions name pairs(…), and the study names no minimal pairs: measure: {pairs: blimp}")
    if "crossing" in named and study.evaluate.every is None:
        found.append("predictions name crossing(…), and runs are measured at their end alone: evaluate: {every: 100k}")
    return found
