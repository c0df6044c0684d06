"""The list of keys is that of the reader: nothing more, nothing less, and every key says what it is."""

from __future__ import annotations

from ostinato.claims import MEASURES
from ostinato.study.reference import SECTIONS, keys, measures
from ostinato.study.shape import homes, study_keys


def test_every_key_of_a_section_is_listed_and_no_other():
    listed = {row["key"] for row in keys()}
    for section in SECTIONS:
        known = {".".join(place) for place in homes(study_keys()) if place[0] == section and len(place) > 1}
        leaves = {place for place in known if not any(other.startswith(place + ".") for other in known if "<" not in other)}
        mine = {key for key in listed if key.startswith(section + ".") and "<" not in key}
        assert mine - {"model.passes"} == {place for place in leaves if "<" not in place}  # which is a value or a section
    assert "recipe.groups.<role>.lr" in listed


def test_rows_are_readable():
    rows = {row["key"]: row for row in keys()}
    assert rows["model.d_model"]["default"] == "required" and rows["recipe.tokens"]["default"] == "500000"
    assert rows["model.positions"]["values"] == "none | rope | learned | alibi" and rows["model.norm.weight"]["default"] == "yes"
    assert not any("Validator" in row["values"] for row in rows.values()) and rows["recipe.clip"]["values"] == "number | none"
    assert rows["model.passes"]["values"] == "whole number | mapping | none" and "m: Poisson" in rows["model.passes.poisson"]["help"]
    assert rows["model.backprop"]["values"] == "half | whole number | none" and rows["model.streams"]["default"] == "1"
    assert rows["recipe.betas"]["default"] == "0.9, 0.95" and rows["data.corpus"]["help"]


def test_measures_of_predictions_are_listed_with_their_options():
    named = {row["key"]: row for row in measures()}
    assert len(named) == len(MEASURES) and all(row["help"] for row in named.values())
    assert named["gain(ARM)"]["values"].startswith("class=CLASS") and "unit=nats|bits" in named["gain(ARM)"]["values"]


def test_predictions_are_listed():
    rows = {row["key"]: row for row in keys()}
    assert {key for key in rows if key.startswith("predictions.")} == {
        ".".join(place) for place in homes(study_keys()) if place[0] == "predictions" and len(place) == 3}  # fmt: skip
    assert rows["predictions.<prediction>.supported"]["values"] == "text | mapping"
    assert rows["predictions.<prediction>.between"]["default"] == "BETWEEN"
    assert rows["predictions.<prediction>.guess"]["values"] == "mapping"
    assert rows["arms.<arm>.run_if"]["default"] == "none" and rows["quantities"]["help"]
