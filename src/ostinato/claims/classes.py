"""Token classes by name: which targets are in `R`, in `k >= 8`, in `tok-repeat`; families whose classes share out all targets.

R            new, tok-repeat, bigram-repeat: the token, and the pair of its input and it, seen earlier in the document or not
k            the longest match: that many tokens and the target stood earlier in the document (0: none longer than the token)
k in view    the same within what the window shows
view         where the longest match is: there is none, in view, longer out of view than in view, out of view alone
count        how often the token is a target in the training stream
position     tokens of the document before the target, BOS included
shown        inputs of its window that predict the target, BOS included

A class is a range of whole numbers of one of these, so `k >= 8`, `count < 10` and `position = 1` are classes as well. A hyphen and an
underscore are the same in a name. Which number a target has in a family, `ostinato.data.classes.TokenClasses` says.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ostinato.claims.numbers import count
from ostinato.errors import StudyError

MATCHES = (0, 1, 2, 4, 8, 16, 32)
"""Match lengths k: tokens before the target that stand before it a second time."""
ALL = "all"
"""The name of the class of every target."""
_OPERATORS = {"=": "=", "==": "=", ">=": "≥", "≥": "≥", "<=": "≤", "≤": "≤", ">": ">", "<": "<"}
_CONDITION = re.compile(r"(?P<family>[A-Za-z ]+?) ?(?P<operator>>=|<=|==|≥|≤|=|>|<) ?(?P<value>.+)")


@dataclass(frozen=True)
class TokenClass:
    """The targets whose number in `family` is from low to high; None: without an end, and one of the two is given."""

    name: str
    family: str
    low: int | None
    high: int | None

    def of(self, classes: Any) -> Any:
        """Which targets it has: bool [N].  classes: `ostinato.data.classes.TokenClasses`."""
        value = classes.number(self.family)
        if self.low is None:
            return value <= self.high
        return value >= self.low if self.high is None else (value >= self.low) & (value <= self.high)


@dataclass(frozen=True)
class Family:
    """about: in a few words. classes: that share out the targets. named: by words alone."""

    about: str
    classes: tuple[TokenClass, ...]
    named: bool = False


def _kinds(family: str, names: tuple[str, ...]) -> tuple[TokenClass, ...]:
    return tuple(TokenClass(name, family, place, place) for place, name in enumerate(names))


def _lengths(family: str) -> tuple[TokenClass, ...]:
    return tuple(TokenClass(f"{family} = {k}", family, k, k) for k in MATCHES)


def _bands(family: str, edges: tuple[int, ...]) -> tuple[TokenClass, ...]:
    """Bands that begin at each edge, the last without an end."""
    closed = (TokenClass(f"{family} {low:,}" + (f"–{high - 1:,}" if high - low > 1 else ""), family, low, high - 1)
              for low, high in pairwise(edges))  # fmt: skip
    return (*closed, TokenClass(f"{family} {edges[-1]:,} or more", family, edges[-1], None))


_PLACES = (1, 4, 16, 64, 256, 1024, 4096, 16384)
FAMILIES = {
    "R": Family("repeats in the document", _kinds("R", ("new", "tok-repeat", "bigram-repeat")), named=True),
    "k": Family("longest match in the document", _lengths("k")),
    "k in view": Family("longest match in the window", _lengths("k in view")),
    "view": Family("where the longest match is",
                   _kinds("view", ("no match", "match in view", "longer match out of view", "match out of view")), named=True),
    "count": Family("times the token is a target in training", _bands("count", (0, 1, 10, 100, 1_000, 10_000, 100_000, 1_000_000))),
    "position": Family("tokens before the target in its document", _bands("position", _PLACES)),
    "shown": Family("inputs of the window before the target", _bands("shown", _PLACES)),
}  # fmt: skip
_BY_NAME = {one.name: one for family in FAMILIES.values() for one in family.classes}


def named_classes(names: str | Iterable[str]) -> tuple[TokenClass, ...]:
    """The classes that a text (commas between) or a list names: whole families (R), classes (new), conditions (k >= 8, R = new).

    Each once, in the order of their first mention. Raises StudyError for a name that is none of these.
    """
    asked = re.split(r",(?!\d)", names) if isinstance(names, str) else names
    found = [one for name in asked for one in _named(" ".join(str(name).split()))]
    return tuple(dict.fromkeys(found))


def named_class(name: str) -> TokenClass | None:
    """The one class of this name, None for `all`. Raises StudyError for a name that is none, and for a family of several."""
    if name == ALL:
        return None
    found = _named(" ".join(name.split()))
    if len(found) > 1:
        listed = ", ".join(one.name for one in found[:4])
        raise _unknown(f"{name} is a family of {len(found)} classes", f"name one of them: {listed}{', …' if len(found) > 4 else ''}")
    return found[0]


def typed(one: TokenClass) -> str:
    """Its name in characters that every keyboard has, which names it too: k >= 8, count 1-9."""
    return one.name.replace("≥", ">=").replace("≤", "<=").replace("–", "-")


def _named(name: str) -> tuple[TokenClass, ...]:
    if name in FAMILIES:
        return FAMILIES[name].classes
    word = _word(name)
    if word in _BY_NAME:
        return (_BY_NAME[word],)
    match = _CONDITION.fullmatch(name)
    if not match or match["family"] not in FAMILIES:
        wanted = match["family"] if match else word
        near = difflib.get_close_matches(wanted, [*FAMILIES, *_BY_NAME], 1, 0.5)
        raise _unknown(f"no token class {name[:60]!r}", f"did you mean {near[0]}?" if near else "write R, k, new, or k >= 8")
    return (_condition(name, match["family"], _OPERATORS[match["operator"]], match["value"]),)


def _word(name: str) -> str:
    """As the classes are called: tok_repeat is tok-repeat, count 1-9 has a dash."""
    return re.sub(r"(?<=\d)-(?=\d)", "–", name.replace("_", "-"))


def _condition(name: str, family: str, operator: str, value: str) -> TokenClass:
    listed = FAMILIES[family]
    if listed.named:
        found = next((one for one in listed.classes if one.name == _word(value)), None)
        if operator != "=" or found is None:
            raise _unknown(f"no token class {name[:60]!r}", f"the classes of {family} are {', '.join(one.name for one in listed.classes)}")
        return found
    try:
        number = count(value.replace(",", ""))
    except ValueError as error:
        raise _unknown(f"token class {name[:60]!r}: {error}", f"write {family} >= 8, for example") from None
    if family in ("k", "k in view") and number not in MATCHES:
        raise _unknown(f"token class {name!r}: no match has the length {number:,}", f"lengths are {', '.join(map(str, MATCHES))}")
    low = {"=": number, "≥": number, ">": number + 1}.get(operator)
    high = {"=": number, "≤": number, "<": number - 1}.get(operator)
    return TokenClass(f"{family} {operator} {number:,}", family, low, high)


def _unknown(what: str, fix: str) -> StudyError:
    rule = f"classes are those of {', '.join(FAMILIES)}, and conditions as k >= 8, count < 10 and R = new"
    return StudyError(what, rule, fix)
