"""A schedule: the order in which a model's layers run. Parsed from text, printed back, expanded to applications."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from itertools import chain

from ostinato.errors import ScheduleError
from ostinato.schedule import terms as t
from ostinato.schedule.application import Application, number
from ostinato.schedule.language import MOST_APPLICATIONS, Reader


@dataclass(frozen=True, slots=True)
class Schedule:
    """terms: what was written, in normal form.  layers: how many layers the model has (not all of them need run).

    written: the text as a person gave it, which errors quote; two schedules of the same terms are equal however they were written.
    """

    terms: tuple[t.Term, ...]
    layers: int
    written: str = field(compare=False)

    @property
    def text(self) -> str:
        """The canonical text: `parse(schedule.text, schedule.layers) == schedule`."""
        return " ".join(map(str, self.terms))

    @property
    def free(self) -> bool:
        """Does it leave a number of passes open, as {r}?"""
        return any(map(t.free_depth, self.terms))

    @property
    def nested(self) -> bool:
        """Does a {r} stand within another, so that something runs r times r times?"""
        return max(map(t.free_depth, self.terms)) > 1

    def applications(self, passes: int | None = None) -> tuple[Application, ...]:
        """Every application in order; `passes` is the value of {r}.

        Raises ScheduleError when {r} has no value, when a value has no {r}, and beyond 4,096 applications.
        """
        at = max(self.written.find("{r}"), 0) + 1
        if self.free and passes is None:
            raise ScheduleError(self.written, at, "{r} has no value", "the number of passes is fixed before a run",
                                "set `passes: 2` next to the schedule (`ostinato draw`: --passes 2)")  # fmt: skip
        if not self.free and passes is not None:
            raise ScheduleError(self.written, 1, f"{passes} passes of what?", "`passes` is the value of {r}, and there is none here",
                                "write (…)x{r} around what repeats, or leave `passes` out")  # fmt: skip
        if passes is not None and passes < 1:
            raise ScheduleError(self.written, at, f"{passes} passes", "{r} is at least 1", "set `passes` to 1 or more")
        if sum(t.length(term, min(passes or 1, MOST_APPLICATIONS + 1)) for term in self.terms) > MOST_APPLICATIONS:
            raise ScheduleError(self.written, at, f"more than {MOST_APPLICATIONS:,} applications with this many passes",
                                f"a schedule has at most {MOST_APPLICATIONS:,}", "set a smaller `passes`")  # fmt: skip
        return number(chain.from_iterable(t.steps(term, passes or 1) for term in self.terms))

    def __str__(self) -> str:
        return self.text


@functools.lru_cache(maxsize=1024)
def parse(text: str, layers: int) -> Schedule:
    """The schedule that `text` stands for, in a model of `layers` layers. Raises ScheduleError with the column and the rule."""
    if layers < 1:
        raise ScheduleError(text, 1, f"a model of {layers} layers", "a model has at least one layer", "set `layers` to 1 or more")
    return Schedule(Reader(text, layers).schedule(), layers, text)


def plain(layers: int) -> Schedule:
    """Every layer once, in order."""
    return parse(f"1..{layers}", layers)
