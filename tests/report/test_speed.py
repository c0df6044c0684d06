"""Speed and memory beside what was foretold: sums over seeds, multiples of the reference, caches that must be as the ledger says."""

from __future__ import annotations

import pyarrow as pa
import pytest

from ostinato.analysis import results_table
from ostinato.analysis.speed import Rate, speeds
from ostinato.report.speed import section, speed_table


def table(forward_seconds, generation_seconds, cache=5000, foretold=5000, predicted=None):
    forward = {"what": "forward", "rows": 4, "seconds": forward_seconds, "bytes": 7000, "predicted_tokens_per_s": predicted}
    generation = {"what": "generation", "rows": 1, "seconds": generation_seconds, "bytes": cache, "predicted_bytes": foretold}
    unknown = {"predicted_tokens_per_s": None, "predicted_bytes": None, "tokens": 100}
    return pa.Table.from_pylist([unknown | forward, unknown | generation])


@pytest.fixture
def timed(filled, study):
    def write(arm, seed, *given, training=None, **more):
        folder = filled.runs_of(study)[arm, seed]
        about = {"device": "cpu", "threads": 2, "dtype": "float32", "training": training, "evaluation": None}
        folder.write_measure("speed", {}, max(at for _, at in folder.measured()), table(*given, **more), about)

    write("plain", 1, 0.1, 1.0, training=100.0, predicted=3000.0)
    write("plain", 2, 0.3, 1.0, training=300.0, predicted=1000.0)
    write("twice", 1, 0.4, 4.0, cache=9000, foretold=8000)
    return filled


def test_tokens_of_all_runs_by_their_seconds(timed, study):
    found = speeds(study, timed)
    assert found.keys() == {"plain", "twice"} and found["plain"].seeds == (1, 2) and found["twice"].seeds == (1,)
    assert found["plain"].forward == Rate(100, pytest.approx(800 / 0.4), pytest.approx(1500.0), 7000, None)
    assert found["plain"].generation == Rate(100, 100.0, None, 5000, 5000)
    assert found["plain"].training == pytest.approx(150.0) and found["twice"].training is None
    assert found["plain"].devices == ("cpu, float32, 2 threads",)


def test_multiples_of_the_reference_and_a_cache_that_is_not_as_foretold(timed, study):
    shown = speed_table(results_table(study, timed), speeds(study, timed))
    cells = {row.cells[0].text: dict(zip((column.label for column in shown.columns), row.cells, strict=True)) for row in shown.rows}
    assert list(cells) == ["plain", "twice"] and shown.rows[0].kind == "reference"
    assert [cells[arm]["forward tokens a second"].text for arm in cells] == ["2.00k", "1.00k (2.00×)"]
    assert cells["twice"]["generated tokens a second"].text.endswith("(4.00×)")
    assert cells["twice"]["training tokens a second"].text.endswith("(1×)"), "both log 0.15 s a step"
    assert cells["twice"]["cache"].tone == "warn" and cells["plain"]["cache"].tone == ""
    assert cells["plain"]["training foretold"].text == "150" and cells["twice"]["training foretold"].text == "–"
    assert all(column.page for column in shown.columns)


def test_a_section_says_how_many_caches_are_as_foretold(timed, study):
    found = section(study, timed, results_table(study, timed))
    assert "in 1 of 2 arms" in found.lead and "cpu, float32, 2 threads" in found.notes[0] and len(found.notes) == 1
    assert [row.cells[0].text for row in found.tables[0].rows] == ["plain", "twice"]


def test_without_a_calibration_nothing_is_foretold(filled, study):
    assert section(study, filled, results_table(study, filled)) is None
    folder = filled.runs_of(study)["deep", 1]
    about = {"device": "cpu", "threads": 1, "dtype": "float32", "training": None}
    folder.write_measure("speed", {}, 100, table(0.1, 0.2), about)
    found = section(study, filled, results_table(study, filled))
    assert "calibrate" in found.notes[1] and not all(column.page for column in found.tables[0].columns)
