"""A published table read: numbers with how exactly they are printed, and mistakes told with file, row, column and the nearest name."""

from __future__ import annotations

import pytest

from ostinato.claims import Measure
from ostinato.errors import StudyError
from ostinato.judge.published import What, as_table, column, printed, read_table, what


def write(tmp_path, text, name="table.csv"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(("text", "value", "half"), [
    ("50.33M", 50.33e6, 5e3), ("2.17e8", 2.17e8, 5e5), ("−0.0143", -0.0143, 5e-5), ("+0.0063", 0.0063, 5e-5), ("1378", 1378, 0.5),
    ("5.50Gi", 5.5 * 2**30, 0.005 * 2**30), ("012", 12, 0.5), ("1_000k", 1e6, 500),
])  # fmt: skip
def test_a_number_keeps_how_exactly_it_is_printed(text, value, half):
    assert (printed(text).value, printed(text).half) == (pytest.approx(value, rel=1e-15), pytest.approx(half, rel=1e-12))


def test_a_header_is_a_measure_without_its_arm_and_delta_is_minus_the_gain():
    asked, sign = column("delta(over=b, class=k≥2)")
    assert sign == -1 and column("gain(class='k >= 2', over=b, unit=nats)") == (asked, 1)
    assert asked == what(Measure("gain", "x", (("class", "k >= 2"), ("over", "b"))))
    assert str(asked) == "gain(class=k >= 2, over=b)" and str(column("ppl")[0]) == "ppl"
    assert column("loss")[0] == What("loss", (("part", "validation"), ("unit", "nats")))


def test_csv_and_both_kinds_of_json_are_one_table(tmp_path):
    csv = read_table(write(tmp_path, '\ufeffarm,seed,against,"delta(class=k>=2, unit=bits)",params\nb,1,,,7\na,2,b,-0.10,1.5k\n\n'))
    records = read_table(write(tmp_path, '[{"arm": "b", "seed": 1, "params": 7}, {"arm": "a", "seed": 2, "against": "b", '
                                         '"delta(class=k>=2, unit=bits)": -0.10, "params": "1.5k"}]', "t.json"))  # fmt: skip
    by_arm = read_table(write(tmp_path, '{"b": {"seed": 1, "params": 7}, "a": {"seed": 2, "against": "b", "params": "1.5k", '
                                        '"delta(class=k>=2, unit=bits)": -0.10}}', "u.json"))  # fmt: skip
    assert [list(table.arms) for table in (csv, records, by_arm)] == [["b", "a"]] * 3
    for table in (csv, records, by_arm):
        (line,) = table.arms["a"]
        gain = line.cells[column("gain(class=k>=2, unit=bits)")[0]]
        assert (line.seed, line.against, gain.value, gain.half) == (2, "b", 0.1, pytest.approx(0.005))  # the zero at the end counts
        assert line.cells[What("params")].value == 1500
        assert set(table.arms["b"][0].cells) == {What("params")}  # empty, or not there: not printed


@pytest.mark.parametrize(("text", "told"), [
    ("arm,los\na,1\n", ["table.csv", "'los'", "loss"]),
    ("arm,loss(unit=bit)\na,1\n", ["table.csv", "loss(unit=bit)", "bits"]),
    ("arm,loss(seed=3)\na,1\n", ["loss(seed=3)", "seed"]),
    ("arm,lens(class=new)\na,1\n", ["lens(class=new)", "application"]),
    ("arm,loss,loss(unit=nats)\na,1,1\n", ["'loss'", "'loss(unit=nats)'", "one measure"]),
    ("arm,gain,delta\na,1,1\n", ["'gain'", "'delta'", "one measure"]),
    ("arm,loss,loss\na,1,1\n", ["two columns 'loss'"]),
    ("model,loss\na,1\n", ["first column", "'arm'"]),
    ("", ["first column"]),
    ("arm,loss\n", ["no rows"]),
    ("arm,loss\na,1\nb,2.7x\n", ["line 3", "arm b", "'loss'", "2.7x"]),
    ("arm,loss\na,nan\n", ["line 2", "'loss'", "nan"]),
    ("arm,loss\na,1\na,2\n", ["line 3", "'a'", "line 2"]),
    ("arm,seed,loss\na,1,1\na,01,2\n", ["with seed 1"]),
    ("arm,seed,loss\na,x,1\n", ["seed", "'x'"]),
    ("arm,loss\na,1,2\n", ["line 2", "3 cells", "2 headers"]),
    ("arm,loss\n,1\n", ["line 2", "no arm"]),
    ("arm,against,loss\nbase,,1\na,bse,1\n", ["line 3", "'bse'", "base"]),
    ('arm,loss\na,"1\n', ["table.csv"]),
])  # fmt: skip
def test_a_mistake_names_file_row_column_and_the_nearest_name(tmp_path, text, told):
    with pytest.raises(StudyError) as error:
        read_table(write(tmp_path, text))
    assert all(part in str(error.value) for part in told), str(error.value)


@pytest.mark.parametrize(("text", "told"), [
    ('[{"loss": 1}]', ["row 1", "no arm"]), ('[{"arm": "a", "loss": [1]}]', ["row 1", "'loss'", "is no number"]), ("3", ["neither"]),
    ('[{"arm": "a", "loss": true}]', ["True"]), ('[{"arm": "a", "arm": "b"}]', ["twice"]), ('{"a": 3}', ["no record"]), ("{", ["t.json"]),
    ("[" * 100_000, ["t.json"]),
])  # fmt: skip
def test_mistakes_in_json_are_told_as_well(tmp_path, text, told):
    with pytest.raises(StudyError) as error:
        read_table(write(tmp_path, text, "t.json"))
    assert all(part in str(error.value) for part in told), str(error.value)


def test_files_that_are_no_tables(tmp_path):
    with pytest.raises(StudyError, match="is of no kind known"):
        read_table(write(tmp_path, "arm", "table.txt"))
    with pytest.raises(StudyError, match="No such file"):
        read_table(tmp_path / "none.csv")
    (tmp_path / "latin.csv").write_bytes(b"arm,loss\n\xe9,1\n")
    with pytest.raises(StudyError, match="not UTF-8"):
        read_table(tmp_path / "latin.csv")


def test_arms_have_a_line_for_each_seed():
    table = as_table("t", [("row 1", {"arm": "a", "seed": "1", "loss": "2"}), ("row 2", {"arm": "a", "seed": "2", "loss": "3"})])
    assert [line.seed for line in table.arms["a"]] == [1, 2]


@pytest.mark.parametrize(("header", "cell"), [("loss", "-1"), ("ppl", "0.5"), ("params", "-3M"), ("flops", "-1"), ("seconds", "-2")])
def test_a_cell_that_no_run_can_give_is_refused_with_its_place(tmp_path, header, cell):
    (tmp_path / "t.csv").write_text(f"arm,{header}\na,{cell}\n")
    with pytest.raises(StudyError, match=rf"t\.csv, line 2 \(arm a\), column '{header}': {cell} is no {header}"):
        read_table(tmp_path / "t.csv")
    (tmp_path / "t.csv").write_text("arm,loss\na,0\n")
    assert len(read_table(tmp_path / "t.csv").lines) == 1
