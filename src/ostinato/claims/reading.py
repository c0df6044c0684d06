"""A text that was read: its tree, and where in the text its names stand, so that who knows the names can say which is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ostinato.claims import terms as t
from ostinato.errors import ClaimError


class Mention(NamedTuple):
    """A measure or an outcome in a text, and the columns (from 1) of the names in it: of the arm ("arm"), of options by key."""

    node: t.Measure | t.Outcome
    at: Mapping[str, int]


@dataclass(frozen=True)
class Reading:
    """A text that was read.  mentions: what it names, from left to right."""

    text: str
    node: t.Node
    mentions: tuple[Mention, ...]

    def error(self, column: int, what: str, rule: str = "", fix: str = "") -> ClaimError:
        """The error to raise about a name in it."""
        return ClaimError(self.text, column, what, rule, fix)
