"""What every text of a prediction is made of: words, names bare or in quotes, arguments in parentheses; and where a text goes wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ostinato.claims.options import Given
from ostinato.errors import ClaimError

DEEPEST = 32
_SPACE = re.compile(r"\s*")
WORD = re.compile(r"[^\W\d][\w.]*(?:-\w[\w.]*)*")
_KEY = re.compile(r"([^\W\d]\w*)\s*=\s*")
_QUOTED = re.compile(r"\"(?:[^\"]|\"\")*\"|'(?:[^']|'')*'")
_BARE = re.compile(r"[^,()\"']*")


@dataclass
class Scanner:
    """`at` is the place of the next character of the text, from 0; depth: how many parentheses, signs and `not` are open."""

    text: str
    at: int = 0
    depth: int = 0

    def error(self, what: str, rule: str, fix: str, at: int | None = None) -> ClaimError:
        """The error to raise about the character at place `at` (default: the next one)."""
        return ClaimError(self.text, (self.at if at is None else at) + 1, what, rule, fix)

    def end(self) -> bool:
        return self.at >= len(self.text)

    def space(self) -> None:
        self.at = _SPACE.match(self.text, self.at).end()

    def take(self, mark: str) -> bool:
        if found := self.text.startswith(mark, self.at):
            self.at += len(mark)
            self.space()
        return found

    def match(self, pattern: re.Pattern[str]) -> str | None:
        match = pattern.match(self.text, self.at)
        if match is None or not match[0]:
            return None
        self.at = match.end()
        return match[0]

    def peek_word(self) -> str:
        match = WORD.match(self.text, self.at)
        return match[0] if match else ""

    def take_word(self, *words: str) -> str | None:
        """One of these words, in capitals or not."""
        word = self.peek_word()
        if word.lower() not in words:
            return None
        self.at += len(word)
        self.space()
        return word.lower()

    def must(self, *words: str, after: str, example: str) -> None:
        for word in words:
            if not self.take_word(word):
                raise self.error(f"{self.here()} where the word {word!r} belongs", f"after {after} stands {' '.join(words)}", example)

    def here(self) -> str:
        """What stands here, in words."""
        if self.end():
            return "the end"
        word = self.peek_word()
        return repr(word[:40]) if word else repr(self.text[self.at])

    @contextmanager
    def deeper(self) -> Iterator[None]:
        if self.depth == DEEPEST:
            raise self.error("too much within each other", f"parentheses, signs and `not` nest at most {DEEPEST} deep", "write it flatter")
        self.depth += 1
        yield
        self.depth -= 1

    def close(self, start: int) -> None:
        if not self.take(")"):
            if self.end():
                raise self.error("this parenthesis is not closed", "every ( has its )", "add the ) where it ends", start)
            raise self.error(f"{self.here()} where the parenthesis of column {start + 1} should close", "every ( has its )",
                             "add the ), or an operator between the two")  # fmt: skip

    def arguments(self, paren: int) -> list[Given]:
        """Names and options up to the parenthesis that closes the measure."""
        found: list[Given] = []
        while True:
            start, key = self.at, None
            if match := _KEY.match(self.text, self.at):
                key, self.at = match[1], match.end()
            place = self.at
            found.append(Given(key, self.value(), start, place))
            if self.take(","):
                continue
            self.close(paren)
            return found

    def value(self) -> str:
        """A name, bare up to the next comma or parenthesis, or in quotes."""
        start = self.at
        if text := self.match(_QUOTED):
            self.space()
            value = text[1:-1].replace(text[0] * 2, text[0])
        elif not self.end() and self.text[self.at] in "\"'":
            raise self.error("this quote is not closed", "a quoted name ends with the mark that it begins with", "add the mark", start)
        else:
            value = " ".join((self.match(_BARE) or "").split())
            if not self.end() and self.text[self.at] in "(\"'":
                raise self.error(f"{self.text[self.at]!r} within a name", "a name with ( ) , or quotes in it stands in quotes; "
                                 "or is the ) of the measure missing before?", f'write "{value}…" in quotes')  # fmt: skip
        if not value.isprintable():
            raise self.error("a name with a character that cannot be printed", "names are one line of printable characters",
                             "write the name as it stands in the study", start)  # fmt: skip
        return value
