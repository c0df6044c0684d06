"""A tree of text held against the shape of a study: unknown keys with the right name or the right section, unreadable values."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from functools import cache
from typing import Any, get_args

from pydantic import ValidationError

from ostinato.study.merge import without_nulls
from ostinato.study.problems import Problem
from ostinato.study.reading import Items, Section, Text, where
from ostinato.study.records import Record, Unfit, none_is_none
from ostinato.study.shape import Either, Keys, Leaf, Listed, Named, Shape, homes, study_keys

OTHER_NAMES = {
    "learning_rate": "lr", "n_layer": "layers", "n_layers": "layers", "num_layers": "layers", "depth": "layers",
    "num_hidden_layers": "layers", "n_head": "heads", "n_heads": "heads", "num_heads": "heads", "num_attention_heads": "heads",
    "n_kv_head": "kv_heads", "n_kv_heads": "kv_heads", "num_key_value_heads": "kv_heads", "width": "d_model", "dim": "d_model",
    "n_embd": "d_model", "hidden_size": "d_model", "hidden_dim": "hidden", "intermediate_size": "hidden", "vocab": "bpe",
    "vocab_size": "bpe", "seq_len": "context", "block_size": "context", "sequence_length": "context", "batch_size": "batch",
    "wd": "weight_decay", "grad_clip": "clip", "max_steps": "tokens", "num_steps": "tokens", "steps": "tokens", "epochs": "tokens",
    "dataset": "corpus", "subset": "config", "text_field": "field", "text_column": "field", "max_bytes": "most",
    "rope_theta": "rope_base", "loops": "passes", "recurrence": "schedule", "seed": "seeds", "baseline": "reference",
    "warmup_steps": "warmup", "logit_softcap": "softcap", "tie_word_embeddings": "tie_embeddings",
}  # fmt: skip
"""What other programs call it."""


def check(tree: Section, shape: Keys | None = None) -> list[Problem]:
    """Every key that may not stand where it stands, and every value that cannot be read.  shape: default: of a study file."""
    return list(_check(tree, shape or study_keys(), ()))


def _check(value: Any, shape: Shape, place: tuple[str, ...]) -> Iterator[Problem]:
    if value is None:
        return
    line = getattr(value, "line", None)
    if isinstance(shape, Either):
        shape = shape.several if isinstance(value, Section) else shape.one
    if isinstance(shape, Leaf):
        yield from _check_value(value, shape, place)
    elif isinstance(shape, Listed):
        yield from _check_list(value, shape, place)
    elif not isinstance(value, Section):
        keys = list(shape.keys) if isinstance(shape, Keys) else list(shape.allowed)
        example = f"{place[-1]}: {{{keys[0]}: …}}" if keys else f"{place[-1]}: {{{getattr(shape, 'key', 'name')}: …}}"
        yield Problem(line, where(place), f"{_short(value)} is not a section", "its keys stand below it, indented, or between { }", example)
    else:
        wrong = list(_check_keys(value, shape, place))
        yield from wrong
        if not wrong and isinstance(shape, Keys) and shape.whole:
            yield from _check_whole(value, shape.whole, place)


def _check_keys(value: Section, shape: Keys | Named, place: tuple[str, ...]) -> Iterator[Problem]:
    for key, inner in value.items():
        below = shape.keys.get(key) if isinstance(shape, Keys) else shape.inner if key in shape.allowed or not shape.allowed else None
        if below is None:
            yield _unknown(key, inner, value.key_lines[key], shape, place)
        elif isinstance(shape, Named) and not shape.allowed and not shape.texts and (why := _bad_name(key)):
            yield Problem(
                value.key_lines[key],
                where(place),
                f"the {shape.key} {key!r} {why}",
                "a name is one line of at most 60 characters",
                "rename it",
            )
        else:
            yield from _check(inner, below, (*place, key))


def _check_whole(value: Section, record: type[Record], place: tuple[str, ...]) -> Iterator[Problem]:
    try:
        record(**as_plain(without_nulls(value)))
    except ValidationError as error:
        unfit = error.errors()[0].get("ctx", {}).get("error")
        if not isinstance(unfit, Unfit):
            raise  # never: every key has been read
        yield Problem(value.line, where(place), unfit.what, unfit.rule, unfit.fix)


def _check_list(value: Any, shape: Listed, place: tuple[str, ...]) -> Iterator[Problem]:
    rule = f"it is a list: each {shape.key} begins with a dash, and its keys stand in one column behind it"
    example = f"- {next(iter(shape.inner.keys))}: …"
    if not isinstance(value, Items):
        yield Problem(getattr(value, "line", None), where(place), f"{_short(value)} is not a list", rule, example)
        return
    for number, item in enumerate(value, 1):
        if not isinstance(item, Section):
            at = where((*place, str(number)))
            yield Problem(getattr(item, "line", value.line), at, f"{_short(item)} is no {shape.key}", rule, example)
        else:
            yield from _check(item, shape.inner, (*place, str(number)))


def _bad_name(name: str) -> str:
    if not name.strip() or name != name.strip():
        return "is empty, or begins or ends with a space"
    if len(name) > 60:
        return f"has {len(name)} characters"
    return "" if name.isprintable() and "/" not in name else "has a / or a character that cannot be printed"


def _check_value(value: Any, leaf: Leaf, place: tuple[str, ...]) -> Iterator[Problem]:
    if isinstance(value, Section):
        yield Problem(
            value.line, where(place), "a section stands where one value belongs", leaf.field.description or "", f"{place[-1]}: value"
        )
        return
    try:
        leaf.adapter.validate_python(none_is_none(leaf.field, as_plain(value)))
    except ValidationError as error:
        errors = error.errors()
        first = errors[0]
        if first["type"] == "literal_error" and str(value)[:1] in (*"+-.0123456789",):  # a word or a number, and a number was given
            first = next((other for other in errors if other["type"] not in ("literal_error", "none_required")), first)
        at = value
        for step in first["loc"]:
            if isinstance(at, Items) and isinstance(step, int) and step < len(at):
                at = at[step]
        what, rule, fix = _told(first, at, leaf, place)
        words = [str(other["ctx"]["expected"]).replace(chr(39), "") for other in errors if other["type"] == "literal_error"]
        fix = fix or (f"{place[-1]}: {words[0]}{_or_number(leaf)}" if words and not leaf.choices else "")
        yield Problem(getattr(at, "line", value.line), where(place), what, rule or leaf.field.description or "", fix)


def as_plain(value: Any) -> Any:
    """The same tree in plain str, list and dict."""
    if isinstance(value, dict):
        return {str(key): as_plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_plain(item) for item in value]
    return str(value) if isinstance(value, Text) else value


def _short(value: Any) -> str:
    return (
        "nothing"
        if value is None
        else "a list"
        if isinstance(value, list)
        else "a section"
        if isinstance(value, dict)
        else repr(str(value)[:60])
    )


_LIMITS = {
    "greater_than_equal": ("ge", "at least"),
    "greater_than": ("gt", "more than"),
    "less_than_equal": ("le", "at most"),
    "less_than": ("lt", "less than"),
}


def _or_number(leaf: Leaf) -> str:
    types = _types(leaf.field.annotation)
    return ", or a whole number" if int in types else ", or a number" if float in types else ""


def _types(annotation: Any) -> set[Any]:
    """A type and all that it is made of."""
    return {annotation}.union(*(_types(inner) for inner in get_args(annotation) if not isinstance(inner, str)))


def _told(error: Any, value: Any, leaf: Leaf, place: tuple[str, ...]) -> tuple[str, str, str]:
    """What is wrong, the rule and the next step, in words of our own where the type has none for people."""
    kind, context = error["type"], error.get("ctx", {})
    if kind == "value_error":
        return str(context["error"]), "", ""
    if kind == "literal_error" and leaf.choices:
        near = difflib.get_close_matches(str(value).lower(), leaf.choices, n=1, cutoff=0.5)
        near = near or [choice for choice in leaf.choices if choice == "none" and str(value).lower() in ("no", "off", "false")]
        return f"{_short(value)} is not one of {', '.join(leaf.choices)}", "", near[0] if near else ""
    if kind == "literal_error":
        words = str(context["expected"]).replace(chr(39), "")
        near = difflib.get_close_matches(str(value).lower(), words.replace(" or", ",").split(", "), n=1)
        return f"{_short(value)} is not {words}{_or_number(leaf)}", "", near[0] if near else ""
    if kind in _LIMITS:
        bound, words = _LIMITS[kind]
        return f"{_short(value)} is out of range", f"{place[-1]} is {words} {context[bound]:,}", ""
    if kind == "string_pattern_mismatch":
        return f"{_short(value)} does not match {context['pattern']}", "", ""
    if kind in ("tuple_type", "list_type"):
        return f"{_short(value)} is not a list", "", f"{place[-1]}: [{str(value)[:20]}]"
    if kind in ("missing", "too_long", "too_short"):
        return f"{_short(value)} of {len(value) if isinstance(value, list) else 1} has the wrong length", "", ""
    if kind == "string_type":
        return f"{_short(value)} stands where one text belongs", "", ""
    return f"{_short(value)}: {error['msg']}", "", ""


@cache
def _places() -> dict[str, tuple[tuple[str, ...], ...]]:
    found: dict[str, list[tuple[str, ...]]] = {}
    for home in homes(study_keys()):
        if (home[0] != "sizes" and home[-1] != "sizes") or home == ("sizes",):
            found.setdefault(home[-1], []).append(home[:-1])
    return {key: tuple(places) for key, places in found.items()}


def _unknown(key: str, value: Any, line: int, shape: Keys | Named, place: tuple[str, ...]) -> Problem:
    """A key that may not stand here: the section where it may, or the nearest name that may stand here."""
    here = list(shape.keys) if isinstance(shape, Keys) else list(shape.allowed)
    what = f"no key {key[:60]!r} here"
    if value is None and (" " in key or ")" in key or key[:1].isdigit()):
        return Problem(line, where(place), what, "between { } a comma begins the next key", 'put "…" around text that holds a comma')
    meant = OTHER_NAMES.get(key.lower(), "")
    if meant in here:
        return Problem(line, where(place), what, f"it is called {meant}", f"{meant}: …")
    if key == "model" and place[:1] == ("arms",) and len(place) == 2:
        inner = ", ".join(f"{name}: …" for name in value) if isinstance(value, dict) else ""
        return Problem(line, where(place), what, "the keys of the model stand in an arm itself", f"{place[1]}: {{{inner or 'layers: …'}}}")
    elsewhere = _elsewhere(key, place) or _elsewhere(meant, place)
    near = difflib.get_close_matches(key.lower(), here, n=1)
    if elsewhere and not (near and meant):
        name = key if _elsewhere(key, place) else meant
        return Problem(line, where(place), what, f"{name} belongs in {' or '.join(elsewhere[:3])}", f"move it to {elsewhere[0]}")
    if near:
        return Problem(line, where(place), what, "", near[0])
    far = difflib.get_close_matches(key.lower(), list(_places()), n=1, cutoff=0.75)
    if far and not (isinstance(shape, Keys) and shape.whole) and (sections := _elsewhere(far[0], place)):
        return Problem(
            line, where(place), what, f"the nearest name is {far[0]}, in {' or '.join(sections[:3])}", f"write {far[0]} in {sections[0]}"
        )
    return Problem(line, where(place), what, f"keys here are {', '.join(here)}" if here else "", "leave it out, or choose one of these")


def _elsewhere(key: str, place: tuple[str, ...]) -> list[str]:
    """The sections in which this key may stand, those of the same arm first."""
    if place[:1] == ("sizes",):
        place = place[2:]
    arm = place[1] if place[:1] == ("arms",) and len(place) > 1 else None
    inside, outside = [], []
    for home in _places().get(key, ()):
        if home[:1] == ("arms",):
            inside.append(where(("arms", arm or "<arm>", *home[2:])))
        else:
            outside.append(where(home))
    return (inside + outside) if arm else (outside or inside)
