"""Which arms of a study are asked for: those that are named, or all but the contingent ones, which wait for a person or a result."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable

from ostinato.errors import StudyError
from ostinato.study.records import Arm


def asked_arms(arms: Iterable[Arm], names: Collection[str] | None = None) -> list[Arm]:
    """The arms of these names, in the study's order; without names, all that are not contingent. Raises StudyError for an unknown name."""
    by_name = {arm.name: arm for arm in arms}
    for name in names or ():
        if name not in by_name:
            near = difflib.get_close_matches(name, by_name, 1)
            fix = f"did you mean {near[0]}?" if near else "choose one of these"
            raise StudyError(f"the study has no arm {name!r}", "its arms are " + ", ".join(by_name), fix)
    return [arm for arm in by_name.values() if (arm.name in names if names else depends_on(arm) is None)]


def depends_on(arm: Arm) -> str | None:
    """What a contingent arm waits for, None for an arm that is asked for as it is: a person who reads a result, or the result itself."""
    return arm.contingent or arm.run_if
