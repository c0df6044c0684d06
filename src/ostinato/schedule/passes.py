"""Other numbers of passes than a model is trained with: what repeats may repeat less often or more often at test time.

    1..2 (3..6)x{r} 7..8     the value of {r} is free
    1..8 1..8                the only repeated group (groups.py) is: (1..8) once, three times, …
    1..8 1..8:attn           alike; a pass beyond those trained does what the last of them does
    1..8, [4,2,1,1]          nothing is, or it is not clear what

Which groups a schedule of {r} passes has follows from its applications, but one pass shows none: a group's place and its number of passes
are linear in r, so they follow from two passes and three. What a pass begins and ends with then acts in a single pass as well.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

from ostinato.errors import ScheduleError
from ostinato.schedule.application import Application, number
from ostinato.schedule.groups import RepeatedGroup, repeated_groups
from ostinato.schedule.language import MOST_APPLICATIONS
from ostinato.schedule.schedule import Schedule

Arrangement = tuple[tuple[Application, ...], tuple[RepeatedGroup, ...]]


def free_passes(schedule: Schedule, passes: int | None) -> int | None:
    """The number of passes that is trained, where others could run as well: the value `passes` of {r}, or of the only repeated group.

    None where no number of passes is free. Raises ScheduleError when {r} has no value.
    """
    applications = schedule.applications(passes)
    if schedule.free:
        return passes
    try:
        groups = repeated_groups(applications)
    except ScheduleError:
        return None
    return groups[0].passes if len(groups) == 1 else None


def with_passes(schedule: Schedule, trained: int, passes: int, grouped: bool = True) -> Arrangement:
    """The applications of `passes` passes in place of the `trained` ones (`free_passes`), and their repeated groups, of one pass too.

    grouped: whether groups are wanted, which a schedule of {r} need not have; else ().
    Raises ScheduleError for fewer than one pass, beyond 4,096 applications, and where a pass could begin at more than one place.
    """
    if not schedule.free:
        return _of_the_only_group(schedule, passes)
    applications = schedule.applications(passes)
    if not grouped:
        return applications, ()
    return applications, repeated_groups(applications) if passes > 1 else _of_one_pass(schedule)


def _of_the_only_group(schedule: Schedule, passes: int) -> Arrangement:
    applications = schedule.applications()
    (group,) = repeated_groups(applications)
    steps = [(application.layer, application.part) for application in applications]
    each = [steps[first : first + group.length] for first in group.begins]
    length = len(steps) + (passes - group.passes) * group.length
    if passes < 1 or length > MOST_APPLICATIONS:
        what, fix = ("0 passes", "ask for 1 or more") if passes < 1 else (f"{length:,} applications", "ask for fewer passes")
        raise ScheduleError(schedule.written, 1, what, f"a schedule has 1 to {MOST_APPLICATIONS:,} applications, and each pass runs", fix)
    wanted = (each[min(place, group.passes - 1)] for place in range(passes))
    after = steps[group.first + group.length * group.passes :]
    return number(chain(steps[: group.first], *wanted, after)), (replace(group, passes=passes),)


def _of_one_pass(schedule: Schedule) -> tuple[RepeatedGroup, ...]:
    """From two passes and three: what grows by one pass of r grows by as much again, if no {r} stands within another."""
    if schedule.nested:
        raise ScheduleError(schedule.written, 1, "{r} within {r}, with one pass",
                            "what one pass begins with follows from two and three where groups grow by one pass of r",
                            "one {r} a group, as (1..2)x{r} (3..4)x{r}")  # fmt: skip
    two, three = (repeated_groups(schedule.applications(passes)) for passes in (2, 3))
    if [(group.length, group.layer) for group in two] != [(group.length, group.layer) for group in three]:
        raise ScheduleError(schedule.written, 1, "with two passes other groups repeat than with three", "one pass needs one place to begin",
                            "write a schedule whose groups follow each other, as (1..2)x{r} (3..4)x{r}")  # fmt: skip
    return tuple(replace(one, first=2 * one.first - other.first, passes=2 * one.passes - other.passes)
                 for one, other in zip(two, three, strict=True))  # fmt: skip
