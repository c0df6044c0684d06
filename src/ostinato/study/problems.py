"""What is wrong with a study file: each problem with its line, and all of them at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ostinato.errors import OstinatoError, StudyError

MOST_SHOWN = 20


@dataclass(frozen=True)
class Problem:
    """line: from 1, None when no line says it.  where: section and key, as recipe.lr.  arms: those that it concerns."""

    line: int | None
    where: str
    what: str
    rule: str = ""
    fix: str = ""
    arms: tuple[str, ...] = field(default=())

    @classmethod
    def of(cls, error: OstinatoError, line: int | None, where: str, arms: tuple[str, ...] = ()) -> Problem:
        """The problem that an error without a place describes."""
        return cls(line, where, error.what, error.rule, error.fix, arms)

    def __str__(self) -> str:
        concerned = ""
        if self.arms:
            others = len(self.arms) - 3
            listed = ", ".join(self.arms[:3]) + (f" and {others} more" if others > 0 else "")
            concerned = f"{'arm' if len(self.arms) == 1 else 'arms'} {listed}: "
        return ", ".join(part for part in (self.line and f"line {self.line}", self.where) if part) + f": {concerned}{self.what}"


def gathered(problems: Iterable[Problem]) -> list[Problem]:
    """In order of line; one that several arms inherit from one place is told once."""
    found: dict[tuple, Problem] = {}
    for one in problems:
        key = (one.line, one.where, one.what, one.rule, one.fix)
        before = found[key].arms if key in found else ()
        arms = before + tuple(arm for arm in one.arms if arm not in before)
        found[key] = Problem(one.line, one.where, one.what, one.rule, one.fix, arms)
    return sorted(found.values(), key=lambda problem: problem.line or 0)


def refuse(file: str, problems: Iterable[Problem]) -> None:
    """Raise StudyError that tells every problem, when there is one."""
    all_of_them = gathered(problems)
    if len(all_of_them) == 1:
        raise StudyError(f"{file}, {all_of_them[0]}", all_of_them[0].rule, all_of_them[0].fix)
    if all_of_them:
        told = []
        for problem in all_of_them[:MOST_SHOWN]:
            told.append(f"  {problem}")
            told.extend(f"      {word}{text}" for word, text in (("rule: ", problem.rule), ("try:  ", problem.fix)) if text)
        if len(all_of_them) > MOST_SHOWN:
            told.append(f"  and {len(all_of_them) - MOST_SHOWN} more")
        raise StudyError("\n".join([f"{file} has {len(all_of_them)} problems", *told]))
