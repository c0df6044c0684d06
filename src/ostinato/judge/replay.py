"""A replay judged: predictions that a paper made, on the table that it prints, by the rules that a study of our own is judged by.

Nothing in it was sealed, so every verdict is exploratory, and the judgement says that it was transcribed. Notes tell what a reader should
know of the table: where it does not agree with itself, which arms of a ranking its noise cannot tell apart, which are confounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from ostinato.claims import MEASURES, Condition, Measure, measures, parse_condition
from ostinato.judge.conclude import OTHERWISE, Conclusions, quantities
from ostinato.judge.consistency import disagreements
from ostinato.judge.contingent import with_numbers
from ostinato.judge.estimable import NotEstimable
from ostinato.judge.published import DEFAULTS, column, read_table, unknown
from ostinato.judge.tables import TableMeasurements, stated_noise
from ostinato.judge.verdicts import COUNTED, DUE, NOT_RUN, RAN, UNDECIDED, Contingent, Judgement
from ostinato.study.records import Prediction
from ostinato.study.replays import Ranking, Replay


def judge_replay(replay: Replay) -> Judgement:
    """The verdicts and quantities of a published table. Raises StudyError for a table that cannot be read."""
    measured = measurements_of(replay)
    conclusions = Conclusions(replay.predictions, measured)
    verdicts = tuple(
        replace(one, after_results=(replay.after_results[name],) if name in replay.after_results else ())
        for name, one in conclusions.verdicts().items()
    )
    counts = {arm: {state: len(lines) if state == "done" else 0 for state in COUNTED} for arm, lines in measured.table.arms.items()}
    waiting = tuple(_contingent(arm, text, conclusions, measured) for arm, text in replay.contingent.items())
    ranked = [_ranking(name, ranking, measured) for name, ranking in replay.rankings.items()]
    notes = (*disagreements(measured), *_noise(measured), *_confounded(replay), *ranked)
    return Judgement(replay.name, 0, verdicts, quantities(replay.quantities, measured), counts, waiting, notes,
                     transcribed=replay.note)  # fmt: skip


def measurements_of(replay: Replay) -> TableMeasurements:
    """Raises StudyError for a table, a stated noise or a name of an arm that cannot be read, with the nearest right name."""
    noise = stated_noise(replay.noise.seed, replay.noise.implementation, replay.noise.deviation, replay.noise.seeds)
    found = TableMeasurements(read_table(Path(replay.table)), replay.reference or "", noise)
    over_it = any(each.name == "gain" and not each.get("over") for each in found.table.columns)
    if replay.reference and replay.reference not in found.arms and not over_it:
        raise unknown(f"{replay.name}, reference: the table has no arm {replay.reference!r}", replay.reference, found.arms)
    named = [("confounded", tuple(replay.confounded)), *((f"rankings, {name}", one.arms) for name, one in replay.rankings.items())]
    for key, arms in named:
        for arm in arms:
            if arm not in found.arms:
                raise unknown(f"{replay.name}, {key}: the table has no arm {arm!r}", arm, found.arms)
    return found


def _contingent(arm: str, text: str, conclusions: Conclusions, measured: TableMeasurements) -> Contingent:
    truth = conclusions.holds(text)
    state = RAN if arm in measured.arms else UNDECIDED if truth.holds is None else DUE if truth.holds else NOT_RUN
    return Contingent(arm, text, state, with_numbers(truth), truth.clauses)


def _confounded(replay: Replay) -> Iterator[str]:
    """Which predictions compare an arm that differs in more than what they are about."""
    for words in dict.fromkeys(replay.confounded.values()):
        arms = [arm for arm, said in replay.confounded.items() if said == words]
        named = [one.name for one in replay.predictions if any(term.arm in arms for text in _conditions(one) for term in measures(text))]
        said = f"; {', '.join(named)} compare{'s' * (len(named) == 1)} what the numbers cannot separate" if named else ""
        yield f"confounded: {', '.join(arms)}: {words}{said}"


def _conditions(prediction: Prediction) -> Iterator[Condition]:
    for group in (prediction.supported, prediction.killed, prediction.between):
        yield from (parse_condition(text) for text in group.values() if text.strip().lower() not in OTHERWISE)


def _ranking(name: str, ranking: Ranking, measured: TableMeasurements) -> str:
    """The arms in order, and which neighbours the noise cannot tell apart."""
    asked, _ = column(ranking.by)
    terms = {arm: Measure(asked.name, arm, tuple((key, value) for key, value in asked.options if DEFAULTS.get(key) != value))
             for arm in ranking.arms}  # fmt: skip
    try:
        values = {arm: measured.value(term) for arm, term in terms.items()}
    except NotEstimable as error:
        return f"ranking, {name}: not estimable, {error.reason}"
    sign = -(MEASURES[asked.name].better or -1)
    order = sorted(values, key=lambda arm: sign * values[arm].point)
    doubts: dict[str, list[str]] = {}
    for better, worse in pairwise(order):
        doubts.setdefault((values[worse] - values[better]).doubt, []).append(f"{better} against {worse}")
    told = doubts.pop("", [])
    said = [f"not distinguishable: {', '.join(pairs)} ({doubt})" for doubt, pairs in doubts.items()]
    said += [f"distinguishable: {', '.join(told)}"] if told else []
    best = ", ".join(f"{arm} {values[arm].point:.6g}" for arm in order)
    return f"ranking by {ranking.by}, {name}, the best first: {best}. Neighbours {'; '.join(said)}"


def _noise(measured: TableMeasurements) -> Iterator[str]:
    """What is known of the noise of the whole table."""
    single = sum(len(lines) == 1 for lines in measured.table.arms.values())
    stated = {*measured.noise.seed, *measured.noise.deviation}
    if single and not stated:
        yield (f"one seed of {single} of {len(measured.arms)} arms, and no noise of seeds is stated: no order of theirs is told from "
               "noise, and every verdict on them is within it")  # fmt: skip
    elif single and measured.noise.seed and not measured.noise.deviation:
        named = ", ".join(map(str, measured.noise.seed))
        yield (f"the noise of seeds is stated from one pair of runs, for {named}: one degree of freedom, so that a difference of two "
               "single runs is clear from 12.7 times the difference of that pair on")  # fmt: skip
