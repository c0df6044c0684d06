"""What the study says, question by question, of every arm beside the one that it is compared with: numbers first, in plain words.

Is it better; does it cross, where in tokens, before or after the end of the first pass over its text; how many windows and documents it
wins; what it costs. What the measurements cannot tell is said too, with what would tell it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ostinato.analysis import ArmResult, Crossing
from ostinato.analysis.crossover import Crossover
from ostinato.report import numbers
from ostinato.report.costs import cost_words
from ostinato.report.results import verdict
from ostinato.report.sentences import compared_words
from ostinato.study.records import Study

SHOWN = 6  # arms; the others are folded away


@dataclass(frozen=True)
class Said:
    """title: the arm and what it is compared with. lines: one sentence a question."""

    title: str
    lines: tuple[str, ...]


def says(
    study: Study, results: Sequence[ArmResult], crossed: Mapping[str, Crossover] | None = None
) -> tuple[list[Said], list[Said]]:
    """(first shown, folded away): what is said of every arm that is compared; the pairs that the study names come first.

    crossed: by arm, how sure its crossing is.
    """
    known = crossed or {}
    compared = [one for one in results if one.seeds and one.seeds.mean is not None]
    ordered = sorted(compared, key=lambda one: one.arm.against is None)
    told = [Said(f"{one.name} against {one.against}", tuple(lines(one, known.get(one.name)))) for one in ordered]
    return told[:SHOWN], told[SHOWN:]


def lines(result: ArmResult, sure: Crossover | None = None) -> list[str]:
    """One sentence a question, of an arm that is compared."""
    pairing, seeds = result.pairing, result.seeds
    at = "" if result.gain_final else f", at {numbers.human(result.gain_tokens)} tokens, before the end of training"
    better = f"{compared_words(result.name, str(result.against), seeds, pairing.interval)}{at}."
    won = f"{pairing.documents_won:,} of {numbers.several(pairing.documents, 'document')} won."
    if pairing.windows:
        won = f"{pairing.windows_won:,} of {numbers.several(pairing.windows, 'window')} and {won}"
    return [better, crossing_words(result, sure), won, f"Cost: {cost_words(result)}."]


def crossing_words(result: ArmResult, sure: Crossover | None = None) -> str:
    """Whether and where the gain changes its sign for good, how sure that is, and on which side of the end of the first pass."""
    crossed = result.crossing
    if crossed is None:
        return f"No crossing can be told: it trains on another number of tokens than {result.against}."
    if len(crossed.line) == 1:
        return "Whether it crossed cannot be told: one point is measured in both. More are with evaluate: {every: …}."
    if crossed.tokens is None or crossed.between is None:
        return _never(crossed)
    low, high = crossed.between
    verb, then, now = ("overtakes", "behind", "ahead") if crossed.ahead else ("falls behind", "ahead", "behind")
    said = f"At about {numbers.human(crossed.tokens)} tokens it {verb} {result.against} for good: {then} at {numbers.human(low)}, "
    said += f"{now} at {numbers.human(high)}{_seeds(crossed)}{_first_pass(crossed, result.ledger.tokens)}."
    if crossed.changes > 1:
        said += f" The sign changes {crossed.changes} times on the way."
    if sure is not None:
        said += f" {_interval(crossed, sure)}"
    if verdict(result.words) == "zero":
        said += " The difference at the end is inside the noise, and so is this crossing."
    return said


def _interval(crossed: Crossing, sure: Crossover) -> str:
    """The interval of a crossing over documents, and whether its side of the end of the first pass is as sure."""
    low = numbers.human(sure.low) if math.isfinite(sure.low) else f"before the first measured point ({numbers.human(sure.first)})"
    high = numbers.human(sure.high) if math.isfinite(sure.high) else f"after the last one ({numbers.human(sure.last)})"
    said = f"95% over {numbers.several(sure.documents, 'document')}: {low} to {high} tokens"
    if not sure.bracketed:
        said += ", so the measured points do not bracket it"
    if crossed.side in ("before", "after") and sure.side == "unclear":
        share = sure.before if crossed.side == "before" else sure.after
        said += f"; that it is {crossed.side} the end of the first pass is not sure, {numbers.percent(share)} of draws of documents say so"
    return f"{said}."


def _never(crossed: Crossing) -> str:
    gains = [gain for _, gain in crossed.line]
    where = f"measured point ({len(gains)}, from {numbers.human(crossed.line[0][0])} tokens on)"
    if all(gain > 0 for gain in gains) or all(gain < 0 for gain in gains):
        said = f"{'ahead' if crossed.ahead else 'behind'} at every {where}"
    elif not any(gains):
        said = f"level at every {where}"
    else:
        said = f"{'never behind' if max(gains) > 0 else 'never ahead'} at a {where}"
    alone = [f"{seed} at {numbers.human(at)}" for seed, at in crossed.by_seed.items() if at is not None]
    if not alone:
        return f"No crossing: {said}."
    seeds, crosses = ("seed", "crosses") if len(alone) == 1 else ("seeds", "cross")
    return f"No crossing on the mean over seeds: {said}; by itself {seeds} {numbers.listed(alone)} tokens {crosses}."


def _seeds(crossed: Crossing) -> str:
    """(seeds: 140k to 160k), or in how many of them it crosses."""
    if len(crossed.by_seed) < 2:
        return ""
    own = [at for at in crossed.by_seed.values() if at is not None]
    if not own:
        return " (on the mean over seeds; no seed crosses by itself)"
    span = numbers.human(min(own)) + ("" if min(own) == max(own) else f" to {numbers.human(max(own))}")
    part = "" if len(own) == len(crossed.by_seed) else f"{len(own)} of {len(crossed.by_seed)} "
    return f" ({part}seeds: {span})"


def _first_pass(crossed: Crossing, tokens: int) -> str:
    ends = crossed.first_pass_ends
    if ends is None:
        return "; where the first pass over its text ends is not known"
    if ends >= tokens:
        return f", within the first pass over its text ({numbers.human(ends)} tokens), which training does not finish"
    if crossed.side == "inside":
        return (
            f"; the first pass over its text ends at {numbers.human(ends)}, between the two, so before or after cannot be told: "
            "measure more often there"
        )
    return f", {crossed.side} the end of the first pass over its text (at {numbers.human(ends)})"
