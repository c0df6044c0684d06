"""The list of measures: each is where it says, who can be measured, and what is lacking is known without torch."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pyarrow as pa
import pytest

from ostinato.errors import StudyError
from ostinato.measure.all import MEASURES, asked, inputs_of_measures, lacking, stored, tokens_of, why_not
from ostinato.store import RunFolder
from ostinato.study.records import MEASURE_NAMES, Measure

TABLE = pa.table({"x": [1]})


def test_every_measure_is_where_it_says():
    assert tuple(MEASURES) == MEASURE_NAMES
    for kind in MEASURES.values():
        assert callable(importlib.import_module(kind.module).take)


def test_asked_is_in_order_and_unknown_names_are_told():
    assert asked(["heads", "lens"]) == ("lens", "heads") and asked(None) is None
    with pytest.raises(StudyError, match="did you mean lens"):
        asked(["lense"])


def test_why_a_measure_cannot_be_taken(small_model):
    plain, looped, hybrid = small_model(), small_model(schedule="(1..2)x2"), small_model(layers="gdn gdn")
    measure = Measure()
    assert why_not("depths", measure, plain) == "this model has nothing of the kind" and why_not("depths", measure, looped) is None
    assert why_not("heads", measure, hybrid) and why_not("heads", measure, plain) is None
    assert why_not("pairs", measure, plain) == "no minimal pairs are named" and why_not("pairs", Measure(pairs="blimp"), None) is None
    assert why_not("speed", measure, None) == "it is of models of this package"
    assert why_not("lens", measure, None) is None and why_not("lens", measure, None, text=False) == "no text is named"


def test_what_is_lacking(tmp_path, small_model):
    folder, measure = RunFolder(tmp_path / "run"), Measure(take=("lens", "depths", "pairs"), targets=100)
    assert lacking(folder, measure, small_model(), 10, "key") == ("lens",)
    folder.write_measure("lens", {"targets": 100, "target_id": "t"}, 10, TABLE, {"evaluation": "key"})
    assert lacking(folder, measure, small_model(), 10, "key") == ()
    assert lacking(folder, measure, small_model(), 20, "key") == ("lens",), "another checkpoint"
    assert lacking(folder, measure, small_model(), 10, "other") == ("lens",), "other windows"
    assert lacking(folder, measure.model_copy(update={"targets": 99}), small_model(), 10, "key") == ("lens",), "another number of targets"
    pairs = measure.model_copy(update={"pairs": "blimp"})
    assert not stored(folder, "pairs", pairs, 10, None)
    folder.write_measure("pairs", {"content": "x"}, 10, TABLE, {"pairs": "blimp"})
    assert stored(folder, "pairs", pairs, 10, None) and not stored(folder, "pairs", Measure(pairs="/other"), 10, None)


def test_work_is_told_before(small_model):
    measure = Measure(targets=1000)
    assert tokens_of("skips", measure, 10) > tokens_of("skips", measure, 2) > 1000
    assert inputs_of_measures(measure, small_model()) < inputs_of_measures(measure.model_copy(update={"pairs": "blimp"}), small_model())
    assert inputs_of_measures(Measure(take=()), small_model()) == 0


def test_no_torch():
    subprocess.run([sys.executable, "-c", "import sys, ostinato.measure.all; assert 'torch' not in sys.modules"], check=True)
