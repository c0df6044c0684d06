"""Which keys may stand where in a study file; built from the records, so that a key has one home."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, cached_property
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BeforeValidator, Field, TypeAdapter
from pydantic.fields import FieldInfo

from ostinato.study.numbers import Count
from ostinato.study.records import Arm, Checkpoints, Data, Evaluate, Grid, Measure, Model, Recipe, Record, Study

OF_AN_ARM = ("recipe", "data", "seeds", "seed_names", "note", "contingent", "run_if", "against", "again")
"""Keys of an arm that are no model keys."""


class Leaf:
    """One value, or a list of values, read as its field says."""

    def __init__(self, field: FieldInfo):
        self.field = field

    @cached_property
    def adapter(self) -> TypeAdapter[Any]:
        metadata = tuple(self.field.metadata)
        return TypeAdapter(Annotated[(self.field.annotation, *metadata)] if metadata else self.field.annotation)

    @property
    def choices(self) -> tuple[str, ...]:
        """The words that a key with a fixed choice takes."""
        return get_args(self.field.annotation) if get_origin(self.field.annotation) is Literal else ()


class Named:
    """A mapping whose keys the user chooses (arms, sizes, ties) or that are limited to `allowed`; every value has one shape.

    key: what a key is called.  texts: keys are no names, but texts of any length.
    """

    def __init__(self, inner: Shape, key: str, allowed: tuple[str, ...] = (), texts: bool = False):
        self.inner, self.key, self.allowed, self.texts = inner, key, allowed, texts


class Keys:
    """A section with fixed keys.  whole: the record that it makes, where it stands for one value and so is complete in itself."""

    def __init__(self, keys: dict[str, Shape], whole: type[Record] | None = None):
        self.keys, self.whole = keys, whole


class Listed:
    """A list of sections of one shape, each called by `key`."""

    def __init__(self, inner: Keys, key: str):
        self.inner, self.key = inner, key


class Either:
    """One value, or several under names that the user chooses, or a section."""

    def __init__(self, one: Leaf, several: Named | Keys):
        self.one, self.several = one, several


Shape = Leaf | Named | Keys | Listed | Either


def _of(record: type[Record], *names: str) -> dict[str, Shape]:
    fields = record.model_fields
    return {name: _shape(fields[name]) for name in names or fields}


def keys_of(record: type[Record]) -> Keys:
    """The shape of one record's section."""
    return Keys(_of(record))


def section_of(kind: Any) -> type[Record] | None:
    """The record among several types that a value may have: it is written as a section."""
    return next((part for part in get_args(kind) if isinstance(part, type) and issubclass(part, Record)), None)


def _shape(field: FieldInfo) -> Shape:
    if isinstance(field.annotation, type) and issubclass(field.annotation, Record):
        return Keys(_of(field.annotation))
    if get_origin(field.annotation) is dict:
        key, value = get_args(field.annotation)
        inner = _shape(FieldInfo(annotation=value))
        if get_origin(key) is Annotated:
            return Named(inner, key.__metadata__[0], texts=True)
        named = Named(inner, "role", get_args(key)) if get_origin(key) is Literal else Named(inner, "name")
        return Either(inner, named) if field.metadata else named  # a validator that takes one value for several
    if get_origin(field.annotation) is Union and (section := section_of(field.annotation)):
        return Either(Leaf(field), Keys(_of(section), section))
    listed = get_args(field.annotation)[:1] if get_origin(field.annotation) is tuple else ()
    if listed and isinstance(listed[0], type) and issubclass(listed[0], Record):
        return Listed(Keys(_of(listed[0])), listed[0].__name__.lower())
    return Leaf(field)


def as_list(value: Any) -> Any:
    """`seeds: 1` means `seeds: [1]`."""
    return [value] if isinstance(value, (str, int)) else value


@cache
def study_keys() -> Keys:
    """The shape of a whole study file."""
    seeds = Leaf(FieldInfo.from_annotation(Annotated[tuple[Annotated[Count, Field(ge=0)], ...], BeforeValidator(as_list)]))
    arm = Keys(_of(Model) | _of(Arm, "recipe", "data", "seed_names", "note", "contingent", "run_if", "against", "again") | {"seeds": seeds})
    top = _of(Study, "question", "about", "source", "ours", "reference", "predictions", "quantities") | {
        "data": Keys(_of(Data)),
        "recipe": Keys(_of(Recipe)),
        "model": Keys(_of(Model)),
        "grid": Keys(_of(Grid)),
        "arms": Named(arm, "arm"),
        "seeds": seeds,
        "evaluate": Keys(_of(Evaluate)),
        "checkpoints": Keys(_of(Checkpoints)),
        "measure": Keys(_of(Measure)),
    }
    return Keys(top | {"sizes": Named(Keys(top), "size")})


def homes(shape: Shape, place: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every place at which a key may stand; a name that the user chooses is written as <arm>, <size>, <role>."""
    if isinstance(shape, Keys):
        for key, inner in shape.keys.items():
            yield (*place, key)
            yield from homes(inner, (*place, key))
    elif isinstance(shape, (Named, Listed)):
        yield from homes(shape.inner, (*place, f"<{shape.key}>"))
    elif isinstance(shape, Either):
        yield from homes(shape.several, place)
