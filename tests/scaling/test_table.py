"""Tables: read, mapped, and what is left out or looks wrong is named."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ostinato.errors import FitError
from ostinato.scaling.table import NUMBERS, made, read_table


@pytest.fixture(scope="module")
def table(published):
    return published(keep=lambda row: row[4] in ("4.64e17", "1e18"))


def test_a_file_is_the_table(table, write, tmp_path):
    import pyarrow
    import pyarrow.parquet as parquet

    parquet.write_table(pyarrow.Table.from_pylist(table.records()), tmp_path / "table.parquet")
    for path in (write(table), tmp_path / "table.parquet"):
        found = read_table(path)
        assert np.array_equal(found.loss, table.loss) and np.array_equal(found.N_rec, table.N_rec)
        assert found.budget == table.budget and not found.notes and not found.warnings
    assert found.places[0] == "row 1"


def test_other_names_and_units_are_mapped(table, write):
    path = write(table, N_once="unique (M)", loss="val", D="tokens")
    text = path.read_text().splitlines()
    rows = [line.split(",") for line in text[1:]]
    path.write_text("\n".join([text[0]] + [",".join([repr(float(row[0]) / 1e6), *row[1:4], repr(float(row[4]) / math.log(2)), *row[5:]])
                                           for row in rows]))  # fmt: skip
    found = read_table(path, ["N_once=unique (M)*1e6", "loss = val", "D=tokens"], "bits")
    assert np.allclose(found.N_once, table.N_once) and np.allclose(found.loss, table.loss) and np.array_equal(found.D, table.D)


@pytest.mark.parametrize("columns, words", [
    ([], "no column loss"), (["loss=valid"], "--column loss=val"), (["loss"], "NAME=COLUMN"), (["lost=val"], "names are"),
    (["loss=val*zero"], "NAME=COLUMN"), (["loss=val*-1"], "NAME=COLUMN"), (["loss=val", "budget=r*2"], "no quantity"),
])  # fmt: skip
def test_a_mapping_that_is_wrong_says_what_is_right(table, write, columns, words):
    with pytest.raises(FitError, match=words.replace("*", r"\*")):
        read_table(write(table, loss="val"), columns)


def test_bad_rows_are_named_and_left_out(table, write):
    bad = [dict(table.records()[0], **change) for change in ({"loss": "nan"}, {"loss": "oops"}, {"D": -5}, {"r": 0.5}, {"N_once": ""})]
    found = read_table(write(table, more=bad))
    assert len(found) == len(table)
    last = len(table) + 2
    wanted = ["loss is nan", "loss is oops", "D is -5", "r is 0.5", "N_once is empty"]
    assert list(found.notes) == [f"line {last + at} is left out: {words}" for at, words in enumerate(wanted)]


def test_a_row_again_is_counted_once_and_another_seed_is_not(table, write):
    first = table.records()[0]
    found = read_table(write(table, more=[first]))
    assert len(found) == len(table) and found.notes == (f"line {len(table) + 2} is line 2 again: counted once",)
    seeds = made({"N_once": [1e6] * 2, "N_rec": [0] * 2, "r": [1] * 2, "D": [1e8] * 2, "loss": [3.0] * 2, "seed": [1, 2]}, "ab", "made")
    assert len(seeds) == 2 and not seeds.notes


def test_losses_in_bits_are_suspected_and_never_changed(table, write):
    records = [dict(row, loss=row["loss"] / math.log(2)) for row in table.records()]
    path = write(made({name: [row[name] for row in records] for name in records[0]}, table.places, "bits"))
    found = read_table(path)
    assert np.allclose(found.loss, table.loss / math.log(2)) and len(found.warnings) == 1 and "--unit bits" in found.warnings[0]
    said = read_table(path, unit="bits")
    assert np.allclose(said.loss, table.loss) and not said.warnings
    assert "was --unit bits said of nats" in read_table(write(table), unit="bits").warnings[0]


@pytest.mark.parametrize("parameters, tokens, words", [
    (1e6, 1, ["in millions, say so: --column N_once=N_once*1e6 --column N_rec=N_rec*1e6"]),
    (1, 1e9, ["in billions, say so: --column D=D*1e9"]),
    (1, 1e6, ["in millions, say so: --column D=D*1e6"]),
    (1e6, 1e9, ["--column N_rec=N_rec*1e6", "in billions, say so: --column D=D*1e9"]),
])  # fmt: skip
def test_another_unit_is_suspected_with_its_power(table, parameters, tokens, words):
    records = {name: list(getattr(table, name)) for name in NUMBERS}
    records |= {"N_once": list(table.N_once / parameters), "N_rec": list(table.N_rec / parameters),
                "D": list(np.minimum(table.D, 1e9) / tokens)}  # fmt: skip
    said = [one for one in made(records, table.places, "small").warnings if one.startswith(("N_once", "D"))]
    assert len(said) == len(words) and all(word in one for word, one in zip(words, said, strict=True))


def test_a_model_that_repeats_all_of_itself_is_a_row(table):
    whole = made({"N_once": [0, 0], "N_rec": [1e7, 0], "r": [2, 2], "D": [1e9, 1e9], "loss": [3.0, 3.0]}, ("a", "b"), "made")
    assert whole.N_rec.tolist() == [1e7] and whole.notes == ("b is left out: N_once is 0",)


@pytest.mark.parametrize("name, content, words", [
    ("none.csv", None, "no such file"), ("empty.csv", "", "names the columns"), ("one.csv", "a,a\n1,2\n", "names the columns"),
    ("head.csv", "N_once,N_rec,r,D,loss\n", "no row can be used"), ("latin.csv", b"N_once,\xff\xfe\n", "not UTF-8"),
    ("no.parquet", b"nothing", "can be read"), ("long.csv", f"a,b\n1,{'x' * 200_000}\n", "line 2: field larger .*\n.*131,072 characters"),
])  # fmt: skip
def test_a_file_that_is_no_table_says_so(tmp_path, name, content, words):
    if content is not None:
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(FitError, match=words):
        read_table(tmp_path / name)


def test_an_unknown_unit_is_refused(table, write):
    with pytest.raises(FitError, match="nats or bits"):
        read_table(write(table), unit="bytes")


def test_numbers_are_checked_as_they_are_scaled(table, write):
    path = write(table)
    halved = read_table(path, ["r=r*0.5"])
    assert len(halved) == (table.r > 1).sum() and halved.r.min() == 1
    assert halved.notes[0] == "line 2 is left out: r is 1.0 times 0.5"
    for name, power in (("D", "1e300"), ("D", "1e297"), ("N_rec", "1e299")):  # infinite itself, or in FLOPs
        with pytest.raises(FitError, match=rf"no row can be used \(line 2 is left out: {name} is \S+ times {power[:2]}\+{power[2:]}\)"):
            read_table(path, [f"{name}={name}*{power}"])
