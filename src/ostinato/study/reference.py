"""Every key of a study file with its values, its default and its line of help, read off the records that check it."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from ostinato.claims import MEASURES
from ostinato.study.records import Arm, Checkpoints, Data, Evaluate, Grid, Measure, Model, Prediction, Recipe, Study
from ostinato.study.shape import section_of

SECTIONS = {"data": Data, "recipe": Recipe, "model": Model, "evaluate": Evaluate, "checkpoints": Checkpoints,
            "measure": Measure, "grid": Grid}  # fmt: skip
_OF_STUDY = ("question", "about", "source", "ours", "reference", "quantities")
_OF_ARM = ("note", "contingent", "run_if", "against", "again", "seeds", "seed_names")


def keys() -> list[dict[str, str]]:
    """One row a key: key (dotted, as in the file), values, default, help."""
    rows = [_row(name, Study.model_fields[name]) for name in _OF_STUDY]
    for section, record in SECTIONS.items():
        rows += _rows(section, record)
    rows += [_row(f"predictions.<prediction>.{name}", field) for name, field in Prediction.model_fields.items()]
    return rows + [_row(f"arms.<arm>.{name}", Arm.model_fields[name]) for name in _OF_ARM]


def measures() -> list[dict[str, str]]:
    """One row for each measure that a prediction, a quantity or a run_if may name: its options stand where a key's values do."""
    rows = []
    for name, spec in MEASURES.items():
        options = ", ".join(f"{key}={'|'.join(one.words) if one.words else one.kind.upper()}" for key, one in spec.options.items())
        rows.append({"key": f"{name}(ARM)", "values": options, "default": "", "help": f"in predictions: {spec.about}"})
    return rows


def _rows(place: str, record: type[BaseModel]) -> list[dict[str, str]]:
    rows = []
    for name, field in record.model_fields.items():
        kind, key = field.annotation, f"{place}.{name}"
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            rows += _rows(key, kind)
        elif get_origin(kind) is dict and issubclass(get_args(kind)[1], BaseModel):
            role, inner = get_args(kind)
            rows += [{**_row(key, field), "values": "by role: " + ", ".join(get_args(role))}, *_rows(f"{key}.<role>", inner)]
        else:
            rows.append(_row(key, field))
            if get_origin(kind) is Union and (section := section_of(kind)):
                rows += _rows(key, section)
    return rows


def _row(key: str, field: FieldInfo) -> dict[str, str]:
    values = _values(field.annotation)
    if values == "mapping" and field.metadata:  # one value stands for a mapping
        values = "text | mapping"
    return {"key": key, "values": values, "default": _default(field), "help": field.description or ""}


def _values(kind: Any) -> str:
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _values(inner[0])
    if origin is Literal:
        return " | ".join(map(str, inner))
    if kind in (int, float, bool, str):
        return {int: "whole number", float: "number", bool: "yes | no", str: "text"}[kind]
    if origin is dict:
        return "mapping"
    if origin is tuple:
        return f"list of {_values(inner[0])}"
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return "mapping"
    return " | ".join("none" if part is type(None) else _values(part) for part in inner) if inner else getattr(kind, "__name__", str(kind))


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.default
    if isinstance(value, dict) and len(value) == 1:
        return next(iter(value))
    if isinstance(value, BaseModel) or value in ("", {}, None):
        return "" if value is not None else "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, tuple) else f"{value:g}" if isinstance(value, float) else str(value)
