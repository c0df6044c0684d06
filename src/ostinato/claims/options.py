"""A measure from what stands between its parentheses: the arm, and options that are checked, put in one form, and left out at defaults."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from typing import NamedTuple

from ostinato.claims.classes import named_class, typed
from ostinato.claims.measures import MEASURES, Option
from ostinato.claims.numbers import count
from ostinato.claims.terms import Measure, quoted
from ostinato.errors import ClaimError, StudyError

Error = Callable[[str, str, str, int], ClaimError]


class Given(NamedTuple):
    """One argument. key: of an option, None for a bare name.  start: the place where it begins; place: where its value does."""

    key: str | None
    value: str
    start: int
    place: int


def measure(name: str, given: Iterable[Given], error: Error, start: int) -> tuple[Measure, dict[str, int]]:
    """The measure, and the columns (from 1) of the names in it. `error` makes the error to raise about a place."""
    first, *others = given
    spec = MEASURES[name]
    if not first.value or first.key is not None:
        said = f"{first.key}= where an arm belongs" if first.key else f"{name} of which arm?"
        fix = f'write {name}("{first.key}={first.value}") for an arm of that name' if first.key and first.key not in spec.options else ""
        raise error(said, f"{name} takes an arm first, then options", fix or f"write {name}(ARM)", first.start)
    found: dict[str, str] = {}
    at = {"arm": first.place + 1}
    for one in others:
        key = _key(name, one, error)
        if key in at:
            raise error(f"{key} is given twice", "an option stands once", "keep one of them", one.start)
        at[key] = one.place + 1
        if (value := _value(key, spec.options[key], one, error)) is not None:
            found[key] = value
    for key, option in spec.options.items():
        if option.required and key not in at:
            raise error(f"{name} without {key}", f"{key}: {option.about}", f"write {name}({quoted(first.value)}, {key}={option.least})",
                        start)  # fmt: skip
    if len(given := [key for key in spec.alone if key in found]) > 1:
        raise error(f"{' and '.join(given)} together", f"of {', '.join(spec.alone)} one is given", "keep one of them", at[given[1]] - 1)
    if found.get("over") == first.value:
        raise error(f"{first.value} over itself", "an arm is compared with another one", "name the other in over=", at["over"] - 1)
    return Measure(name, first.value, tuple(sorted(found.items()))), at


def _key(name: str, one: Given, error: Error) -> str:
    options = MEASURES[name].options
    takes = f"{name} takes {', '.join(options)}" if options else f"{name} takes an arm and no options"
    if one.key is None:
        what = f"{one.value[:40]!r} is not an option" if one.value else "an option is missing after the comma"
        holds = next((key for key, option in options.items() if one.value in option.words), "class" if "class" in options else None)
        if holds == "class" and not _is_class(one.value):
            holds = None
        otherwise = "write over=ARM for what it is compared with" if "over" in options else "take it out"
        fix = f"write {holds}={one.value}" if holds else otherwise
        raise error(what, f"options are written key=value; {takes}", fix, one.start)
    if one.key not in options:
        near = difflib.get_close_matches(one.key, options, 1, 0.5) or [
            key for key, others in (("over", ("against", "reference", "vs", "base", "than")), ("class", ("on", "of", "tokens_in", "where")))
            if one.key in others and key in options
        ]  # fmt: skip
        elsewhere = [other for other, spec in MEASURES.items() if one.key in spec.options]
        fix = f"write {near[0]}=" if near else f"{one.key} is an option of {', '.join(elsewhere)}" if elsewhere else "take it out"
        raise error(f"{name} has no option {one.key[:40]!r}", takes, fix, one.start)
    return one.key


def _is_class(name: str) -> bool:
    try:
        return named_class(name) is not None
    except StudyError:
        return False


def _value(key: str, option: Option, one: Given, error: Error) -> str | None:
    """In its one form; None at the default."""
    if not one.value:
        raise error(f"{key} is given no value", option.about, f"write {key}={option.words[0] if option.words else '…'}, or leave it out",
                    one.place)  # fmt: skip
    if option.kind == "class":
        try:
            found = named_class(one.value)
        except StudyError as problem:
            raise error(problem.what, problem.rule, problem.fix, one.place) from None
        return None if found is None else typed(found)
    if option.kind == "word":
        word = one.value.lower().replace("-", "_")
        if word not in option.words:
            near = difflib.get_close_matches(word, option.words, 1, 0.3)
            raise error(f"{key} {one.value[:40]!r}", f"{key} is {' or '.join(option.words)}", f"write {key}={(near or option.words)[0]}",
                        one.place)  # fmt: skip
        return None if word == option.words[0] else word
    if option.kind == "count":
        try:
            number = count(one.value)
        except ValueError as problem:
            raise error(f"{key}: {problem}", option.about, f"write {key}={option.least}", one.place) from None
        if number < option.least:
            raise error(f"{key} {number}", f"{key} is at least {option.least}", f"write {key}={option.least}", one.place)
        return str(number)
    return one.value
