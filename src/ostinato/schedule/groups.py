"""Repeated groups: stretches of a schedule that run again right after themselves, found from the applications alone.

`1..4 1..4` and `(1..4)x2` are the same applications, and so the same run; what happens at the beginning and at the end of a pass must
not depend on which of the two was written. Hence parentheses are never asked:

    an application repeats an earlier one    when it is of the same layer and runs a sublayer that the earlier one ran
    a repetition of length k                 a stretch of 2k applications or more, as long as it can be, in which each application
                                             repeats the one k before it (after Main and Lorentz, J. Algorithms 5, 1984)
    a repeated group                         a repetition that holds a whole number of passes and touches no other

    1..8 1..8          (1..8) twice             1..8 1..8:attn       (1..8) twice, in the second pass its attention alone
    1..2 (3..6)x3 7    (3..6) three times       1..8 5..8            (5..8) twice: the same as 1..4 (5..8)x2
    1x4 2x2 3          (1) four times, (2) twice    1..8:attn 1..8:mlp   none: nothing runs again
    1..8 4             none: layer 4 runs again, but not right after itself
    ((1..2)x2)x2       (1..2) four times: the shortest length counts

Refused, because a pass could begin at more than one place: a part of a pass left over (`1..2 1..2 1` is (1..2)x2 and then 1, or 1 and
then (2 1)x2), groups that share an application (`1 (1 2)x2`), groups within groups (`(1 2x2)x2`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from ostinato.errors import ScheduleError
from ostinato.schedule.application import Application


@dataclass(frozen=True, slots=True)
class RepeatedGroup:
    """first: index of its first application.  length: applications of one pass.  passes: 2 or more.  layer: which a pass begins with."""

    first: int
    length: int
    passes: int
    layer: int

    @property
    def begins(self) -> tuple[int, ...]:
        """The index of the first application of every pass."""
        return tuple(range(self.first, self.first + self.length * self.passes, self.length))

    @property
    def ends(self) -> tuple[int, ...]:
        """The index of the last application of every pass."""
        return tuple(begin + self.length - 1 for begin in self.begins)


@lru_cache(maxsize=256)
def repeated_groups(applications: tuple[Application, ...]) -> tuple[RepeatedGroup, ...]:
    """The repeated groups, in order. Raises ScheduleError, with the column, where a pass could begin at more than one place."""
    found = _repetitions(applications)
    for one, other in pairwise(found):
        if other[0] < one[1]:
            inner = other[1] <= one[1] or one[:1] == other[:1]
            what = "a repeated group within another" if inner else "two repeated groups share an application"
            raise _unclear(applications, other[0], what, "write a schedule whose groups follow each other, as (1..2)x2 (3..4)x2")
    for first, end, length in found:
        if over := (end - first) % length:
            what = f"after whole passes of {length} applications, {over} more run again and are a part of a pass"
            raise _unclear(applications, end - over, what, "let the group end with a whole pass, or run other layers between")
    return tuple(RepeatedGroup(first, length, (end - first) // length, applications[first].layer) for first, end, length in found)


def injected(applications: tuple[Application, ...], inject: str) -> frozenset[int]:
    """Indices of the applications before which the input comes in again, by the model's setting: `add` where a later pass begins,
    `linear` at the beginning of every pass of a repeated group, `none` nowhere.  Raises as `repeated_groups` does, for `linear`."""
    if inject == "linear":
        return frozenset(index for group in repeated_groups(applications) for index in group.begins)
    return frozenset(application.index for application in applications if inject == "add" and application.enters_pass)


def _unclear(applications: Sequence[Application], index: int, what: str, fix: str) -> ScheduleError:
    words = [str(application) for application in applications]
    what += " (the schedule is quoted application by application)"
    column = 1 + sum(len(word) + 1 for word in words[:index])
    return ScheduleError(" ".join(words), column, what, "what happens where a pass begins or ends needs one place where that is", fix)


def _repetitions(applications: Sequence[Application]) -> list[tuple[int, int, int]]:
    """Every repetition as (first, end, length), sorted by first and from the longest; of multiples of a length the shortest alone."""
    found: list[tuple[int, int, int]] = []
    if not _part_ways(applications):
        return sorted(_squares([one.layer for one in applications]), key=lambda repetition: (repetition[0], -repetition[1]))
    for length in range(1, len(applications) // 2 + 1):
        first = 0
        for index in range(length, len(applications) + 1):
            if index < len(applications) and _repeats(applications[index], applications[index - length]):
                continue
            if index - first >= 2 * length and not any(
                start <= first and index <= end and length % shorter == 0 for start, end, shorter in found
            ):
                found.append((first, index, length))
            first = index - length + 1
    return sorted(found, key=lambda repetition: (repetition[0], -repetition[1]))


def _part_ways(applications: Sequence[Application]) -> bool:
    """Does some layer run its mixer alone and its MLP alone? Where none does, an application repeats another when their layers are one."""
    parts = {(one.layer, one.part) for one in applications}
    return any((layer, "mlp") in parts for layer, part in parts if part == "attn")


def _squares(layers: Sequence[int]) -> list[tuple[int, int, int]]:
    """The same of plain numbers, of which one in `length` needs a look: a repetition of that length holds every length-th place's match."""
    found: list[tuple[int, int, int]] = []
    count = len(layers)
    for length in range(1, count // 2 + 1):
        at = length - 1
        while at + length < count:
            if layers[at] != layers[at + length]:
                at += length
                continue
            inside = next((end for start, end, shorter in found if start <= at and at + length < end and length % shorter == 0), 0)
            if inside:  # whatever begins here is that repetition again, in longer steps
                at += length * -(-(inside - length - at) // length)
                continue
            first = last = at
            while first and layers[first - 1] == layers[first - 1 + length]:
                first -= 1
            while last + 1 + length < count and layers[last + 1] == layers[last + 1 + length]:
                last += 1
            end = last + 1 + length
            contained = any(start <= first and end <= stop and length % shorter == 0 for start, stop, shorter in found)
            if last + 1 - first >= length and not contained:
                found.append((first, end, length))
            at += length * ((last - at) // length + 1)
    return found


def _repeats(later: Application, earlier: Application) -> bool:
    return later.layer == earlier.layer and {later.part, earlier.part} != {"attn", "mlp"}
