"""The calibration file: found by what it was measured on, and ignored with a line when it is of no use."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from ostinato.ledger.seconds import Calibration, CompiledProbe, Pace
from ostinato.store.calibration import KEY, calibration_key, calibration_path, found_calibration, read_calibration, write_calibration

RATES = {"products": 1e-11, "calls": 0.0}
MADE = Calibration("a processor", 2, "2026-11-30T00:00:00+00:00", (Pace(1, 2, "float32", RATES, RATES, 2.0, 0.01),),
                   (CompiledProbe(64, 1.2, 9.0),))  # fmt: skip


@pytest.fixture
def key():
    return {"device": "a processor", "cores": 2, "torch": "2.13.0", "version": 1}


def test_what_is_written_is_read(tmp_path, key):
    assert read_calibration(tmp_path, key) == (None, None)
    path = write_calibration(tmp_path, key, MADE, [])
    assert path == calibration_path(tmp_path, key) and read_calibration(tmp_path, key) == (MADE, None)
    assert all(read_calibration(tmp_path, key | {name: "other"}) == (None, None) for name in KEY), "another machine has another file"


@pytest.mark.parametrize("change", [
    {"device": "another processor"}, {"version": 0}, {"paces": None}, {"paces": [{}]}, {"made": None, "cores": "two"}, {"compiled": [3]},
    {"paces": []}, {"compiled": [{"width": 0, "ratio": 1.2, "seconds": 9.0}]}, {"compiled": [{"width": 64, "ratio": 0.0, "seconds": 9.0}]},
])  # fmt: skip
def test_a_foreign_or_odd_file_is_ignored_with_a_line(tmp_path, key, change):
    path = write_calibration(tmp_path, key, MADE, [])
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    made, why = read_calibration(tmp_path, key)
    assert made is None and str(path) in why and "ostinato calibrate" in why


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "3"])
def test_a_torn_file_is_ignored_with_a_line(tmp_path, key, text):
    path = write_calibration(tmp_path, key, MADE, [])
    path.write_text(text)
    assert read_calibration(tmp_path, key)[0] is None and "is ignored" in read_calibration(tmp_path, key)[1]


@pytest.mark.parametrize("rate", ["-1e-11", "NaN", "Infinity", "1e999"])
def test_negative_rates_and_such_are_no_calibration(tmp_path, key, rate):
    path = write_calibration(tmp_path, key, MADE, [])
    assert "1e-11" in path.read_text()
    path.write_text(path.read_text().replace("1e-11", rate))
    assert read_calibration(tmp_path, key)[0] is None


def test_this_machine_has_a_key(monkeypatch, tmp_path, caplog):
    monkeypatch.setenv("OSTINATO_CACHE", str(tmp_path))
    key = calibration_key("cpu")
    assert key["device"] and key["cores"] >= 1 and key["torch"]
    assert found_calibration("cpu") is None and not caplog.records
    calibration_path(tmp_path, key).parent.mkdir()
    calibration_path(tmp_path, key).write_text("{")
    assert found_calibration("cpu") is None and "is ignored" in caplog.text


def test_reading_needs_no_arrays():
    code = (
        "import sys; from ostinato.store.calibration import found_calibration; found_calibration('cpu'); "
        "found = {'torch', 'scipy', 'numpy'} & set(sys.modules); assert not found, found"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
