"""The answer in plain words, from the records of the tables: which arm is better, by how much, how sure, what to be careful about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ostinato.analysis import ArmResult, Interval, OverSeeds
from ostinato.claims import Measure, measures, parse_condition
from ostinato.judge.verdicts import WITHIN_NOISE, Judgement, Verdict
from ostinato.report import numbers
from ostinato.report.controls import Control
from ostinato.report.results import STATE_WORDS, verdict
from ostinato.report.units import WORDS, only_base
from ostinato.study.records import Study

MOST = 4  # sentences about single arms; the table has all of them
FEW_DOCUMENTS = 10  # with fewer an interval over documents says little


@dataclass(frozen=True)
class Answer:
    """lead: the result in one sentence. details: arms, matched pairs and crossings. cautions: floors, seeds, what is unfinished."""

    lead: str
    details: tuple[str, ...]
    cautions: tuple[str, ...]


def answer(study: Study, results: Sequence[ArmResult], pairs: Sequence[Control] = (), judgement: Judgement | None = None) -> Answer:
    """What the results say so far. judgement: the verdicts that stand above it, which its words are not to contradict."""
    compared = [result for result in results if not result.reference and result.seeds and result.seeds.mean is not None]
    by_name = {result.name: result for result in results}

    def order(result: ArmResult) -> tuple[bool, bool, float]:
        """Pairs that the study names first, in its order; then equal budgets, then the largest gain."""
        if result.arm.against is not None and only_base(results) is None:
            return False, False, float(results.index(result))
        return True, result.ledger.tokens != by_name[result.against].ledger.tokens, -result.seeds.mean

    ranked = sorted(compared, key=order)
    lines = [_arm_sentence(result, by_name[result.against]) for result in ranked]
    lead, rest = _lead(study, results, ranked, lines)
    details = _first(rest, "arms") + _first([_pair_sentence(pair) for pair in pairs], "pairs of equal cost")
    details += _crossing_sentences(compared)
    return Answer(lead, tuple(details), (*_cautions(results, compared), *_beside_verdicts(compared, judgement)))


def _beside_verdicts(compared: Sequence[ArmResult], judgement: Judgement | None) -> list[str]:
    """Why an arm is better here, and a verdict on it within noise: a verdict asks more of the seeds."""
    told = {result.name for result in compared if verdict(result.words) in ("better", "worse")}
    unsure = [
        one.name
        for one in (judgement.verdicts if judgement else ())
        if one.strength == WITHIN_NOISE and told & {term.arm for term in _measures(one)}
    ]
    if not unsure:
        return []
    return [f"Better and worse are said of each arm's own gain. Whether a verdict is clear is another question, of its border, and asks "
            f"more of the seeds: within noise {'is' if len(unsure) == 1 else 'are'} {numbers.listed(unsure)}."]  # fmt: skip


def _measures(one: Verdict) -> Iterator[Measure]:
    """Of every comparison that was made for a verdict, but not of the outcomes that it asks for."""
    for condition in one.conditions:
        for clause in condition.clauses:
            yield from measures(parse_condition(clause.text))


def _first(sentences: list[str], what: str) -> list[str]:
    left = len(sentences) - MOST
    return sentences[:MOST] + ([f"{left} more {what} are in the table."] if left > 0 else [])


def _lead(study: Study, results: Sequence[ArmResult], ranked: Sequence[ArmResult], lines: list[str]) -> tuple[str, list[str]]:
    """The first sentence, and the sentences about single arms that are then left to say."""
    if not ranked:
        measured = [result for result in results if result.tokens is not None]
        if not measured:
            return "Nothing is measured yet.", []
        names = numbers.listed([result.name for result in measured])
        return f"Measured so far: {names}. No arm can be compared with {study.reference} yet.", []
    if len(ranked) == 1:
        return lines[0], []
    kinds = [verdict(result.words) for result in ranked]
    base, both = only_base(results), "both" if len(ranked) == 2 else f"all {len(ranked)}"
    counts = [(kinds.count("better"), "better"), (kinds.count("zero"), "about equal"), (kinds.count("worse"), "worse")]
    if base is None:
        said = [f"{words} in {both if count == len(ranked) else count}" for count, words in counts if count]
        return f"Of {len(ranked)} pairs, the first arm is {numbers.listed(said)}. First: {lines[0]}", lines[1:]
    if len(set(kinds)) == 1 and kinds[0] in ("better", "worse"):
        best = "Best" if kinds[0] == "better" else "Least so"
        return f"{both.capitalize()} arms compared with {base} are {kinds[0]}. {best}: {lines[0]}", lines[1:]
    first = "Best" if kinds[0] == "better" else "On an equal budget" if "better" in kinds else "Lowest loss among them"
    said = [f"{count} {'is' if count == 1 else 'are'} {words}" for count, words in counts if count]
    return f"Of {len(ranked)} arms compared with {base}, {numbers.listed(said)}. {first}: {lines[0]}", lines[1:]


def evidence(seeds: OverSeeds, interval: Interval | None) -> str:
    """The part in parentheses: the interval over documents and what the seeds say."""
    span = interval and f"95% over documents {numbers.interval(interval.low, interval.high, 3)}"
    parts = [span or "no interval: fewer than two documents"]
    signs = [gain > 0 for gain in seeds.gains.values()]
    if len(signs) == 1:
        parts.append("one seed")
    elif all(signs) or not any(signs):
        parts.append("both seeds agree in sign" if len(signs) == 2 else f"all {len(signs)} seeds agree in sign")
    else:
        ours = sum(sign == ((seeds.mean or 0) > 0) for sign in signs)
        parts.append("the two seeds disagree in sign" if len(signs) == 2 else f"{ours} of {len(signs)} seeds agree in sign")
    return "; ".join(parts)


def compared_words(arm: str, other: str, seeds: OverSeeds, interval: Interval | None) -> str:
    """twice is better than plain by 0.050 nats a token (95% over documents …)."""
    gain = seeds.mean or 0.0
    kind = verdict(seeds.words)
    if kind in ("better", "worse"):
        said = f"{arm} is {kind} than {other} by {numbers.fixed(abs(gain), 3)} {WORDS[seeds.unit]}"
    else:
        noise = "between seeds" if abs(gain) <= seeds.noise else "over documents"
        shown = f"{numbers.signed(gain, 3)} {WORDS[seeds.unit]}"
        said = f"{arm} and {other} are about equal: the difference, {shown}, is inside the noise {noise}"
    return f"{said} ({evidence(seeds, interval)})"


def _arm_sentence(result: ArmResult, base: ArmResult) -> str:
    assert result.seeds is not None
    said = compared_words(result.name, base.name, result.seeds, result.pairing.interval if result.pairing else None)
    if result.gain_final and result.ledger.tokens != base.ledger.tokens:
        said += f", on {numbers.times(result.ledger.tokens / base.ledger.tokens)} its training tokens"
    return said + ("." if result.gain_final else f", at {numbers.human(result.gain_tokens)} tokens, before the end of training.")


def _pair_sentence(pair: Control) -> str:
    return f"At equal {numbers.listed(list(pair.axes))}, {compared_words(pair.arm, pair.control, pair.seeds, pair.pairing.interval)}."


SIDES = {"before": ", before the first pass over its text ends", "after": ", after the first pass over its text", "inside": "", None: ""}


def _crossing_sentences(compared: Sequence[ArmResult]) -> list[str]:
    """Where arms overtake the one they are compared with, or fall behind it, for good: one sentence each way and for each such arm."""
    where: dict[tuple[str, bool], list[str]] = {}
    for result in compared:
        crossed = result.crossing
        if crossed and crossed.tokens is not None:
            said = f"{result.name} at about {numbers.human(crossed.tokens)} tokens{SIDES[crossed.side]}"
            where.setdefault((result.against, bool(crossed.ahead)), []).append(said)
    found = []
    for (base, ahead), said in sorted(where.items(), key=lambda item: not item[0][1]):
        more = [f"{len(said) - MOST} more"] if len(said) > MOST else []
        verb = "overtaking" if ahead else "falling behind"
        found.append(f"During training, {verb} {base} for good: {numbers.listed(said[:MOST] + more, MOST + 1)}.")
    return _first(found, "such sentences")


def _floors(below: Mapping[str, bool | None]) -> list[str]:
    above = [name for name, is_below in below.items() if is_below is False]
    known = [name for name, is_below in below.items() if is_below is not None]
    if not known:
        return []
    if not above:
        return [
            f"{'Every arm' if len(known) == len(below) else 'Every arm measured'} is below every floor (the simple models in the table)."
        ]
    if len(above) == len(known):
        said = f"{'No arm' if len(known) == len(below) else 'No arm measured so far'} is below every floor"
    else:
        said = f"{numbers.listed(above)} {'is' if len(above) == 1 else 'are'} not below every floor"
    return [f"{said}: counting tokens and pairs of tokens in the training text does better."]


def _cautions(results: Sequence[ArmResult], compared: Sequence[ArmResult]) -> list[str]:
    found = []
    numbers_of_seeds = {len(result.seeds.gains) for result in compared if result.seeds}
    if numbers_of_seeds and max(numbers_of_seeds) < 3:
        what = {(1,): "One seed is", (2,): "Two seeds are"}.get(tuple(numbers_of_seeds), "One or two seeds are")
        found.append(f"{what} weak evidence: for a claim about an architecture the seed is the unit.")
    documents = min((result.pairing.documents for result in compared if result.pairing), default=FEW_DOCUMENTS)
    if documents < FEW_DOCUMENTS:
        held = numbers.several(documents, "document")
        found.append(f"An interval over {held} says little about other text; `separator` in the study splits long files into more.")
    found += _floors({result.name: result.below_floors for result in results})
    states = Counter(STATE_WORDS.get(run.state, run.state) for result in results for run in result.runs if run.state != "not asked")
    total = states.total()
    done = states.pop("done", 0)
    if states.total():
        others = numbers.listed([f"{count} {state}" for state, count in states.items()])
        verb = "is" if done == 1 else "are"
        found.append(f"{done} of {numbers.several(total, 'run')} {verb} finished ({others}); what there is so far is shown.")
    return found
