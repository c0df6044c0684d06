"""The list of keys is that of the reader: nothing more, nothing less, and every key says what it is."""

from __future__ import annotations

from ostinato.study.reference import SECTIONS, keys
from ostinato.study.shape import homes, study_keys


def test_every_key_of_a_section_is_listed_and_no_other():
    listed = {row["key"] for row in keys()}
    for section in SECTIONS:
        known = {".".join(place) for place in homes(study_keys()) if place[0] == section and len(place) > 1}
        leaves = {place for place in known if not any(other.startswith(place + ".") for other in known if "<" not in other)}
        mine = {key for key in listed if key.startswith(section + ".") and "<" not in key}
        assert mine == {place for place in leaves if "<" not in place}
    assert "recipe.groups.<role>.lr" in listed


def test_rows_are_readable():
    rows = {row["key"]: row for row in keys()}
    assert rows["model.d_model"]["default"] == "required" and rows["recipe.tokens"]["default"] == "500000"
    assert rows["model.positions"]["values"] == "none | rope | learned | alibi" and rows["model.norm.weight"]["default"] == "yes"
    assert not any("Validator" in row["values"] for row in rows.values()) and rows["recipe.clip"]["values"] == "number | none"
    assert rows["recipe.betas"]["default"] == "0.9, 0.95" and rows["data.corpus"]["help"]


def test_predictions_are_listed():
    rows = {row["key"]: row for row in keys()}
    assert {key for key in rows if key.startswith("predictions.")} == {
        ".".join(place) for place in homes(study_keys()) if place[0] == "predictions" and len(place) == 3}  # fmt: skip
    assert rows["predictions.<prediction>.supported"]["values"] == "text | mapping"
    assert rows["predictions.<prediction>.between"]["default"] == "BETWEEN"
    assert rows["predictions.<prediction>.guess"]["values"] == "mapping"
    assert rows["arms.<arm>.run_if"]["default"] == "none" and rows["quantities"]["help"]
