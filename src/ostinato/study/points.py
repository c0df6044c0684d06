"""Points in training at which something happens: `100k`, `every 100M, and every 5M from 150M to 200M`, `at 1M, 2M`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ostinato.errors import StudyError
from ostinato.study.numbers import count
from ostinato.study.records import Evaluate

MEASURED = ("validation", "held_out")
"""Parts of the text that a run is measured on."""
PARTS = ("train", *MEASURED)
MOST_POINTS = 10_000
_EXAMPLES = "write 100k, every 100M and every 5M from 150M to 200M, or at 1M, 2M"
_SPLIT = re.compile(r"\s*(?:,\s*and\b|,|;|\band\b)\s*")


@dataclass(frozen=True)
class Clause:
    """Multiples of `step` from `first` to `last` (None: the end), or the single point `first` when `step` is 0. Tokens."""

    step: int
    first: int
    last: int | None


def clauses(text: str | None) -> tuple[Clause, ...]:
    """What a text of points says. Raises StudyError with the clause that cannot be read."""
    if text is None or not text.strip() or text.strip().lower() == "none":
        return ()
    found: list[Clause] = []
    listing = False
    for part in _SPLIT.split(text.strip()):
        words = part.split()
        if words and words[0] == "at":
            listing, words = True, words[1:]
        elif words and words[0] == "every":
            listing, words = False, words[1:]
        elif found and not listing:
            raise _error(text, f"{part!r} says neither 'every' nor 'at'")
        found.append(_point(text, words) if listing else _every(text, words))
    return tuple(found)


def _every(text: str, words: list[str]) -> Clause:
    if not words or len(words) not in (1, 3, 5) or any(word not in ("from", "to") for word in words[1::2]) or words[1::2] == ["to", "from"]:
        raise _error(text, f"{' '.join(['every', *words])!r} is not 'every N', 'every N to B' or 'every N from A to B'")
    step = _tokens(text, words[0])
    if step == 0:
        raise _error(text, "every 0 tokens never moves on")
    limits = dict(zip(words[1::2], words[2::2], strict=True))
    if len(limits) != len(words[1::2]):
        raise _error(text, f"{' '.join(words)!r} gives the same limit twice")
    first = _tokens(text, limits["from"]) if "from" in limits else step
    last = _tokens(text, limits["to"]) if "to" in limits else None
    if last is not None and last < first:
        raise _error(text, f"{' '.join(words)!r} ends before it begins")
    return Clause(step, first, last)


def _point(text: str, words: list[str]) -> Clause:
    if len(words) != 1:
        raise _error(text, f"{' '.join(words)!r} is not one number of tokens")
    place = _tokens(text, words[0])
    return Clause(0, place, place)


def _tokens(text: str, word: str) -> int:
    try:
        number = count(word)
    except ValueError as error:
        raise _error(text, str(error)) from None
    if number < 0:
        raise _error(text, f"{word} lies before the start")
    return number


def _error(text: str, what: str) -> StudyError:
    return StudyError(f"points {text[:80]!r}: {what}", "points are numbers of training tokens", _EXAMPLES)


def measurements(evaluate: Evaluate, total_tokens: int, tokens_per_step: int) -> dict[int, tuple[str, ...]]:
    """What is measured where: {point in tokens: parts of the text}, ascending."""
    found = points(evaluate.every, total_tokens, tokens_per_step)
    return {point: MEASURED if evaluate.held_out == "every" or point == found[-1] else MEASURED[:1] for point in found}


def points(text: str | None, total_tokens: int, tokens_per_step: int) -> tuple[int, ...]:
    """The points in tokens, ascending, each moved to the nearest whole step (at least the first); the end is always one.

    total_tokens: tokens of the run, a multiple of tokens_per_step. Points after the end are left out, so arms with
    fewer tokens can share a text. Raises StudyError for a text that cannot be read or says more than 10,000 points.
    """
    steps = total_tokens // tokens_per_step
    found = {steps}
    for clause in clauses(text):
        last = min(total_tokens, total_tokens if clause.last is None else clause.last)
        if clause.step and (last - clause.first) // clause.step >= MOST_POINTS:
            raise _error(str(text), f"more than {MOST_POINTS:,} points in {total_tokens:,} tokens")
        places = range(clause.first, last + 1, clause.step) if clause.step else (clause.first,) * (clause.first <= last)
        found.update(max(1, (2 * place + tokens_per_step) // (2 * tokens_per_step)) for place in places)
    return tuple(step * tokens_per_step for step in sorted(found) if step <= steps)
