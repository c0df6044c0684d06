"""Predictions as they are written: what each must say, names of their own, and where `otherwise` may stand. No text is read yet."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ostinato.claims import KINDS
from ostinato.study.problems import Problem
from ostinato.study.reading import Section
from ostinato.study.records import OTHERWISE

OUTCOMES = ("supported", "killed", "between")
_NAME = re.compile(r"[\w.-]{1,60}")
_OWN = re.compile(r"(?=.{1,60}$)[\w.+-]+(?: [\w.+-]+)*")
_EXAMPLE = {"supported": "supported: gain(ARM) >= 0.02", "killed": "killed: gain(ARM) <= 0, or killed: otherwise"}


def is_otherwise(text: str) -> bool:
    """Whether it stands instead of a condition."""
    return text.strip().lower() in ("", OTHERWISE)


def written(keys: Mapping[str, Any]) -> Iterator[tuple[str, Section]]:
    """(name, keys) of every prediction of a study file, in order."""
    for place, given in enumerate(keys.get("predictions") or (), 1):
        yield str(given.get("name") or f"p{place}"), given


def ill_formed(keys: Mapping[str, Any]) -> Iterator[Problem]:
    """What is missing or said twice, before any text is read."""
    names: dict[str, int] = {}
    for name, given in written(keys):
        where = f"predictions.{name}"
        if not _NAME.fullmatch(name):
            yield Problem(given.line, where, f"the name {name[:60]!r}", "a prediction is named by letters, digits and - _ .", "name: p1")
        if name in names:
            yield Problem(given.line, where, f"the name {name!r} is given twice, in lines {names[name]} and {given.line}",
                          "a prediction has a name of its own", "rename one of them")  # fmt: skip
        elif other := next((known for known in names if known.casefold() == name.casefold()), None):
            yield Problem(given.line, where, f"the name {name!r} beside {other!r}, in line {names[other]}",
                          "names of predictions differ in more than capitals", "rename one of them")  # fmt: skip
        names.setdefault(name, given.line)
        for key, example in _EXAMPLE.items():
            if not given.get(key):
                yield Problem(given.key_lines.get(key, given.line), where, f"it does not say what it is {key} by",
                              "a prediction says beforehand what would support it and what would kill it", example)  # fmt: skip
        yield from _outcomes_of(given, where)


def _outcomes_of(given: Section, where: str) -> Iterator[Problem]:
    """Own names of outcomes, and where `otherwise` stands."""
    seen: dict[str, str] = {}
    for key in OUTCOMES:
        for own, text, line in _own_names(given, key):
            yield from _own_name(own, text, key, seen, line, f"{where}.{key}")
            seen.setdefault(own.casefold(), key)
        yield from _otherwise(given, key, f"{where}.{key}")


def _own_names(given: Section, key: str) -> Iterator[tuple[str, str | None, int]]:
    """(name, condition, line) of each outcome that has an own name."""
    value = given.get(key)
    if isinstance(value, Section):
        yield from ((own, text, value.key_lines[own]) for own, text in value.items())
    elif key == "between" and value is not None and not is_otherwise(value):
        yield str(value), OTHERWISE, value.line


def _own_name(own: str, text: str | None, key: str, seen: Mapping[str, str], line: int, where: str) -> Iterator[Problem]:
    if not _OWN.fullmatch(own) or own.lower() == OTHERWISE:
        fix = f'{key}: {{PARTIAL: "{own[:60]}"}}' if re.search(r"[(<>]", own) else f"{key}: PARTIAL"
        yield Problem(line, where, f"{own[:60]!r} as the name of an outcome", "outcomes are named by words: letters, digits, - _ .", fix)
    elif own.upper() in KINDS and own.upper() != key.upper():
        yield Problem(line, where, f"{own} as a name of what is {key}", f"{', '.join(KINDS)} are names of kinds", "use an own word")
    elif own.casefold() in seen:
        what = f"the outcome {own!r} is named twice, in {seen[own.casefold()]} and {key}"
        yield Problem(line, where, what, "an outcome has a name of its own", "rename one of them")
    if text is None:
        yield Problem(line, where, f"the outcome {own!r} has no condition", "each outcome has its condition", f"{own}: {OTHERWISE}")


def _otherwise(given: Section, key: str, where: str) -> Iterator[Problem]:
    line, value = given.key_lines.get(key, given.line), given.get(key)
    rest = _rest(value)
    if key == "supported" and any(rest):
        yield Problem(line, where, "otherwise than what?", "what supports a prediction is a condition", _EXAMPLE[key])
    elif any(rest[:-1]):
        yield Problem(line, where, "an outcome after otherwise", "otherwise takes whatever is left: it stands last", "move it to the end")
    elif key == "between" and value is not None and any(_rest(given.get("killed"))):
        yield Problem(line, where, "nothing is left in between", "killed: otherwise takes all that is not supported",
                      "leave between out, or give killed a condition")  # fmt: skip


def _rest(value: Any) -> list[bool]:
    """Which of the conditions are `otherwise`."""
    texts = list(value.values()) if isinstance(value, dict) else [] if value is None else [value]
    return [text is not None and is_otherwise(text) for text in texts]
