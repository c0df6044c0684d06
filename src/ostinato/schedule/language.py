"""Read a schedule: `1..8 1..8:attn`, `(1..3)x3 (4..6)x3`, `1..2 (3..6)x{r} 7..8`, `[4,2,1,1]`.

    schedule  =  map | term {space term}
    map       =  "[" count {"," count} "]"                   one count for each layer, in order
    term      =  (layer | layer ".." layer | "(" term {space term} ")") {suffix}
    suffix    =  "x" count | "x{r}" | ":attn" | ":mlp"        each kind once; a range is repeated in parentheses

One pass from left to right, without backtracking. The number of applications is reckoned, never built, so that no text however
large takes longer than reading it up to its first error.
"""

from __future__ import annotations

import re

from ostinato.errors import ScheduleError
from ostinato.schedule import terms as t
from ostinato.schedule.application import Part

MOST_APPLICATIONS = 4096
DEEPEST_NESTING = 32
_SPACE = re.compile(r"\s*")
_DIGITS = re.compile(r"[0-9]+")
_NOT_OURS = {"-": "write 1..8 for the layers 1 to 8", "–": "write 1..8 for the layers 1 to 8", "…": "write 1..8, with two full stops",
             "*": "write 4x3 to run layer 4 three times", "×": "write 4x3 to run layer 4 three times",
             ",": "separate terms by a space: 1..8 4", ";": "separate terms by a space: 1..8 4"}  # fmt: skip


class Reader:
    """Reads one text; `at` is the place of the next character, from 0."""

    def __init__(self, text: str, layers: int):
        self.text, self.layers, self.at = text, layers, 0

    def error(self, what: str, rule: str, fix: str, at: int | None = None) -> ScheduleError:
        """The error to raise about the character at place `at` (default: the next one)."""
        return ScheduleError(self.text, (self.at if at is None else at) + 1, what, rule, fix)

    def schedule(self) -> tuple[t.Term, ...]:
        """The whole text as terms in normal form."""
        self._space()
        if self._end():
            raise self.error("nothing here", "a schedule names at least one layer", f"write {self._plain()}, or leave the schedule out", 0)
        if self._next("["):
            return self._map()
        found = self._terms(depth=0)
        if not self._end():
            raise self.error("this parenthesis closes nothing", "every ) has its (", "take it out, or add the ( it belongs to")
        return found

    def _plain(self) -> str:
        return "1" if self.layers == 1 else f"1..{self.layers}"

    def _end(self) -> bool:
        return self.at >= len(self.text)

    def _next(self, mark: str) -> bool:
        return self.text.startswith(mark, self.at)

    def _take(self, mark: str) -> bool:
        if found := self._next(mark):
            self.at += len(mark)
        return found

    def _space(self) -> None:
        self.at = _SPACE.match(self.text, self.at).end()

    def _number(self, most: int) -> int:
        """The number here, at most `most` + 1 (so that a huge one costs nothing). Raises when there is none."""
        match = _DIGITS.match(self.text, self.at)
        if match is None:
            here = "the end" if self._end() else repr(self.text[self.at])
            fix = _NOT_OURS.get("" if self._end() else self.text[self.at], "write one, as in 1..8 or 4x3")
            raise self.error(f"a number is missing before {here}", "layers and counts are whole numbers", fix)
        self.at = match.end()
        digits = match[0].lstrip("0")
        return most + 1 if len(digits) > 9 else min(int(digits or "0"), most + 1)

    def _layer(self) -> int:
        start = self.at
        layer = self._number(self.layers)
        if not 1 <= layer <= self.layers:
            named = self.text[start : self.at][:20]
            raise self.error(f"there is no layer {named}", f"layers are numbered from 1 to {self.layers}, as many as `layers` has",
                             f"name a layer from 1 to {self.layers}, or give the model more layers", start)  # fmt: skip
        return layer

    def _count(self) -> int:
        start = self.at
        count = self._number(MOST_APPLICATIONS)
        if count == 0:
            raise self.error("0 repetitions", "what is named runs at least once", "leave out what should not run, or write x1", start)
        if count > MOST_APPLICATIONS:
            raise self.error(f"{self.text[start : self.at][:20]} repetitions", _LIMIT, "repeat less often", start)
        return count

    def _terms(self, depth: int) -> tuple[t.Term, ...]:
        """Terms up to the end, or to the parenthesis that closes this group (left for the caller)."""
        found: list[t.Term] = []
        total = 0
        self._space()
        while not self._end() and not self._next(")"):
            start = self.at
            for term in self._term(depth):
                found.append(term)
                total += t.length(term, 1)
            if total > MOST_APPLICATIONS:
                raise self.error(f"with this term the schedule has {total:,} applications", _LIMIT, "repeat less often", start)
            end = self.at
            self._space()
            if self.at == end and not self._end() and not self._next(")"):
                raise self._stray()
        return tuple(found)

    def _stray(self) -> ScheduleError:
        mark = self.text[self.at]
        if mark == ".":
            return self.error("a range has two ends", "a range is written first..last", "write 1..8, or two ranges: 1..4 5..8")
        if mark in "([":
            return self.error("a space is missing before this", "terms are separated by spaces", "write 1 (2 3)x2")
        return self.error(f"{mark!r} means nothing here", "terms are separated by spaces and end with x3, x{r}, :attn or :mlp",
                          _NOT_OURS.get(mark, "see the examples: 1..8 1..8:attn, (1..3)x3, 1x4 2x2 3 4"))  # fmt: skip

    def _term(self, depth: int) -> tuple[t.Term, ...]:
        start = self.at
        if self._next("["):
            raise self.error("a reuse map among other terms", "a reuse map [4,2,1,1] is a whole schedule", "write it out: 1x4 2x2 3 4")
        if self._take("("):
            if depth == DEEPEST_NESTING:
                raise self.error("too many parentheses within each other", f"groups nest at most {DEEPEST_NESTING} deep",
                                 "write some of the repetitions out", start)  # fmt: skip
            inner = self._terms(depth + 1)
            if not self._take(")"):
                raise self.error("this parenthesis is not closed", "every ( has its )", "add the ) where the group ends", start)
            if not inner:
                raise self.error("an empty group", "a group names at least one layer", "take it out, or name what it repeats", start)
            return self._suffixes(inner, start, is_range=False)
        if self._next("x") or self._next(":"):
            raise self.error("a suffix without the term it belongs to", "x3 and :attn follow their term without a space",
                             "write (1..3)x3 or 4:attn")  # fmt: skip
        if not _DIGITS.match(self.text, self.at):
            raise self._stray()
        first = last = self._layer()
        if is_range := self._take(".."):
            end = self.at
            last = self._layer()
            if last < first:
                raise self.error(f"the range runs down from {first} to {last}", "a range runs upward",
                                 f"write {last}..{first}, or name the layers one by one: {first} {first - 1} …", end)  # fmt: skip
        return self._suffixes((t.Run(first, last),), start, is_range)

    def _suffixes(self, inner: tuple[t.Term, ...], start: int, is_range: bool) -> tuple[t.Term, ...]:
        part: Part = "both"
        times: int | None = 1
        repeated = False
        while self._next("x") or self._next(":"):
            at = self.at
            if self._take("x"):
                if repeated:
                    raise self.error("repeated twice over", "a term has one count", "write 4x6, or (4x2)x3", at)
                if is_range:
                    text = self.text[start:at]
                    raise self.error("is it the range or its last layer that is repeated?", "a range is repeated in parentheses",
                                     f"write ({text.partition(':')[0]})x3", at)  # fmt: skip
                repeated, times = True, self._times()
            elif part != "both":
                raise self.error("limited twice over", "a term is limited to :attn or to :mlp once", "keep one of them", at)
            else:
                part = self._part(inner)
        found = t.group(inner, part, times)
        if sum(t.length(term, 1) for term in found) > MOST_APPLICATIONS:
            total = sum(t.length(term, 1) for term in found)
            raise self.error(f"{self.text[start : self.at][:40]} stands for {total:,} applications", _LIMIT, "repeat less often", start)
        return found

    def _times(self) -> int | None:
        at = self.at
        if not self._next("{"):
            return self._count()
        if not self._take("{r}"):
            raise self.error("not a count", "a count is a number, or {r} when it is left open", "write x3, or x{r} with `passes: 3`", at)
        return None

    def _part(self, inner: tuple[t.Term, ...]) -> Part:
        at = self.at
        part: Part
        if self._take(":attn"):
            part = "attn"
        elif self._take(":mlp"):
            part = "mlp"
        else:
            raise self.error("not a sublayer", "the sublayers are :attn and :mlp", "write 4:attn or 4:mlp, or 4 for the whole layer")
        if other := set().union(*(t.parts(term) for term in inner)) - {part}:
            raise self.error(f":{part} around a term that is limited to :{min(other)}", "what runs must have a sublayer left to run",
                             "keep one of the two suffixes", at)  # fmt: skip
        return part

    def _map(self) -> tuple[t.Term, ...]:
        start = self.at
        self._take("[")
        counts: list[int] = []
        while True:
            self._space()
            at = self.at
            counts.append(self._count())
            if len(counts) > self.layers:
                raise self.error(f"a count for layer {len(counts)}", f"a reuse map has one count for each of the {self.layers} layers",
                                 "take it out, or give the model more layers", at)  # fmt: skip
            if sum(counts) > MOST_APPLICATIONS:
                raise self.error(f"with this count the schedule has {sum(counts):,} applications", _LIMIT, "repeat less often", at)
            self._space()
            if self._take("]"):
                break
            if self._end():
                raise self.error("this bracket is not closed", "a reuse map is written [4,2,1,1]", "add the ] after the last count", start)
            if not self._take(","):
                raise self.error(f"{self.text[self.at]!r} means nothing here", "counts are separated by commas", "write [4,2,1,1]")
        if len(counts) < self.layers:
            raise self.error(f"{len(counts)} counts for {self.layers} layers", "a reuse map has one count for each layer",
                             "add the missing counts, or write the schedule out: 1x4 2x2 3 4", self.at - 1)  # fmt: skip
        self._space()
        if not self._end():
            raise self.error("something follows the reuse map", "a reuse map [4,2,1,1] is a whole schedule", "write it out: 1x4 2x2 3 4")
        return tuple(t.Run(layer, layer, times=count) for layer, count in enumerate(counts, 1))


_LIMIT = f"a schedule has at most {MOST_APPLICATIONS:,} applications"
